"""Column side of a comparison: a column of a table, and the functions around it that can be inverted."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyiceberg.types import (
    BinaryType,
    DateType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    StringType,
    TimestampType,
    TimestamptzType,
)
from sqlglot import exp

from neve.predicate.times import FIXED_UNITS, UNIT_WIDTHS, parse_unit
from neve.predicate.values import DATES, TEXTS, TIME_TYPES, TIMESTAMPS

if TYPE_CHECKING:
    from collections.abc import Mapping, Set
    from datetime import timedelta

    from pyiceberg.types import IcebergType

    Casts = Mapping[type, Set[exp.DType]]

_MOMENTS = {exp.DType.TIMESTAMP, exp.DType.TIMESTAMPNTZ, exp.DType.TIMESTAMPTZ}
# Casts that change neither a value nor the way in which it is compared.
EXACT_CASTS: Casts = {
    IntegerType: {exp.DType.INT, exp.DType.BIGINT, exp.DType.INT128},
    LongType: {exp.DType.BIGINT, exp.DType.INT128},
    DoubleType: {exp.DType.DOUBLE},
    StringType: {exp.DType.VARCHAR, exp.DType.TEXT},
    BinaryType: {exp.DType.VARBINARY, exp.DType.BINARY},
    DateType: {exp.DType.DATE},
    TimestampType: _MOMENTS,
    TimestamptzType: _MOMENTS,
}
# Casts that may round at the end of a type's precision, where estimates don't matter.
CLOSE_CASTS: Casts = {
    IntegerType: {exp.DType.INT, exp.DType.BIGINT, exp.DType.INT128, exp.DType.DOUBLE, exp.DType.DECIMAL},
    LongType: EXACT_CASTS[LongType],
    FloatType: {exp.DType.FLOAT, exp.DType.DOUBLE},
    DoubleType: EXACT_CASTS[DoubleType],
    StringType: TEXTS,
    BinaryType: EXACT_CASTS[BinaryType],
    DateType: {*DATES, *TIMESTAMPS},
    **dict.fromkeys(TIME_TYPES, TIMESTAMPS),
}
NESTED_UNITS = ("microsecond", "millisecond", "second", "minute", "hour", "day", "month", "quarter", "year")


@dataclass(frozen=True)
class Term:
    """A column of the table, or an invertible function of it. The type is None if it is unknown."""

    column: str
    type: IcebergType | None
    function: str = ""
    unit: str = ""  # truncated to the start of this unit of time
    width: timedelta | None = None  # truncated to a time that is less than this before
    length: int = 0  # truncated to this many characters
    is_year: bool = False
    is_day: bool = False  # a day, so that text beside it is parsed as a day
    is_key: bool = False  # of a map
    is_opaque: bool = False  # a test on it doesn't restrict the column in a known way

    @property
    def is_truncated(self) -> bool:
        """Return whether it is the start of a unit of time."""
        return bool(self.unit or self.width)


def find_argument(node: exp.Expr) -> exp.Expr | None:
    """Return the one argument of a function that contains a column's value."""
    if isinstance(node, exp.Anonymous):
        return node.expressions[0] if len(node.expressions) == 1 else None
    if isinstance(node, exp.Extract | exp.DateBin):
        argument: exp.Expr = node.expression
        return argument
    known = (exp.Cast, exp.TryCast, exp.Date, exp.TsOrDsToDate, exp.TimestampTrunc, exp.DateTrunc, exp.Year)
    if isinstance(node, (*known, exp.Substring, exp.Left, exp.Lower, exp.Upper, exp.Trim, exp.Coalesce)):
        inside: exp.Expr | None = node.this
        return inside
    return None


def function_name(node: exp.Expr) -> str:
    """Return the name of a function; empty for other nodes."""
    if isinstance(node, exp.Anonymous):
        return node.name.lower()
    return node.sql_name().lower() if isinstance(node, exp.Func) else ""


def wrap_term(inner: Term, node: exp.Expr, *, exact: bool = False) -> Term:
    """Return the result of a function on a term; with `exact`, casts must not round."""
    name = function_name(node)
    name = {"timestamp_trunc": "date_trunc", "ts_or_ds_to_date": "date", "try_cast": "cast"}.get(name, name)
    outer = replace(inner, function=inner.function or name)
    if inner.is_opaque or inner.length or inner.is_year:
        return replace(outer, is_opaque=True)
    if isinstance(node, exp.Cast):
        unusual = any(node.args.get(key) for key in ("format", "action", "default"))
        return replace(outer, is_opaque=True) if unusual else _cast_term(outer, node.args["to"].this, exact=exact)
    if isinstance(node, exp.Substring | exp.Left):
        length = _length(node) if _is_text(inner) else 0
        return replace(outer, length=length, is_opaque=not length)
    return _wrap_time(outer, node) if _is_time(inner) else replace(outer, is_opaque=True)


