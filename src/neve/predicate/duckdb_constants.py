"""Constants of queries that DuckDB runs, evaluated by DuckDB itself, in the types in which it compares them.

Where DuckDB would compare in a type that rounds, the value is unknown. The clock advances between planning and
execution. So an expression that depends on it has two values, the least and the greatest possible one, and pruning uses
the one that keeps more files.
"""

from __future__ import annotations

import math
import re
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import duckdb
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
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import ErrorLevel, SqlglotError

from neve.lake.calendar import EPOCH
from neve.lake.duckdb import quote_literal
from neve.predicate.names import fold
from neve.predicate.values import Constant, UnknownValue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from neve.predicate.terms import Term

BEFORE, AFTER = timedelta(minutes=5), timedelta(days=1)  # maximum difference of the engine's clock from the planner's
CALENDAR = timedelta(days=4).days * 86_400_000_000  # months differ in length: `- 1 month` may go back a bit
CLOCK_CHANGE = 3 * 3_600_000_000  # a clock that is put back makes `- 1 day` go back, too
UTC_ZONE = "UTC"
EVEN_UNITS = ("MICROSECOND", "MILLISECOND", "SECOND", "MINUTE", "HOUR", "DAY", "WEEK")
CLOCKS = ("now", "get_current_timestamp", "transaction_timestamp")
MAKERS = (
    *("make_date", "make_timestamp", "make_timestamptz", "to_timestamp", "epoch_ms", "from_hex", "unhex", "to_seconds"),
    *("to_minutes", "to_hours", "to_days", "to_weeks", "to_milliseconds", "to_microseconds", "date_trunc", "encode"),
)
PLAIN_DIGITS = 9  # of a number that is an INTEGER, whatever its digits
MAX_CHARACTERS = 10_000  # characters of a text: constants are computed in the server's own process
PLAIN_TYPES = {
    *(exp.DType.TIMESTAMP, exp.DType.TIMESTAMPTZ, exp.DType.TIMESTAMPNTZ, exp.DType.DATE, exp.DType.TEXT),
    *(exp.DType.VARCHAR, exp.DType.BIGINT, exp.DType.INT, exp.DType.SMALLINT, exp.DType.TINYINT, exp.DType.DOUBLE),
    *(exp.DType.FLOAT, exp.DType.DECIMAL, exp.DType.BOOLEAN, exp.DType.VARBINARY, exp.DType.BINARY),
    *(exp.DType.INTERVAL, exp.DType.UBIGINT, exp.DType.UINT, exp.DType.INT128),
}
WRITER = DuckDB(version=duckdb.__version__)
_lock = threading.Lock()


INTEGERS = frozenset(
    ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT")
)
DECIMAL = re.compile(r"^DECIMAL\((\d+),\d+\)$")
EXACT_DIGITS = 18  # decimals up to here are compared with integers as decimals, never as floating point
EXACT_DOUBLE = 2**53  # up to here an integer and its double are the same number
MAX_MEMBERS = 5_000


@dataclass(frozen=True)
class TypedValue:
    """A value and its type in DuckDB. `high` differs from `low` if the value depends on the clock."""

    kind: str
    low: Any
    high: Any


@dataclass(frozen=True)
class DuckDbConstants:
    """Evaluator of the constants of one statement, in the time zone of its session."""

    zone: str = UTC_ZONE

    def values(self, term: Term, nodes: Sequence[exp.Expr]) -> list[Constant]:
        """Return the values if the column's type is compared with each of them without a conversion.

        Raises `UnknownValue`.
        """
        if len(nodes) > MAX_MEMBERS:
            raise UnknownValue
        if self.zone != UTC_ZONE and isinstance(term.type, TimestampType):
            raise UnknownValue  # a time without a zone is another moment in each zone
        known = [_read(term, node, self.zone) for node in nodes]
        if not _is_exact(term, [value for value in known if value.low is not None]):
            raise UnknownValue
        convert: Callable[[Any], Any] = _CONVERTERS.get(type(term.type), lambda value: value)
        try:
            return [
                Constant.of(None) if value.low is None else Constant(convert(value.low), convert(value.high))
                for value in known
            ]
        except OverflowError:  # beyond the years that Python supports
            raise UnknownValue from None

    def truth(self, node: exp.Expr) -> bool | None:
        """Return the truth of TRUE, FALSE or NULL. Raises `UnknownValue` for anything else."""
        if not isinstance(node, exp.Boolean | exp.Null):
            raise UnknownValue
        return bool(node.this) if isinstance(node, exp.Boolean) else None


