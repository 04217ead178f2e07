"""Times for Spark: what DuckDB's functions of time are in its words, in UTC."""

from __future__ import annotations

import re

from sqlglot import exp

from neve.query.sql.build import call, integer, text
from neve.query.sql.kinds import kind
from neve.query.sql.portable import NotPortable

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
TRUNCATED = {*UNITS, "month", "quarter", "year"}
ORIGIN = 946_857_600_000_000  # 2000-01-03, where buckets of up to a week begin in DuckDB
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
    """The unit that a literal names, in the singular.

    >>> unit_of(exp.Literal.string("Minutes")), unit_of(exp.Literal.string("ms"))
    ('minute', 'millisecond')
    """
    name = node.name.lower()
    name = SHORT.get(name, name)
    return name.removesuffix("s") if len(name) > 3 else name


def micros(node: exp.Expr) -> exp.Expr:
    """Microseconds since 1970."""
    if kind(node) not in INSTANTS:
        raise NotPortable("a time whose type can't be told")
    return call("UNIX_MICROS", as_instant(node))


def as_instant(node: exp.Expr) -> exp.Expr:
    """A time with a zone; one without is in UTC."""
    return exp.cast(node.copy(), exp.DType.TIMESTAMPTZ) if kind(node) == "timestamp" else node.copy()


def as_kind(node: exp.Expr, of: str) -> exp.Expr:
    """What Spark computed with a zone, in the kind that DuckDB gives."""
    return exp.cast(node, exp.DType.TIMESTAMPNTZ) if of == "timestamp" else node


def truncated(unit: exp.Expr, time: exp.Expr) -> exp.Expr:
    """`date_trunc`."""
    name = unit_of(unit)
    if name not in TRUNCATED or kind(time) not in INSTANTS:
        raise NotPortable(f"date_trunc by {name or 'an expression'}")
    return as_kind(call("DATE_TRUNC", text(name.upper()), as_instant(time)), kind(time))


def bucket(width: exp.Expr, time: exp.Expr) -> exp.Expr:
    """`time_bucket`: whole buckets since a Monday."""
    size = interval_micros(width)
    rest = call("PMOD", exp.Sub(this=micros(time), expression=integer(ORIGIN)), integer(size))
    start = call("TIMESTAMP_MICROS", exp.Sub(this=micros(time), expression=rest))
    return as_kind(start, kind(time))


def interval_micros(node: exp.Expr) -> int:
    """The length of an interval that is written out; months have none."""
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


def difference(unit: exp.Expr, start: exp.Expr, end: exp.Expr) -> exp.Expr:
    """`date_diff`: how many boundaries of the unit lie between two times."""
    name = unit_of(unit)
    if name == "day" and {kind(start), kind(end)} <= INSTANTS | {"date"}:
        days = [exp.cast(as_instant(node), exp.DType.DATE) for node in (end, start)]
        return call("DATEDIFF", *days)
    if name not in UNITS or name == "week":
        raise NotPortable(f"date_diff by {name or 'an expression'}")
    return exp.Paren(this=exp.Sub(this=_whole(end, name), expression=_whole(start, name)))


def elapsed(unit: exp.Expr, start: exp.Expr, end: exp.Expr) -> exp.Expr:
    """`date_sub`: how many whole units have passed."""
    name = unit_of(unit)
    if name not in UNITS:
        raise NotPortable(f"date_sub by {name or 'an expression'}")
    passed = exp.Paren(this=exp.Sub(this=micros(end), expression=micros(start)))
    return exp.Paren(this=exp.IntDiv(this=passed, expression=integer(UNITS[name])))


def _whole(time: exp.Expr, unit: str) -> exp.Expr:
    """Units since 1970, rounded down."""
    rest = call("PMOD", micros(time), integer(UNITS[unit]))
    down = exp.Paren(this=exp.Sub(this=micros(time), expression=rest))
    return exp.Paren(this=exp.IntDiv(this=down, expression=integer(UNITS[unit])))


def part(name: str, time: exp.Expr) -> exp.Expr:
    """One part of a time, as `extract` gives it."""
    if kind(time) not in INSTANTS | {"date"}:
        raise NotPortable("a time whose type can't be told")
    name = SHORT.get(name, name)
    if name == "epoch":
        return seconds(time)
    if name == "second":
        return call("SECOND", as_instant(time))
    if name in {"dow", "dayofweek", "weekday"}:
        return exp.Paren(this=exp.Sub(this=call("DAYOFWEEK", time.copy()), expression=integer(1)))
    if name not in PARTS:
        raise NotPortable(f"the part {name} of a time")
    return exp.Extract(this=exp.var(PARTS[name]), expression=time.copy())


def seconds(time: exp.Expr) -> exp.Expr:
    """Seconds since 1970 with their fraction."""
    return exp.Paren(this=exp.Div(this=exp.cast(micros(time), exp.DType.DOUBLE), expression=exp.Literal.number("1e6")))


def formatted(time: exp.Expr, pattern: exp.Expr) -> exp.Expr:
    """`strftime`."""
    if not pattern.is_string or kind(time) not in INSTANTS | {"date"}:
        raise NotPortable("strftime with a pattern that is not a literal, or of a time whose type can't be told")
    return call("DATE_FORMAT", as_instant(time), text(java_format(pattern.name)))


def java_format(pattern: str) -> str:
    """A pattern of strftime as Java writes it.

    >>> java_format("%Y-%m-%dT%H")
    "yyyy'-'MM'-'dd'T'HH"
    """
    said = []
    for piece in re.findall(r"%-?.|[^%]+|%$", pattern, re.DOTALL):
        if piece.startswith("%") and piece not in FORMATS:
            raise NotPortable(f"strftime with {piece}")
        said.append(FORMATS.get(piece) or "'" + piece.replace("'", "''") + "'")
    return "".join(said)
