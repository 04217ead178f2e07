"""Operators and functions of OTTL in SQL: arithmetic, comparisons, and the supported converters.

Times and durations are nanoseconds. Values of different types are never equal and never ordered, except integers and
floating-point numbers. Nil equals nil alone. NaN equals nothing, unlike in SQL.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from neve.tail.policy import conditions
from neve.tail.policy.config.value_types import parse_nanoseconds
from neve.tail.policy.ottl.syntax import OttlError, make_unsupported_error
from neve.tail.policy.ottl.values import Kind, Value, convert_to_text, is_none_of, measure_size
from neve.tail.policy.span_sql import FALSE, TRUE, Sql, all_of, any_of, blob, column, integer, join_sql, sql, text

if TYPE_CHECKING:
    from collections.abc import Callable


# Result types of operand types. Other combinations fail.
NUMBER_RESULTS = {
    (Kind.INT, Kind.INT): Kind.INT,
    (Kind.INT, Kind.FLOAT): Kind.FLOAT,
    (Kind.FLOAT, Kind.INT): Kind.FLOAT,
    (Kind.FLOAT, Kind.FLOAT): Kind.FLOAT,
}
TIME_SUMS = {
    (Kind.TIME, Kind.DURATION): Kind.TIME,
    (Kind.DURATION, Kind.TIME): Kind.TIME,
    (Kind.DURATION, Kind.DURATION): Kind.DURATION,
}
TIME_DIFFERENCES = {
    (Kind.TIME, Kind.TIME): Kind.DURATION,
    (Kind.TIME, Kind.DURATION): Kind.TIME,
    (Kind.DURATION, Kind.DURATION): Kind.DURATION,
}
_WIDE = "CAST({} AS HUGEINT)"
_HALF, _ALL = f"CAST({1 << 63} AS HUGEINT)", f"CAST({1 << 64} AS HUGEINT)"
RESULTS = {
    "+": NUMBER_RESULTS | TIME_SUMS,
    "-": NUMBER_RESULTS | TIME_DIFFERENCES,
    "*": NUMBER_RESULTS,
    "/": NUMBER_RESULTS,
}


def calculate(operator: str, left: Value, right: Value) -> Value:
    """Build an operation on two values, which fails for incompatible types and for division by 0."""
    found: dict[Kind, list[Sql]] = {}
    for (one, other), kind in RESULTS[operator].items():
        if one in left.kinds and other in right.kinds:
            found.setdefault(kind, []).append(_build_operation(operator, left.kinds[one], right.kinds[other], kind))
    if not found:
        raise OttlError(f"{_describe_value(left)} {operator} {_describe_value(right)} is not defined")
    kinds = {kind: _coalesce_results(results) for kind, results in found.items()}
    return Value(kinds, fails=is_none_of(kinds))


def negate(value: Value) -> Value:
    """Build the negation of a number."""
    kinds: dict[Kind, Sql] = {}
    if Kind.INT in value.kinds:
        kinds[Kind.INT] = _wrap_to_int64(sql(f"(- {_WIDE})", value.kinds[Kind.INT]))
    if Kind.FLOAT in value.kinds:
        kinds[Kind.FLOAT] = sql("(- {})", value.kinds[Kind.FLOAT])
    if not kinds:
        raise OttlError(f"- {_describe_value(value)} is not defined")
    return Value(kinds, fails=is_none_of(kinds))


def _build_operation(operator: str, left: Sql, right: Sql, kind: Kind) -> Sql:
    if kind is Kind.FLOAT:
        left, right = sql("CAST({} AS DOUBLE)", left), sql("CAST({} AS DOUBLE)", right)
        return sql(f"({{}} {operator} {{}})", left, sql("nullif({}, 0)", right) if operator == "/" else right)
    symbol = "//" if operator == "/" else operator
    return _wrap_to_int64(
        sql(f"({_WIDE} {symbol} {_WIDE})", left, sql("nullif({}, 0)", right) if operator == "/" else right)
    )


def _wrap_to_int64(number: Sql) -> Sql:
    """Wrap a number to 64 bits on overflow, as in Go."""
    return sql(f"CAST((({{}} + {_HALF}) % {_ALL} + {_ALL}) % {_ALL} - {_HALF} AS BIGINT)", number)


def _coalesce_results(results: list[Sql]) -> Sql:
    return results[0] if len(results) == 1 else sql("coalesce({})", join_sql(", ", results))


def _describe_value(value: Value) -> str:
    return value.what or " or ".join(value.kinds) or "nil"


ORDERED_KINDS = (Kind.BOOL, Kind.BYTES, Kind.TIME, Kind.DURATION)
UNORDERED_KINDS = (Kind.LIST, Kind.MAP, Kind.TRACE_ID, Kind.SPAN_ID)
NUMBER_KINDS = (Kind.INT, Kind.FLOAT)
# Texts are last, as an attribute of unknown type is a text in addition to the type of its form.
COMPARABLE_PAIRS = (
    *((left, right) for left in NUMBER_KINDS for right in NUMBER_KINDS),
    *((kind, kind) for kind in (*ORDERED_KINDS, *UNORDERED_KINDS, Kind.STRING)),
)
EQUAL = "=="
INCLUDING_EQUAL = (EQUAL, "<=", ">=")
SYMBOLS = {EQUAL: "=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}


def compare_values(left: Value, right: Value, operator: str) -> Sql:
    """Build a comparison, which is null if one of the values fails."""
    if operator == "!=":
        return sql("(NOT {})", compare_values(left, right, EQUAL))
    for value, other in ((left, right), (right, left)):
        if value.size is not None and other.literal != (None,):
            raise make_unsupported_error(f"comparison of all of {value.what}", f"Len({value.what})")
    outcome = _compare_kinds(left, right, operator)
    fails = any_of([left.fails, right.fails])
    return outcome if fails == FALSE else sql("CASE WHEN NOT {} THEN {} END", fails, outcome)


def _compare_kinds(left: Value, right: Value, operator: str) -> Sql:
    """Compare by the first pair of types that both values have.

    Each comparison is null if a value is not of its type.
    """
    chain = [
        _compare_pair(left.kinds[one], right.kinds[other], one, other, operator)
        for one, other in COMPARABLE_PAIRS
        if one in left.kinds and other in right.kinds and (operator == EQUAL or one not in UNORDERED_KINDS)
    ]
    if operator in INCLUDING_EQUAL and FALSE not in (left.nil, right.nil):
        chain.append(all_of([left.nil, right.nil]))
    if not chain:
        return FALSE
    return sql("coalesce({}, false)", join_sql(", ", chain))


def _compare_pair(left: Sql, right: Sql, one: Kind, other: Kind, operator: str) -> Sql:
    if Kind.FLOAT not in (one, other):
        return sql(f"({{}} {SYMBOLS[operator]} {{}})", left, right)
    left, right = _as_float(left, one), _as_float(right, other)
    # In SQL, NaN is greater than all numbers and equal to itself.
    largest = right if operator in ("<", "<=") else left
    return sql(f"({{}} {SYMBOLS[operator]} {{}} AND NOT isnan({{}}))", left, right, largest)


def _as_float(number: Sql, kind: Kind) -> Sql:
    return number if kind is Kind.FLOAT else sql("CAST({} AS DOUBLE)", number)


ID_BYTES = {Kind.TRACE_ID: 16, Kind.SPAN_ID: 8}


@dataclass(frozen=True)
class Function:
    """Function of OTTL: its parameters, its builder, and the contexts in which it is allowed."""

    parameters: tuple[str, ...]
    make: Callable[..., Value]
    contexts: tuple[str, ...] = ("span", "spanevent")


def call_function(name: str, context: str, positional: list[Value], named: dict[str, Value]) -> Value:
    """Build the value of a function call.

    Raises `OttlError`.
    """
    function = FUNCTIONS.get(name)
    if function is None or context not in function.contexts:
        known = ", ".join(one for one, made in sorted(FUNCTIONS.items()) if context in made.contexts)
        where = "" if function is None else " of an event"
        raise make_unsupported_error(f"function {name}{where}", known)
    given = dict(zip(function.parameters, positional, strict=False)) | named
    count = len(positional) + len(named)
    if count != len(function.parameters) or set(given) != set(function.parameters):
        raise OttlError(f"{name} was given {count} arguments, expected {', '.join(function.parameters) or 'none'}")
    return function.make(*(given[parameter] for parameter in function.parameters))


def _make_boolean(condition: Sql, fails: Sql = FALSE) -> Value:
    """Build a boolean value, which is null where it fails."""
    if fails == FALSE:
        return Value({Kind.BOOL: condition})
    return Value({Kind.BOOL: sql("CASE WHEN NOT {} THEN {} END", fails, condition)}, fails=fails)


def _require_literal_text(value: Value, what: str) -> str:
    if not value.literal:
        raise make_unsupported_error(f"{what} that is not a text in quotes")
    if not isinstance(value.literal[0], str):
        raise OttlError(f"{what} is {value.literal[0]!r}, expected a text in quotes")
    return value.literal[0]


def _is_match(target: Value, pattern: Value) -> Value:
    wanted = _require_literal_text(pattern, "pattern of IsMatch")
    problem = conditions.find_regex_error(wanted)
    if problem is not None:
        raise OttlError(f"the pattern {wanted!r} is not a regular expression of RE2: {problem}")
    if target.literal == (None,):
        return _make_boolean(FALSE)
    converted, fails = convert_to_text(target)
    return _make_boolean(sql("coalesce(regexp_matches({}, {}), false)", converted, text(wanted)), fails)


def _make_kind_check(kind: Kind) -> Callable[[Value], Value]:
    def check(target: Value) -> Value:
        if kind is Kind.MAP and target.size is not None and target.what.endswith("attributes"):
            return _make_boolean(TRUE)
        if kind is Kind.LIST and target.what.endswith("events"):
            return _make_boolean(TRUE)
        found = target.kinds.get(kind)
        if found is None:
            return _make_boolean(FALSE, target.fails)
        return _make_boolean(sql("({} IS NOT NULL)", found), target.fails)

    return check


def _make_affix_check(how: str, what: str) -> Callable[[Value, Value], Value]:
    """Build a prefix or suffix test, which fails for a value that is not a text."""

    def check(target: Value, part: Value) -> Value:
        wanted = text(_require_literal_text(part, f"{what} of a text"))
        found = target.kinds.get(Kind.STRING)
        if found is None:
            raise OttlError(f"{target.what or 'this'} is not a text and can't have a {what}")
        never_fails = set(target.kinds) == {Kind.STRING} and target.nil == FALSE
        fails = target.fails if never_fails else any_of([target.fails, sql("({} IS NULL)", found)])
        return _make_boolean(sql(f"{how}({{}}, {{}})", found, wanted), fails)

    return check


def _make_id_literal(kind: Kind) -> Callable[[Value], Value]:
    def make(target: Value) -> Value:
        if not target.literal:
            raise make_unsupported_error(f"{kind} that is not a literal")
        written, length = target.literal[0], ID_BYTES[kind]
        found = written if isinstance(written, bytes) else str(written).encode()
        if len(found) == 2 * length:
            try:
                found = bytes.fromhex(found.decode())
            except ValueError:
                raise OttlError(f"{written!r} is no {kind}, expected {2 * length} hexadecimal digits") from None
        if not isinstance(written, str | bytes) or len(found) != length:
            raise OttlError(f"{written!r} is no {kind}, expected {length} bytes or {2 * length} hexadecimal digits")
        return Value({kind: blob(found)})

    return make


def _duration(duration: Value) -> Value:
    try:
        length = parse_nanoseconds(_require_literal_text(duration, "duration"))
    except ValueError as error:
        raise error if isinstance(error, OttlError) else OttlError(str(error)) from None
    return Value({Kind.DURATION: integer(length)})


def _is_root() -> Value:
    return _make_boolean(sql("({} IS NULL)", column("parent_span_id")))


FUNCTIONS = {
    "IsMatch": Function(("target", "pattern"), _is_match),
    "IsString": Function(("target",), _make_kind_check(Kind.STRING)),
    "IsInt": Function(("target",), _make_kind_check(Kind.INT)),
    "IsDouble": Function(("target",), _make_kind_check(Kind.FLOAT)),
    "IsBool": Function(("target",), _make_kind_check(Kind.BOOL)),
    "IsMap": Function(("target",), _make_kind_check(Kind.MAP)),
    "IsList": Function(("target",), _make_kind_check(Kind.LIST)),
    "Len": Function(("target",), measure_size),
    "HasPrefix": Function(("target", "prefix"), _make_affix_check("starts_with", "prefix")),
    "HasSuffix": Function(("target", "suffix"), _make_affix_check("ends_with", "suffix")),
    "SpanID": Function(("target",), _make_id_literal(Kind.SPAN_ID)),
    "TraceID": Function(("target",), _make_id_literal(Kind.TRACE_ID)),
    "Duration": Function(("duration",), _duration),
    "IsRootSpan": Function((), _is_root, ("span",)),
}
