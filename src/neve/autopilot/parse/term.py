"""A column with functions around it, as far as they can be turned around."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyiceberg.types import (
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    StringType,
)
from sqlglot import exp

from neve.autopilot.parse.moments import unit_of
from neve.autopilot.parse.typed import TIMES
from neve.autopilot.parse.values import DATES, STAMPS, TEXTS

if TYPE_CHECKING:
    from pyiceberg.types import IcebergType

WIDER: dict[type, set[exp.DType]] = {
    IntegerType: {exp.DType.INT, exp.DType.BIGINT, exp.DType.DOUBLE, exp.DType.DECIMAL},
    LongType: {exp.DType.BIGINT},
    FloatType: {exp.DType.FLOAT, exp.DType.DOUBLE},
    DoubleType: {exp.DType.DOUBLE},
    StringType: set(TEXTS),
    DecimalType: set(),
}


@dataclass(frozen=True)
class Term:
    """A column of the table, or what a function that can be turned around makes of it."""

    column: str
    type: IcebergType | None
    function: str = ""
    unit: str = ""  # it is cut to the start of this unit of time
    length: int = 0  # it is cut to so many characters
    is_year: bool = False
    is_day: bool = False  # a day, so that text beside it is read as one
    is_key: bool = False  # of a map
    is_opaque: bool = False  # nobody can tell from it what the column must be


def inside_of(node: exp.Expr) -> exp.Expr | None:
    """The one argument of a function that has a column's value in it."""
    if isinstance(node, exp.Anonymous):
        return node.expressions[0] if len(node.expressions) == 1 else None
    if isinstance(node, exp.Extract):
        argument: exp.Expr = node.expression
        return argument
    known = (exp.Cast, exp.TryCast, exp.Date, exp.TsOrDsToDate, exp.TimestampTrunc, exp.DateTrunc, exp.Year)
    if isinstance(node, (*known, exp.Substring, exp.Left, exp.Lower, exp.Upper, exp.Trim, exp.Coalesce)):
        inside: exp.Expr | None = node.this
        return inside
    return None


def function_name(node: exp.Expr) -> str:
    """What a function is called; empty for what is none."""
    if isinstance(node, exp.Anonymous):
        return node.name.lower()
    return node.sql_name().lower() if isinstance(node, exp.Func) else ""


def wrapped(inner: Term, node: exp.Expr) -> Term:
    """What a function makes of a term."""
    name = function_name(node)
    name = {"timestamp_trunc": "date_trunc", "ts_or_ds_to_date": "date", "try_cast": "cast"}.get(name, name)
    outer = replace(inner, function=inner.function or name)
    if inner.is_opaque or inner.length or inner.is_year:
        return replace(outer, is_opaque=True)
    if isinstance(node, exp.Cast | exp.TryCast):
        return _cast(outer, node.args["to"].this)
    if isinstance(node, exp.Substring | exp.Left):
        length = _length(node) if _is_text(inner) else 0
        return replace(outer, length=length, is_opaque=not length)
    if not _is_time(inner):
        return replace(outer, is_opaque=True)
    unit, is_year = _time_unit(node)
    if is_year:
        return replace(outer, is_year=True, unit="year")
    is_day = not isinstance(node, exp.TimestampTrunc | exp.DateTrunc)
    return replace(_cut(outer, unit), is_day=is_day) if unit else replace(outer, is_opaque=True)


def _cast(term: Term, to: exp.DType) -> Term:
    if to in DATES and _is_time(term):
        return term if isinstance(term.type, DateType) else replace(_cut(term, "day"), is_day=True)
    if to in STAMPS and (isinstance(term.type, (*TIMES, DateType)) or term.unit):
        return term
    if to in WIDER.get(type(term.type), set()) and not term.unit:
        return term
    return replace(term, is_opaque=True)


def _cut(term: Term, unit: str) -> Term:
    """A time that is cut a second time: the coarser unit decides, where one is a multiple of the other."""
    order = ("microsecond", "millisecond", "second", "minute", "hour", "day", "month", "quarter", "year")
    if not term.unit:
        return replace(term, unit=unit)
    if term.unit in order and unit in order and order.index(unit) >= order.index(term.unit):
        return replace(term, unit=unit)
    return replace(term, is_opaque=True)


def _time_unit(node: exp.Expr) -> tuple[str, bool]:
    """The unit that a function cuts to, and whether it gives the number of the year."""
    if isinstance(node, exp.Date | exp.TsOrDsToDate):
        return ("", False) if node.args.get("format") or node.args.get("zone") or node.expressions else ("day", False)
    if isinstance(node, exp.TimestampTrunc | exp.DateTrunc):
        return ("" if node.args.get("zone") else unit_of(node.args["unit"].name) or ""), False
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
    return term.type is None or isinstance(term.type, (*TIMES, DateType))


def _is_text(term: Term) -> bool:
    return (term.type is None or isinstance(term.type, StringType)) and not term.unit
