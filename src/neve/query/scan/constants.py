"""The values of constant expressions, as DuckDB itself computes them.

The clock moves on between planning and running. So what depends on it has two values, the least and the greatest that
it can have, and pruning takes whichever keeps more.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any, cast

import duckdb
from sqlglot import exp

from neve.query.sql.dialect import write
from neve.query.sql.identifiers import fold

if TYPE_CHECKING:
    from collections.abc import Iterator

BEFORE, AFTER = timedelta(minutes=5), timedelta(days=1)  # how far the engine's clock may be from the planner's
CALENDAR = timedelta(days=4).days * 86_400_000_000  # months differ in length: what `- 1 month` gives may go back a bit
EVEN_UNITS = ("MICROSECOND", "MILLISECOND", "SECOND", "MINUTE", "HOUR", "DAY", "WEEK")
CLOCKS = ("now", "get_current_timestamp", "transaction_timestamp")
MAKERS = (
    *("make_date", "make_timestamp", "make_timestamptz", "to_timestamp", "epoch_ms", "from_hex", "unhex", "to_seconds"),
    *("to_minutes", "to_hours", "to_days", "to_weeks", "to_milliseconds", "to_microseconds", "date_trunc", "encode"),
)
LONGEST = 10_000  # characters of a text: constants are computed in the server's own process
PLAIN_TYPES = {
    *(exp.DType.TIMESTAMP, exp.DType.TIMESTAMPTZ, exp.DType.TIMESTAMPNTZ, exp.DType.DATE, exp.DType.TEXT),
    *(exp.DType.VARCHAR, exp.DType.BIGINT, exp.DType.INT, exp.DType.SMALLINT, exp.DType.TINYINT, exp.DType.DOUBLE),
    *(exp.DType.FLOAT, exp.DType.DECIMAL, exp.DType.BOOLEAN, exp.DType.VARBINARY, exp.DType.BINARY),
    *(exp.DType.INTERVAL, exp.DType.UBIGINT, exp.DType.UINT, exp.DType.INT128),
}
MOMENTS = {"DATE", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE"}
_lock = threading.Lock()


@dataclass(frozen=True)
class Constant:
    """A value and its type in DuckDB; `high` is another one than `low` where it depends on the clock."""

    kind: str
    low: Any
    high: Any

    @property
    def is_null(self) -> bool:
        """Whether comparing with it is never true."""
        return self.low is None


def constant(node: exp.Expr, target: str = "", now: datetime | None = None) -> Constant | None:
    """What an expression without columns is worth, cast to a type if one is given; `None` where that is not known.

    Moments come as microseconds since 1970, dates as days.
    """
    if is_fixed(node):
        return _evaluated(node, node, target)
    if not is_moment(node):
        return None
    clock = now or datetime.now(UTC)
    found = _evaluated(_at(node, clock - BEFORE), _at(node, clock + AFTER), target)
    if found is None or found.is_null or not _uses_calendar(node):
        return found
    return Constant(found.kind, found.low - CALENDAR, found.high + CALENDAR) if target.startswith("TIME") else None


def is_text(node: exp.Expr) -> bool:
    """Whether a node is a text in quotes, which takes the type of what it is compared with."""
    return isinstance(node.unnest(), exp.Literal) and bool(node.unnest().is_string)


def is_fixed(node: exp.Expr) -> bool:
    """Whether an expression is made of nothing but values and plain functions of them."""
    if isinstance(node, exp.Literal | exp.Boolean | exp.Null):
        return len(node.name) <= LONGEST
    if isinstance(node, exp.Cast) and node.to.this not in PLAIN_TYPES:
        return False
    if isinstance(node, exp.Anonymous) and fold(node.name) not in MAKERS:
        return False
    return isinstance(node, _PLAIN) and all(is_fixed(child) for child in _operands(node))


def is_moment(node: exp.Expr) -> bool:
    """Whether an expression is the clock, or grows with it."""
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


def _at(node: exp.Expr, moment: datetime) -> exp.Expr:
    """The expression with a moment in the place of the clock."""

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


def _evaluated(low: exp.Expr, high: exp.Expr, target: str) -> Constant | None:
    first = _fetch(low, target)
    second = first if high is low else _fetch(high, target)
    return Constant(first[0], first[1], second[1]) if first and second else None


def _fetch(node: exp.Expr, target: str) -> tuple[str, Any] | None:
    text = write(cast("exp.Expression", node))
    value = f"CAST({text} AS {target})" if target else f"({text})"
    if target.startswith("TIME"):
        value = (
            f"CASE WHEN isfinite({value}) THEN epoch_us({value}) WHEN {value} IS NOT NULL THEN error('infinite') END"
        )
    elif target == "DATE":
        value = f"datediff('day', DATE '1970-01-01', {value})"
    try:
        with _lock:
            return _calculator().execute(f"SELECT typeof({text}), {value}").fetchone()
    except (duckdb.Error, OverflowError, ValueError):
        return None


@cache
def _calculator() -> duckdb.DuckDBPyConnection:
    """A DuckDB that has nothing to read and nowhere to go."""
    connection = duckdb.connect(config={"threads": 1})
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("SET autoinstall_known_extensions = false")
    connection.execute("SET enable_external_access = false")
    return connection
