"""SQL conditions of fields. They keep spans from being read, so they may pass spans that the evaluation drops.

Attributes are texts in the lake, and arrays are JSON that begins with `[`. Numbers compare as floats, which may be
rounded: so `>` becomes `>=`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from neve.traceql.evaluation.span_batch import SCOPES
from neve.traceql.language.fields import COMPARISONS, Attribute, Binary, Existence, Static, Type, Unary
from neve.traceql.storage.columns import LISTS, MAPS
from neve.traceql.storage.sql import FALSE, Sql, join_all, join_any

if TYPE_CHECKING:
    from neve.traceql.language.fields import Field

__all__ = ["narrow"]

_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_ROUNDED = {"<": "<=", ">": ">="}
_HEX = re.compile(r"(?:[0-9a-fA-F]{2})+")
_TEXT_COLUMNS = {
    "name": "operation_name",
    "statusMessage": "status_message",
    "instrumentation:name": "scope_name",
    "instrumentation:version": "scope_version",
}
_CODE_COLUMNS = {"status": "status_code", "kind": "span_kind"}
_ID_COLUMNS = {"trace:id": "trace_id", "span:id": "span_id", "span:parentID": "parent_span_id"}
_SLACK = 1e-9  # of a duration, whose column is rounded


def narrow(node: Field) -> Sql | None:
    """Return a condition that holds for all spans for which a field is true, or `None` if there is none."""
    match node:
        case Static():
            return None if node.value is True else FALSE
        case Attribute():
            return _test_attribute(node, Sql("{} = 'true'"))
        case Existence():
            return None if node.is_absent else _require(node.operand)
        case Binary(operator="&&" | "||"):
            join = join_all if node.operator == "&&" else join_any
            return join([narrow(node.left), narrow(node.right)])
        case Binary():
            return _narrow_comparison(node)
    return None


def _narrow_comparison(node: Binary) -> Sql | None:
    left, right, symbol = node.left, node.right, node.operator
    if isinstance(left, Static) and isinstance(right, Attribute):
        left, right, symbol = right, left, _FLIPPED.get(symbol, symbol)
    if isinstance(left, Attribute) and isinstance(right, Static):
        if left.scope == "intrinsic":
            return _compare_intrinsic(left.name, symbol, right)
        return _test_attribute(left, _write_test(symbol, right))
    return join_all([_require(left), _require(right)])


def _require(node: Field) -> Sql | None:
    """Return the condition that the attributes of arithmetic exist."""
    match node:
        case Attribute():
            return _test_attribute(node, Sql("{} IS NOT NULL"))
        case Unary(operator="-"):
            return _require(node.operand)
        case Binary() if node.operator in "+-*/%^":
            return join_all([_require(node.left), _require(node.right)])
    return None


def _write_test(symbol: str, value: Static) -> Sql:
    """Return the condition on the text of an attribute."""
    if symbol in {"!=", "!~"}:
        return Sql("{} IS NOT NULL")
    array = "starts_with({}, '[')"
    match value.type:
        case Type.STRING if symbol == "=~":
            return Sql(f"(regexp_full_match({{}}, ?, 's') OR {array})", (value.value,))
        case Type.STRING:
            return Sql(f"({{}} {symbol} ? OR {array})", (value.value,))
        case Type.BOOL:
            return Sql(f"({{}} = ? OR {array})", ("true" if value.value else "false",))
        case Type.INT | Type.FLOAT | Type.DURATION:
            return Sql(f"(TRY_CAST({{}} AS DOUBLE) {_ROUNDED.get(symbol, symbol)} ? OR {array})", (float(value.value),))
    return FALSE  # attributes have neither statuses nor kinds


def _test_attribute(attribute: Attribute, test: Sql) -> Sql | None:
    """Return a test of an attribute in its scope, or in any."""
    if attribute.scope == "intrinsic":
        return None
    scopes = (attribute.scope,) if attribute.scope else SCOPES
    return join_any([_test_scope(scope, attribute.name, test) for scope in scopes])


def _test_scope(scope: str, name: str, test: Sql) -> Sql:
    if (scope, name) == ("resource", "service.name"):
        return test.apply(Sql("service_name"))
    if scope in LISTS:
        inside = test.apply(Sql("e.attributes[?]", (name,)))
        return Sql(f"len(list_filter({LISTS[scope]}, e -> {inside.text})) > 0", inside.parameters)
    return test.apply(Sql(f"{MAPS[scope][0]}[?]", (name,)))


def _compare_intrinsic(name: str, symbol: str, value: Static) -> Sql | None:
    if name in _TEXT_COLUMNS:
        return _compare_text(f"coalesce({_TEXT_COLUMNS[name]}, '')", _TEXT_COLUMNS[name], symbol, value.value)
    if name in _CODE_COLUMNS:
        column = _CODE_COLUMNS[name] if value.value and symbol == "=" else f"coalesce({_CODE_COLUMNS[name]}, 0)"
        return Sql(f"{column} {'=' if symbol == '=' else '<>'} ?", (value.value,))
    if name in _ID_COLUMNS:
        return _compare_id(_ID_COLUMNS[name], symbol, value.value)
    if name == "duration":
        return _compare_duration(symbol, float(value.value))
    if name == "event:name" and symbol in {"=", "=~"}:
        inside = _compare_text("e.name", "e.name", symbol, value.value)
        return Sql(f"len(list_filter(events, e -> {inside.text})) > 0", inside.parameters)
    return None


def _compare_id(column: str, symbol: str, digits: str) -> Sql | None:
    if symbol != "=":
        return None
    if not digits:
        return Sql(f"{column} IS NULL")
    return Sql(f"{column} = unhex('{digits}')") if _HEX.fullmatch(digits) else FALSE


def _compare_text(filled: str, column: str, symbol: str, text: str) -> Sql:
    if symbol == "=~":
        return Sql(f"regexp_full_match({filled}, ?, 's')", (text,))
    if symbol == "!~":
        return Sql(f"NOT regexp_full_match({filled}, ?, 's')", (text,))
    if symbol == "=" and text:
        return Sql(f"{column} = ?", (text,))  # the plain column prunes files
    return Sql(f"{filled} {'<>' if symbol == '!=' else symbol} ?", (text,))


def _compare_duration(symbol: str, nanoseconds: float) -> Sql | None:
    """Return a condition on the column of milliseconds, which is null without an end, where the duration is 0."""
    if symbol not in COMPARISONS or nanoseconds <= 0:
        return None
    limit = nanoseconds / 1e6
    if symbol in {">", ">="}:
        return Sql("duration_ms >= ?", (limit * (1 - _SLACK),))
    if symbol in {"<", "<="}:
        return Sql("(duration_ms <= ? OR duration_ms IS NULL)", (limit * (1 + _SLACK),))
    if symbol == "=":
        return Sql("duration_ms BETWEEN ? AND ?", (limit * (1 - _SLACK), limit * (1 + _SLACK)))
    return None
