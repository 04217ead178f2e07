"""A column compared with values: what Iceberg can say of it, type by type.

DuckDB's rules decide what a comparison means. Where it would compare in a type that rounds, nothing is said.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

from pyiceberg.expressions import AlwaysFalse, And, BooleanExpression, Or
from pyiceberg.expressions.literals import DateLiteral, TimestampLiteral
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    TimestampType,
    TimestamptzType,
)
from sqlglot import exp

from neve.query.scan.constants import MOMENTS, Constant, constant, is_fixed, is_text
from neve.query.scan.expressions import NOTHING, all_of, any_of, is_nan, not_null, said

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyiceberg.types import IcebergType

    from neve.query.scan.terms import Term

INTEGERS = {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"}
DECIMAL = re.compile(r"^DECIMAL\((\d+),\d+\)$")
EXACT_DIGITS = 18  # decimals up to here are compared with integers as decimals, never as floating point
EXACT_DOUBLE = 2**53  # up to here an integer and its double are the same number
RANGES: dict[type[IcebergType], tuple[int, int]] = {IntegerType: (-(2**31), 2**31 - 1), LongType: (-(2**63), 2**63 - 1)}
MOST_MEMBERS = 5_000
APART = 200  # members that Iceberg looks at one by one


def compare(term: Term, operator: str, nodes: Sequence[exp.Expr]) -> BooleanExpression:
    """A term compared with the first of some values; the others have a say in the type that is compared in."""
    known = _constants(term, nodes)
    return _compare(term, operator, known[0]) if known else NOTHING


def members(term: Term, nodes: Sequence[exp.Expr], *, truth: bool) -> BooleanExpression:
    """A term that is one of some values, or none of them."""
    known = _constants(term, nodes) if len(nodes) <= MOST_MEMBERS else None
    if not known:
        return NOTHING
    if not truth:
        few = known if len(known) <= APART else []
        return all_of([_compare(term, "<>", value) for value in few])
    there = [value for value in known if not value.is_null]
    if len(there) <= APART:
        return any_of([_compare(term, "=", value) for value in there]) if there else AlwaysFalse()
    low, high = min(there, key=lambda value: value.low), max(there, key=lambda value: value.high)
    return And(_compare(term, ">=", low), _compare(term, "<=", high))


def _constants(term: Term, nodes: Sequence[exp.Expr]) -> list[Constant] | None:
    """The values, if each is one that the column's type is compared with as it is."""
    known = []
    for node in nodes:
        value = _constant(term, node)
        if value is None:
            return None
        known.append(value)
    return known if _is_exact(term, known) else None


def _constant(term: Term, node: exp.Expr) -> Constant | None:
    read = _READERS.get(type(term.kind))
    return read(term, node) if read else None


def _moment(term: Term, node: exp.Expr) -> Constant | None:
    text = is_text(node)
    moment = exp.cast(node.copy(), "DATE") if text and term.is_date else node
    return _if_of(constant(moment, "TIMESTAMPTZ"), MOMENTS, text=text)


def _day(_: Term, node: exp.Expr) -> Constant | None:
    return _if_of(constant(node, "DATE"), {"DATE"}, text=is_text(node)) if is_fixed(node) else None


def _binary(_: Term, node: exp.Expr) -> Constant | None:
    return _if_of(constant(node, "BLOB"), {"BLOB"}, text=is_text(node))


def _double(_: Term, node: exp.Expr) -> Constant | None:
    return _if_of(constant(node, "DOUBLE"), INTEGERS | {"DOUBLE", "FLOAT", "DECIMAL"})


def _integer(_: Term, node: exp.Expr) -> Constant | None:
    return _if_of(constant(node), INTEGERS | {"DOUBLE", "DECIMAL"})


def _text(_: Term, node: exp.Expr) -> Constant | None:
    return _if_of(constant(node), {"VARCHAR"})


def _boolean(_: Term, node: exp.Expr) -> Constant | None:
    return _if_of(constant(node), {"BOOLEAN"})


_READERS: dict[type[IcebergType], Callable[[Term, exp.Expr], Constant | None]] = {
    TimestamptzType: _moment,
    TimestampType: _moment,
    DateType: _day,
    BinaryType: _binary,
    DoubleType: _double,
    IntegerType: _integer,
    LongType: _integer,
    StringType: _text,
    BooleanType: _boolean,
}


def _if_of(value: Constant | None, kinds: set[str], *, text: bool = False) -> Constant | None:
    """The value if it has one of some types; a text in quotes takes any type."""
    if value is None or value.is_null or text or value.kind.partition("(")[0] in kinds:
        return value
    return None


def _is_exact(term: Term, known: list[Constant]) -> bool:
    """Whether DuckDB compares without rounding."""
    numbers = [value for value in known if not value.is_null]
    if isinstance(term.kind, DoubleType):
        return all(math.isfinite(value.low) for value in numbers)
    if not isinstance(term.kind, IntegerType | LongType) or all(value.kind in INTEGERS for value in numbers):
        return True
    return all(math.isfinite(value.low) and abs(value.low) < EXACT_DOUBLE for value in numbers) and not any(
        _is_long_decimal(value.kind) for value in numbers
    )


def _is_long_decimal(kind: str) -> bool:
    digits = DECIMAL.match(kind)
    return digits is not None and int(digits[1]) > EXACT_DIGITS


def _compare(term: Term, operator: str, value: Constant) -> BooleanExpression:
    name, found = term.field.name, value.low
    if value.is_null:
        return AlwaysFalse()
    if term.is_time:
        return _compare_moment(term, operator, value.low, value.high)
    if type(term.kind) in RANGES:
        return _compare_integer(name, operator, found, RANGES[type(term.kind)])
    if isinstance(term.kind, BooleanType) and operator not in {"=", "<>"}:
        return NOTHING
    plain = said(name, operator, DateLiteral(found) if isinstance(term.kind, DateType) else found)
    # DuckDB holds NaN to be greater than every number; Iceberg's bounds leave it out.
    return Or(plain, is_nan(name)) if isinstance(term.kind, DoubleType) and operator in {">", ">=", "<>"} else plain


def _compare_moment(term: Term, operator: str, low: int, high: int) -> BooleanExpression:
    """A moment, or the start of its span of time: the moment is not before that, and before that and the width."""
    name, width = term.field.name, term.width
    if operator == "<>":
        return NOTHING  # DuckDB holds a null that is cut to a unit to be unlike a moment that no unit begins at
    if operator == "=" and (low != high or width):
        return And(_compare_moment(term, ">=", low, high), _compare_moment(term, "<=", low, high))
    if operator in {">", ">=", "="}:
        return said(name, operator, TimestampLiteral(low))
    return said(name, "<" if width else operator, TimestampLiteral(high + width))


def _compare_integer(name: str, operator: str, value: Any, bounds: tuple[int, int]) -> BooleanExpression:
    down, up = math.floor(value), math.ceil(value)
    if operator in {"=", "<>"}:
        is_there = down == up and bounds[0] <= down <= bounds[1]
        return said(name, operator, down) if is_there else AlwaysFalse() if operator == "=" else not_null(name)
    edge = down if operator in {"<=", ">"} else up
    if bounds[0] <= edge <= bounds[1]:
        return said(name, operator, edge)
    return not_null(name) if (edge > bounds[1]) == (operator in {"<", "<="}) else AlwaysFalse()
