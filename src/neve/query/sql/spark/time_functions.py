"""Functions of time for Spark, in UTC."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sqlglot import exp

from neve.query.sql.dialect import call, double, integer, text
from neve.query.sql.type_inference import TIMES, NotPortable, kind, require_kind

if TYPE_CHECKING:
    from neve.query.sql.type_inference import Builder


# Microseconds.
UNITS = {
    "microsecond": 1,
    "millisecond": 1000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
    "week": 604_800_000_000,
}
SHORT = {"us": "microsecond", "ms": "millisecond", "s": "second", "sec": "second", "m": "minute", "min": "minute"}
SHORT |= {"h": "hour", "hr": "hour", "d": "day", "w": "week", "mon": "month", "y": "year", "yr": "year"}
TRUNCATION_UNITS = {*UNITS, "month", "quarter", "year"}
ORIGIN = 946_857_600_000_000  # 2000-01-03, the origin of buckets of up to a week in DuckDB
INSTANTS = {"timestamptz", "timestamp"}
FORMATS = {
    "%Y": "yyyy",
    "%m": "MM",
    "%d": "dd",
    "%H": "HH",
    "%M": "mm",
    "%S": "ss",
    "%f": "SSSSSS",
    "%j": "DDD",
    "%a": "EEE",
    "%A": "EEEE",
    "%b": "MMM",
    "%B": "MMMM",
    "%p": "a",
    "%I": "hh",
    "%y": "yy",
    "%%": "'%'",
    "%-d": "d",
    "%-m": "M",
    "%-H": "H",
    "%-M": "m",
    "%-S": "s",
    "%-I": "h",
    "%g": "SSS",
}
PARTS = {
    **{name: name.upper() for name in ("year", "month", "day", "hour", "minute", "quarter", "week")},
    "doy": "DOY",
    "dayofyear": "DOY",
    "isodow": "DAYOFWEEK_ISO",
    "weekofyear": "WEEK",
    "dayofmonth": "DAY",
}


def unit_of(node: exp.Expr) -> str:
    """Return the unit of a literal, in the singular.

    >>> unit_of(exp.Literal.string("Minutes")), unit_of(exp.Literal.string("ms"))
    ('minute', 'millisecond')
    """
    name = node.name.lower()
    name = SHORT.get(name, name)
    return name.removesuffix("s") if len(name) > 3 else name


def epoch_micros(node: exp.Expr) -> exp.Expr:
    """Return microseconds since 1970."""
    if kind(node) not in INSTANTS:
        raise NotPortable("a time of an unknown type")
    return call("UNIX_MICROS", as_instant(node))


def as_instant(node: exp.Expr) -> exp.Expr:
    """Return a time with a zone. A time without one is in UTC."""
    return exp.cast(node.copy(), exp.DType.TIMESTAMPTZ) if kind(node) == "timestamp" else node.copy()


def as_kind(node: exp.Expr, of: str) -> exp.Expr:
    """Convert Spark's result with a zone to the kind that DuckDB returns."""
    return exp.cast(node, exp.DType.TIMESTAMPNTZ) if of == "timestamp" else node


def truncate_time(unit: exp.Expr, time: exp.Expr) -> exp.Expr:
    """Translate `date_trunc`."""
    name = unit_of(unit)
    if name not in TRUNCATION_UNITS or kind(time) not in INSTANTS:
        raise NotPortable(f"date_trunc by {name or 'an expression'}")
    return as_kind(call("DATE_TRUNC", text(name.upper()), as_instant(time)), kind(time))


def time_bucket(width: exp.Expr, time: exp.Expr) -> exp.Expr:
    """Translate `time_bucket`: whole buckets since a Monday."""
    size = interval_micros(width)
    rest = call("PMOD", exp.Sub(this=epoch_micros(time), expression=integer(ORIGIN)), integer(size))
    start = call("TIMESTAMP_MICROS", exp.Sub(this=epoch_micros(time), expression=rest))
    return as_kind(start, kind(time))


def interval_micros(node: exp.Expr) -> int:
    """Return the length of a literal interval. Months have no fixed length."""
    if isinstance(node, exp.Interval) and isinstance(node.this, exp.Literal):
        said = f"{node.this.name} {node.args['unit'].name if node.args.get('unit') else ''}"
        found = re.findall(r"(-?\d+)\s*([a-zA-Z]+)", said)
        if found and re.fullmatch(r"(\s*-?\d+\s*[a-zA-Z]+)+\s*", said):
            units = [unit_of(exp.Literal.string(unit)) for _, unit in found]
            if all(unit in UNITS for unit in units):
                length = sum(int(number) * UNITS[unit] for (number, _), unit in zip(found, units, strict=True))
                if length > 0:
                    return length
    raise NotPortable("an interval that is not written out, or has months")


def date_difference(unit: exp.Expr, start: exp.Expr, end: exp.Expr) -> exp.Expr:
    """Translate `date_diff`: the number of unit boundaries between two times."""
    name = unit_of(unit)
    if name == "day" and {kind(start), kind(end)} <= INSTANTS | {"date"}:
        days = [exp.cast(as_instant(node), exp.DType.DATE) for node in (end, start)]
        return call("DATEDIFF", *days)
    if name not in UNITS or name == "week":
        raise NotPortable(f"date_diff by {name or 'an expression'}")
    return exp.Paren(this=exp.Sub(this=_units_since_epoch(end, name), expression=_units_since_epoch(start, name)))


