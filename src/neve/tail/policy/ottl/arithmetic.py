"""Sums and products of numbers, and of times and durations, which are nanoseconds."""

from __future__ import annotations

from neve.tail.policy.ottl.errors import OttlError
from neve.tail.policy.ottl.values import Kind, Value, nothing_of
from neve.tail.policy.sql import Sql, joined, sql

# Which types give which: what is not here fails.
NUMBERS = {
    (Kind.INT, Kind.INT): Kind.INT,
    (Kind.INT, Kind.FLOAT): Kind.FLOAT,
    (Kind.FLOAT, Kind.INT): Kind.FLOAT,
    (Kind.FLOAT, Kind.FLOAT): Kind.FLOAT,
}
SUMS = {
    (Kind.TIME, Kind.DURATION): Kind.TIME,
    (Kind.DURATION, Kind.TIME): Kind.TIME,
    (Kind.DURATION, Kind.DURATION): Kind.DURATION,
}
DIFFERENCES = {
    (Kind.TIME, Kind.TIME): Kind.DURATION,
    (Kind.TIME, Kind.DURATION): Kind.TIME,
    (Kind.DURATION, Kind.DURATION): Kind.DURATION,
}
_WIDE = "CAST({} AS HUGEINT)"
_HALF, _ALL = f"CAST({1 << 63} AS HUGEINT)", f"CAST({1 << 64} AS HUGEINT)"
RESULTS = {"+": NUMBERS | SUMS, "-": NUMBERS | DIFFERENCES, "*": NUMBERS, "/": NUMBERS}


def math(operator: str, left: Value, right: Value) -> Value:
    """Two values put together; fails where their types do not go together, and where 0 divides."""
    found: dict[Kind, list[Sql]] = {}
    for (one, other), kind in RESULTS[operator].items():
        if one in left.kinds and other in right.kinds:
            found.setdefault(kind, []).append(_operation(operator, left.kinds[one], right.kinds[other], kind))
    if not found:
        raise OttlError(f"{_words(left)} {operator} {_words(right)} has no meaning")
    kinds = {kind: _first(results) for kind, results in found.items()}
    return Value(kinds, fails=nothing_of(kinds))


def negative(value: Value) -> Value:
    """A number with the other sign."""
    kinds: dict[Kind, Sql] = {}
    if Kind.INT in value.kinds:
        kinds[Kind.INT] = _narrow(sql(f"(- {_WIDE})", value.kinds[Kind.INT]))
    if Kind.FLOAT in value.kinds:
        kinds[Kind.FLOAT] = sql("(- {})", value.kinds[Kind.FLOAT])
    if not kinds:
        raise OttlError(f"- {_words(value)} has no meaning")
    return Value(kinds, fails=nothing_of(kinds))


def _operation(operator: str, left: Sql, right: Sql, kind: Kind) -> Sql:
    if kind is Kind.FLOAT:
        left, right = sql("CAST({} AS DOUBLE)", left), sql("CAST({} AS DOUBLE)", right)
        return sql(f"({{}} {operator} {{}})", left, sql("nullif({}, 0)", right) if operator == "/" else right)
    symbol = "//" if operator == "/" else operator
    return _narrow(sql(f"({_WIDE} {symbol} {_WIDE})", left, sql("nullif({}, 0)", right) if operator == "/" else right))


def _narrow(number: Sql) -> Sql:
    """A number that 64 bits can't hold wraps around, as in Go."""
    return sql(f"CAST((({{}} + {_HALF}) % {_ALL} + {_ALL}) % {_ALL} - {_HALF} AS BIGINT)", number)


def _first(results: list[Sql]) -> Sql:
    return results[0] if len(results) == 1 else sql("coalesce({})", joined(", ", results))


def _words(value: Value) -> str:
    return value.what or " or ".join(value.kinds) or "nil"
