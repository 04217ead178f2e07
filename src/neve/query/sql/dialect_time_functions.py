"""Functions of time, for Spark; what they are made of is in `query/sql/dialect_times.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from neve.query.sql import dialect_times as times
from neve.query.sql.build import call, double, integer, text
from neve.query.sql.dialect_arguments import need
from neve.query.sql.kinds import TIMES, kind

if TYPE_CHECKING:
    from neve.query.sql.dialect_arguments import Builder


def _epoch_ms(node: exp.Expr) -> exp.Expr:
    if kind(node) == "int":
        return times.as_kind(call("TIMESTAMP_MILLIS", node), "timestamp")
    return call("UNIX_MILLIS", times.as_instant(need(node, "timestamp", "timestamptz")))


def _of_micros(node: exp.Expr) -> exp.Expr:
    return times.as_kind(call("TIMESTAMP_MICROS", need(node, "int")), "timestamp")


def _of_seconds(node: exp.Expr) -> exp.Expr:
    if kind(node) == "int":
        return call("TIMESTAMP_SECONDS", node)
    product = exp.Mul(this=double(need(node, "float", "decimal")), expression=exp.Literal.number("1e6"))
    return call("TIMESTAMP_MICROS", exp.cast(call("RINT", product), exp.DType.BIGINT))


def _part(name: str) -> Builder:
    return lambda node: times.part(name, node)


def _named_part(name: exp.Expr, node: exp.Expr) -> exp.Expr:
    return times.part(name.name.lower(), node)


def _formatted(first: exp.Expr, second: exp.Expr) -> exp.Expr:
    return times.formatted(second, first) if first.is_string else times.formatted(first, second)


def _name_of_day(pattern: str) -> Builder:
    return lambda node: call("DATE_FORMAT", times.as_instant(need(node, *TIMES)), text(pattern))


BUILDERS: dict[str, Builder] = {
    **dict.fromkeys(("date_trunc", "datetrunc"), times.truncated),
    "time_bucket": times.bucket,
    **dict.fromkeys(("date_diff", "datediff"), times.difference),
    **dict.fromkeys(("date_sub", "datesub"), times.elapsed),
    **dict.fromkeys(("extract", "date_part", "datepart"), _named_part),
    **{name: _part(name) for name in ("day", "hour", "minute", "second", "isodow", "dayofyear", "week", "weekofyear")},
    **{name: _part("dow") for name in ("dayofweek", "weekday")},
    "dayname": _name_of_day("EEEE"),
    "monthname": _name_of_day("MMMM"),
    "last_day": lambda node: call("LAST_DAY", times.as_instant(need(node, *TIMES))),
    "epoch": times.seconds,
    "epoch_ms": _epoch_ms,
    "epoch_us": times.micros,
    "epoch_ns": lambda node: exp.Paren(this=exp.Mul(this=times.micros(node), expression=integer(1000))),
    "to_timestamp": _of_seconds,
    "make_timestamp": _of_micros,
    "make_date": lambda year, month, day: call("MAKE_DATE", year, month, day),
    "strftime": _formatted,
}