def whole_units_between(unit: exp.Expr, start: exp.Expr, end: exp.Expr) -> exp.Expr:
    """Translate `date_sub`: the number of whole units between two times."""
    name = unit_of(unit)
    if name not in UNITS:
        raise NotPortable(f"date_sub by {name or 'an expression'}")
    passed = exp.Paren(this=exp.Sub(this=epoch_micros(end), expression=epoch_micros(start)))
    return exp.Paren(this=exp.IntDiv(this=passed, expression=integer(UNITS[name])))


def _units_since_epoch(time: exp.Expr, unit: str) -> exp.Expr:
    """Return units since 1970, rounded down."""
    rest = call("PMOD", epoch_micros(time), integer(UNITS[unit]))
    down = exp.Paren(this=exp.Sub(this=epoch_micros(time), expression=rest))
    return exp.Paren(this=exp.IntDiv(this=down, expression=integer(UNITS[unit])))


def extract_part(name: str, time: exp.Expr) -> exp.Expr:
    """Return one part of a time, as `extract` does."""
    if kind(time) not in INSTANTS | {"date"}:
        raise NotPortable("a time of an unknown type")
    name = SHORT.get(name, name)
    if name == "epoch":
        return epoch_seconds(time)
    if name == "second":
        return call("SECOND", as_instant(time))
    if name in {"dow", "dayofweek", "weekday"}:
        return exp.Paren(this=exp.Sub(this=call("DAYOFWEEK", time.copy()), expression=integer(1)))
    if name not in PARTS:
        raise NotPortable(f"the part {name} of a time")
    return exp.Extract(this=exp.var(PARTS[name]), expression=time.copy())


def epoch_seconds(time: exp.Expr) -> exp.Expr:
    """Return seconds since 1970 with their fraction."""
    return exp.Paren(
        this=exp.Div(this=exp.cast(epoch_micros(time), exp.DType.DOUBLE), expression=exp.Literal.number("1e6"))
    )


def format_time(time: exp.Expr, pattern: exp.Expr) -> exp.Expr:
    """Translate `strftime`."""
    if not pattern.is_string or kind(time) not in INSTANTS | {"date"}:
        raise NotPortable("strftime with a pattern that is not a literal, or of a time of an unknown type")
    return call("DATE_FORMAT", as_instant(time), text(java_format(pattern.name)))


def java_format(pattern: str) -> str:
    """Translate a pattern of strftime to Java.

    >>> java_format("%Y-%m-%dT%H")
    "yyyy'-'MM'-'dd'T'HH"
    """
    said = []
    for piece in re.findall(r"%-?.|[^%]+|%$", pattern, re.DOTALL):
        if piece.startswith("%") and piece not in FORMATS:
            raise NotPortable(f"strftime with {piece}")
        said.append(FORMATS.get(piece) or "'" + piece.replace("'", "''") + "'")
    return "".join(said)


def _epoch_ms(node: exp.Expr) -> exp.Expr:
    if kind(node) == "int":
        return as_kind(call("TIMESTAMP_MILLIS", node), "timestamp")
    return call("UNIX_MILLIS", as_instant(require_kind(node, "timestamp", "timestamptz")))


def _from_micros(node: exp.Expr) -> exp.Expr:
    return as_kind(call("TIMESTAMP_MICROS", require_kind(node, "int")), "timestamp")


def _from_seconds(node: exp.Expr) -> exp.Expr:
    if kind(node) == "int":
        return call("TIMESTAMP_SECONDS", node)
    product = exp.Mul(this=double(require_kind(node, "float", "decimal")), expression=exp.Literal.number("1e6"))
    return call("TIMESTAMP_MICROS", exp.cast(call("RINT", product), exp.DType.BIGINT))


def _part_builder(name: str) -> Builder:
    return lambda node: extract_part(name, node)


def _extract_named_part(name: exp.Expr, node: exp.Expr) -> exp.Expr:
    return extract_part(name.name.lower(), node)


def _strftime(first: exp.Expr, second: exp.Expr) -> exp.Expr:
    return format_time(second, first) if first.is_string else format_time(first, second)


def _name_of_day(pattern: str) -> Builder:
    return lambda node: call("DATE_FORMAT", as_instant(require_kind(node, *TIMES)), text(pattern))


BUILDERS: dict[str, Builder] = {
    **dict.fromkeys(("date_trunc", "datetrunc"), truncate_time),
    "time_bucket": time_bucket,
    **dict.fromkeys(("date_diff", "datediff"), date_difference),
    **dict.fromkeys(("date_sub", "datesub"), whole_units_between),
    **dict.fromkeys(("extract", "date_part", "datepart"), _extract_named_part),
    **{
        name: _part_builder(name)
        for name in ("day", "hour", "minute", "second", "isodow", "dayofyear", "week", "weekofyear")
    },
    **{name: _part_builder("dow") for name in ("dayofweek", "weekday")},
    "dayname": _name_of_day("EEEE"),
    "monthname": _name_of_day("MMMM"),
    "last_day": lambda node: call("LAST_DAY", as_instant(require_kind(node, *TIMES))),
    "epoch": epoch_seconds,
    "epoch_ms": _epoch_ms,
    "epoch_us": epoch_micros,
    "epoch_ns": lambda node: exp.Paren(this=exp.Mul(this=epoch_micros(node), expression=integer(1000))),
    "to_timestamp": _from_seconds,
    "make_timestamp": _from_micros,
    "make_date": lambda year, month, day: call("MAKE_DATE", year, month, day),
    "strftime": _strftime,
}
