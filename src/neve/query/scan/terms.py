"""What a condition compares with a value: a column, or a column cut to a unit of time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyiceberg.types import (
    BinaryType,
    DateType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    TimestampType,
    TimestamptzType,
)
from sqlglot import exp

from neve.query.scan.constants import constant

if TYPE_CHECKING:
    from pyiceberg.types import IcebergType, NestedField

    from neve.query.scan.predicates import Resolve

DAY = 86_400_000_000
# The longest that each unit gets, in microseconds.
UNITS = {
    "MICROSECOND": 1,
    "MILLISECOND": 1000,
    "SECOND": 1_000_000,
    "MINUTE": 60_000_000,
    "HOUR": 3_600_000_000,
    "DAY": DAY,
    "WEEK": 7 * DAY,
    "MONTH": 31 * DAY,
    "QUARTER": 92 * DAY,
    "YEAR": 366 * DAY,
}
TIMES = (TimestampType, TimestamptzType)
# Casts that change no value, in the names of sqlglot's types.
WIDENING: dict[type[IcebergType], tuple[str, ...]] = {
    IntegerType: ("INT", "BIGINT", "INT128"),
    LongType: ("BIGINT", "INT128"),
    DoubleType: ("DOUBLE",),
    StringType: ("VARCHAR", "TEXT"),
    BinaryType: ("VARBINARY", "BINARY"),
    DateType: ("DATE",),
    TimestampType: ("TIMESTAMP", "TIMESTAMPNTZ", "TIMESTAMPTZ"),
    TimestamptzType: ("TIMESTAMP", "TIMESTAMPNTZ", "TIMESTAMPTZ"),
}


@dataclass(frozen=True)
class Term:
    """A column; with a `width`, the start of the span of time that its value is in, at most that many microseconds."""

    field: NestedField
    width: int = 0
    is_date: bool = False

    @property
    def kind(self) -> IcebergType:
        """The type of the column."""
        return self.field.field_type

    @property
    def is_time(self) -> bool:
        """Whether its values are moments."""
        return isinstance(self.kind, TIMES)


def term_of(node: exp.Expr, resolve: Resolve) -> Term | None:
    """The term that a node is, if it is one of a column that counts."""
    node = node.unnest()
    match node:
        case exp.Column():
            field = resolve(node)
            return Term(field) if field else None
        case exp.Cast():
            return _cast(node, resolve)
        case exp.TimestampTrunc():
            return None if node.args.get("zone") else _cut(node.this, _width(str(node.args["unit"])), resolve)
        case exp.DateBin():
            unusual = any(value for key, value in node.args.items() if key not in {"this", "expression"})
            return None if unusual else _cut(node.expression, _span(node.this), resolve)
    return None


def _cast(node: exp.Cast, resolve: Resolve) -> Term | None:
    term = term_of(node.this, resolve)
    if term is None or any(node.args.get(key) for key in ("format", "action", "default")):
        return None
    name = getattr(node.to.this, "value", "")
    if name in WIDENING.get(type(term.kind), ()) and not term.is_date:
        return term
    if term.is_time and name == "DATE":
        return Term(term.field, term.width + DAY, is_date=True)
    return None


def _cut(node: exp.Expr, width: int, resolve: Resolve) -> Term | None:
    term = term_of(node, resolve)
    if not width or term is None or term.is_date or not term.is_time:
        return None
    return Term(term.field, term.width + width)


def _width(unit: str) -> int:
    return UNITS.get(unit.upper().strip("'").rstrip("S"), 0)


def _span(node: exp.Expr) -> int:
    """The length of a fixed interval, or 0."""
    units = {str(part.args.get("unit") or "").upper().rstrip("S") for part in node.find_all(exp.Interval)}
    if not units or not units <= UNITS.keys() - {"MONTH", "QUARTER", "YEAR"}:
        return 0
    moment = exp.Add(this=exp.cast(exp.Literal.string("1970-01-01"), "TIMESTAMP"), expression=node.copy())
    found = constant(moment, "TIMESTAMP")
    return max(found.low, 0) if found and found.low is not None else 0