class Reading(NamedTuple):
    """The reading of constants beside a column of one type.

    A constant is cast to `target`. DuckDB compares those of the types `kinds` without a conversion. If `takes_text` is
    set, a quoted text takes the type of the column.
    """

    target: str
    kinds: frozenset[str]
    takes_text: bool


_MOMENT = Reading("TIMESTAMPTZ", frozenset({"DATE", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE"}), takes_text=True)
_INTEGER = Reading("", INTEGERS | {"DOUBLE", "DECIMAL"}, takes_text=False)
_READINGS: dict[type, Reading] = {
    TimestamptzType: _MOMENT,
    TimestampType: _MOMENT,
    DateType: Reading("DATE", frozenset({"DATE"}), takes_text=True),
    BinaryType: Reading("BLOB", frozenset({"BLOB"}), takes_text=True),
    DoubleType: Reading("DOUBLE", INTEGERS | {"DOUBLE", "FLOAT", "DECIMAL"}, takes_text=False),
    IntegerType: _INTEGER,
    LongType: _INTEGER,
    StringType: Reading("", frozenset({"VARCHAR"}), takes_text=False),
    BooleanType: Reading("", frozenset({"BOOLEAN"}), takes_text=False),
}
_CONVERTERS: dict[type, Callable[[int], Any]] = {
    **dict.fromkeys((TimestamptzType, TimestampType), lambda micros: EPOCH + timedelta(microseconds=micros)),
    DateType: lambda days: EPOCH.date() + timedelta(days=days),
}


def _read(term: Term, node: exp.Expr, zone: str) -> TypedValue:
    reading = _READINGS.get(type(term.type))
    is_day = isinstance(term.type, DateType)
    if reading is None or (is_day and (term.is_truncated or not is_fixed(node))):
        raise UnknownValue
    text = is_text(node)
    value = evaluate_constant(
        exp.cast(node.copy(), "DATE") if text and term.is_day else node, reading.target, zone=zone
    )
    has_type = text and reading.takes_text
    if value is None or not (value.low is None or has_type or value.kind.partition("(")[0] in reading.kinds):
        raise UnknownValue
    return value


def _is_exact(term: Term, numbers: list[TypedValue]) -> bool:
    """Return whether DuckDB compares without rounding."""
    if isinstance(term.type, DoubleType):
        return all(math.isfinite(value.low) for value in numbers)
    if not isinstance(term.type, IntegerType | LongType) or all(value.kind in INTEGERS for value in numbers):
        return True
    return all(math.isfinite(value.low) and abs(value.low) < EXACT_DOUBLE for value in numbers) and not any(
        _is_long_decimal(value.kind) for value in numbers
    )


def _is_long_decimal(kind: str) -> bool:
    digits = DECIMAL.match(kind)
    return digits is not None and int(digits[1]) > EXACT_DIGITS


def evaluate_constant(
    node: exp.Expr, target: str = "", now: datetime | None = None, zone: str = UTC_ZONE
) -> TypedValue | None:
    """Return the value of an expression without columns, cast to a type if one is given, or `None` if it is unknown.

    Timestamps are microseconds since 1970, dates are days. Times without a zone are in the zone of the session.
    """
    if is_fixed(node):
        return _read_literal(node, target) or _evaluate_both(node, node, target, zone)
    if not is_moment(node) or (zone != UTC_ZONE and node.find(exp.CurrentDate)):
        return None
    clock = now or datetime.now(UTC)
    found = _evaluate_both(_with_clock_at(node, clock - BEFORE), _with_clock_at(node, clock + AFTER), target, zone)
    if zone != UTC_ZONE and found is not None and found.low is not None:
        if not target.startswith("TIME"):
            return None
        found = TypedValue(found.kind, found.low - CLOCK_CHANGE, found.high + CLOCK_CHANGE)
    if found is None or found.low is None or not _uses_calendar(node):
        return found
    return TypedValue(found.kind, found.low - CALENDAR, found.high + CALENDAR) if target.startswith("TIME") else None


def _read_literal(node: exp.Expr, target: str) -> TypedValue | None:
    """Return the value of a text or a small integer without an engine: a list may have thousands of them."""
    if target or not isinstance(node, exp.Literal):
        return None
    if node.is_string:
        return TypedValue("VARCHAR", node.name, node.name)
    if not node.name.isascii() or not node.name.isdecimal() or len(node.name) > PLAIN_DIGITS:
        return None
    return TypedValue("INTEGER", int(node.name), int(node.name))


def is_text(node: exp.Expr) -> bool:
    """Return whether a node is a quoted text, which takes the type of the other side of a comparison."""
    return isinstance(node.unnest(), exp.Literal) and bool(node.unnest().is_string)


def is_fixed(node: exp.Expr) -> bool:
    """Return whether an expression consists of values and plain functions of them only."""
    if isinstance(node, exp.Literal | exp.Boolean | exp.Null):
        return len(node.name) <= MAX_CHARACTERS
    if isinstance(node, exp.Cast) and node.to.this not in PLAIN_TYPES:
        return False
    if isinstance(node, exp.Anonymous) and fold(node.name) not in MAKERS:
        return False
    return isinstance(node, _PLAIN) and all(is_fixed(child) for child in _operands(node))


def is_moment(node: exp.Expr) -> bool:
    """Return whether an expression is the clock, or increases with it."""
    match node:
        case exp.CurrentTimestamp() | exp.CurrentDate():
            return not node.this
        case exp.Anonymous():
            return fold(node.name) in CLOCKS and not node.expressions
        case exp.Paren() | exp.TimestampTrunc() | exp.Cast():
            return is_moment(node.this)
        case exp.Add():
            return (is_moment(node.left) and is_fixed(node.right)) or (is_fixed(node.left) and is_moment(node.right))
        case exp.Sub():
            return is_moment(node.left) and is_fixed(node.right)
    return False


_PLAIN = (
    *(exp.Paren, exp.Neg, exp.Cast, exp.TryCast, exp.Interval, exp.Add, exp.Sub, exp.Mul, exp.DPipe, exp.Unhex),
    *(exp.TimestampTrunc, exp.UnixToTime, exp.Anonymous),
)


def _operands(node: exp.Expr) -> Iterator[exp.Expr]:
    for child in node.iter_expressions():
        if not isinstance(child, exp.Var | exp.DataType):
            yield child


def _with_clock_at(node: exp.Expr, moment: datetime) -> exp.Expr:
    """Return the expression with the clock replaced by a timestamp."""

    def fix(part: exp.Expr) -> exp.Expr:
        if isinstance(part, exp.CurrentDate):
            return exp.cast(exp.Literal.string(moment.date().isoformat()), "DATE")
        if isinstance(part, exp.CurrentTimestamp) or (isinstance(part, exp.Anonymous) and fold(part.name) in CLOCKS):
            return exp.cast(exp.Literal.string(moment.isoformat()), "TIMESTAMPTZ")
        return part

    return node.transform(fix)


def _uses_calendar(node: exp.Expr) -> bool:
    units = (str(part.args.get("unit") or "").upper().rstrip("S") for part in node.find_all(exp.Interval))
    return any(unit not in EVEN_UNITS for unit in units)


def _evaluate_both(low: exp.Expr, high: exp.Expr, target: str, zone: str) -> TypedValue | None:
    first = _fetch(low, target, zone)
    second = first if high is low else _fetch(high, target, zone)
    return TypedValue(first[0], first[1], second[1]) if first and second else None


def _fetch(node: exp.Expr, target: str, zone: str) -> tuple[str, Any] | None:
    try:
        text = WRITER.generate(node, identify=True, comments=False, copy=True, unsupported_level=ErrorLevel.RAISE)
    except SqlglotError:
        return None
    value = f"CAST({text} AS {target})" if target else f"({text})"
    if target.startswith("TIME"):
        value = (
            f"CASE WHEN isfinite({value}) THEN epoch_us({value}) WHEN {value} IS NOT NULL THEN error('infinite') END"
        )
    elif target == "DATE":
        value = f"datediff('day', DATE '1970-01-01', {value})"
    try:
        with _lock, _session(zone) as session:
            return session.execute(f"SELECT typeof({text}), {value}").fetchone()
    except (duckdb.Error, OverflowError, ValueError):
        return None


@contextmanager
def _session(zone: str) -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield the calculator with a time zone."""
    calculator = _calculator()
    if zone == UTC_ZONE:
        yield calculator
        return
    with calculator.cursor() as session:
        session.execute("SET SESSION TimeZone = " + quote_literal(zone))
        yield session


@cache
def time_zones() -> frozenset[str]:
    """Return the names of the time zones that DuckDB knows."""
    with _lock:
        return frozenset(name for (name,) in _calculator().execute("SELECT name FROM pg_timezone_names()").fetchall())


@cache
def _calculator() -> duckdb.DuckDBPyConnection:
    """Return a DuckDB that can access neither files nor the network."""
    connection = duckdb.connect(config={"threads": 1})
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("SET autoinstall_known_extensions = false")
    connection.execute("SET enable_external_access = false")
    return connection