def _wrap_time(term: Term, node: exp.Expr) -> Term:
    if isinstance(node, exp.DateBin):
        width = _bin_width(node)
        return _widen(term, width) if width else replace(term, is_opaque=True)
    unit, is_year = _time_unit(node)
    if is_year:
        start = _truncate_time(term, "year")
        return replace(start, is_year=True, is_opaque=not start.unit)
    is_day = not isinstance(node, exp.TimestampTrunc | exp.DateTrunc)
    return replace(_truncate_time(term, unit), is_day=is_day) if unit else replace(term, is_opaque=True)


def _cast_term(term: Term, to: exp.DType, *, exact: bool) -> Term:
    if to in DATES and (term.type is None or isinstance(term.type, TIME_TYPES)):
        return replace(_truncate_time(term, "day"), is_day=True)
    is_same = to in (EXACT_CASTS if exact else CLOSE_CASTS).get(type(term.type), ())
    if exact:
        is_same = is_same and not term.is_day
    elif term.is_truncated:
        is_same = to in TIMESTAMPS or (is_same and isinstance(term.type, DateType))
    return term if is_same else replace(term, is_opaque=True)


def _truncate_time(term: Term, unit: str) -> Term:
    """Truncate a time, perhaps a second time: the coarser unit wins if it is a multiple of the other."""
    if not term.is_truncated:
        return replace(term, unit=unit)
    is_nested = term.unit in NESTED_UNITS and unit in NESTED_UNITS
    if is_nested and NESTED_UNITS.index(unit) >= NESTED_UNITS.index(term.unit):
        return replace(term, unit=unit)
    return _widen(term, UNIT_WIDTHS[unit])


def _widen(term: Term, width: timedelta) -> Term:
    """Truncate a time to a start that is less than a duration before, whatever it was truncated to before."""
    before = term.width or UNIT_WIDTHS.get(term.unit)
    return replace(term, unit="", width=width + before if before else width)


def _bin_width(node: exp.DateBin) -> timedelta | None:
    """Return the length of the bins, if they are of a fixed length and begin at the usual origin."""
    unusual = any(value for key, value in node.args.items() if key not in {"this", "expression"})
    interval = node.this
    if unusual or not isinstance(interval, exp.Interval) or not isinstance(interval.this, exp.Literal):
        return None
    count, unit = interval.this.name, parse_unit(interval.args["unit"].name) if interval.args.get("unit") else None
    return int(count) * FIXED_UNITS[unit] if count.isdigit() and len(count) < 10 and unit in FIXED_UNITS else None


def _time_unit(node: exp.Expr) -> tuple[str, bool]:
    """Return the unit that a function truncates to, and whether it returns the number of the year."""
    if isinstance(node, exp.Date | exp.TsOrDsToDate):
        return ("", False) if node.args.get("format") or node.args.get("zone") or node.expressions else ("day", False)
    if isinstance(node, exp.TimestampTrunc | exp.DateTrunc):
        return ("" if node.args.get("zone") else parse_unit(node.args["unit"].name) or ""), False
    if isinstance(node, exp.Anonymous):
        return ("day" if node.name.lower() == "todate" else ""), node.name.lower() == "toyear"
    return "", isinstance(node, exp.Year) or (isinstance(node, exp.Extract) and node.name.upper() == "YEAR")


def _length(node: exp.Expr) -> int:
    if isinstance(node, exp.Left):
        size, start = node.expression, "1"
    else:
        size, start = node.args.get("length"), node.args["start"].name if node.args.get("start") else "1"
    is_number = isinstance(size, exp.Literal) and size.name.isdigit()
    return int(size.name) if is_number and start == "1" and size is not None else 0


def _is_time(term: Term) -> bool:
    return term.type is None or isinstance(term.type, (*TIME_TYPES, DateType))


def _is_text(term: Term) -> bool:
    return (term.type is None or isinstance(term.type, StringType)) and not term.is_truncated
