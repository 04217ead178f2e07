"""Expressions that have the same value for a row of a rollup as for each of its points.

They consist of columns and attributes that the rollup keeps, and of time in buckets that are whole windows. Any other
expression is not eligible. An empty DuckDB evaluates constants and names the columns of a SELECT.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

import duckdb
from sqlglot import exp

from neve.model.rollups import ROLLUPS
from neve.model.tables import METRICS
from neve.predicate.names import fold

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


Columns = list[tuple[str, str]]  # names and types

# Nodes and functions that are allowed in a constant time or interval.
CONSTANT_NODES = (exp.Literal, exp.Interval, exp.Var, exp.DataType, exp.Paren, exp.Neg, exp.Add, exp.Sub, exp.Mul)
CLOCKS = (exp.CurrentTimestamp, exp.CurrentDate)
CONSTANT_FUNCTIONS = frozenset(
    (
        *("now", "get_current_timestamp", "transaction_timestamp", "current_timestamp", "today", "current_date"),
        *("to_timestamp", "unix_to_time", "make_timestamp", "make_timestamptz", "make_date", "strptime"),
        *("date_trunc", "timestamp_trunc", "to_seconds", "to_minutes", "to_hours", "to_days"),
    )
)
CONSTANT_TYPES = (
    exp.DType.TIMESTAMP,
    exp.DType.TIMESTAMPTZ,
    exp.DType.TIMESTAMPNTZ,
    exp.DType.DATE,
    exp.DType.INTERVAL,
)
LAST_MOMENT = 253_402_214_400_000_000  # the last day of the year 9999, in microseconds


def function_name(node: exp.Expr) -> str:
    """Return the name of a function in lower case, or an empty text if the node is no function."""
    if isinstance(node, exp.Anonymous):
        return fold(str(node.this))
    return fold(node.sql_name()) if isinstance(node, exp.Func) else ""


def evaluate_moment(node: exp.Expr) -> int | None:
    """Return a constant time in microseconds since 1970, as DuckDB evaluates it in UTC, or `None` for anything else."""
    found = _evaluate_number("epoch_us(CAST({} AS TIMESTAMPTZ))", node)
    return found if found is not None and 0 <= found < LAST_MOMENT else None


def evaluate_interval(node: exp.Expr) -> int | None:
    """Return the length of a constant interval in microseconds. An interval of months is some whole number of days."""
    return _evaluate_number("epoch_us(TIMESTAMP '2000-01-03' + {}) - epoch_us(TIMESTAMP '2000-01-03')", node)


def describe_columns(select: exp.Select) -> Columns | None:
    """Return names and types of the result of a SELECT over points and rollups, or `None` if DuckDB rejects it."""
    alone = select.copy()
    alone.set("with_", None)
    for table in alone.find_all(exp.Table):
        table.set("db", None)
        table.set("catalog", None)
    rows = _fetch_rows("DESCRIBE " + alone.sql(dialect="duckdb"))
    return None if rows is None else [(str(row[0]), str(row[1])) for row in rows]


def _evaluate_number(template: str, node: exp.Expr) -> int | None:
    if not all(_is_constant(part) for part in node.walk()):
        return None
    rows = _fetch_rows("SELECT " + template.format(f"({node.sql(dialect='duckdb')})"))
    value = rows[0][0] if rows else None
    return value if isinstance(value, int) else None


def _is_constant(node: exp.Expr) -> bool:
    if isinstance(node, exp.Cast):
        return node.to.this in CONSTANT_TYPES
    return isinstance(node, (*CONSTANT_NODES, *CLOCKS)) or function_name(node) in CONSTANT_FUNCTIONS


def _fetch_rows(sql: str) -> Sequence[tuple[object, ...]] | None:
    cursor = _empty_database().cursor()
    try:
        rows: Sequence[tuple[object, ...]] = cursor.execute(sql).fetchall()
    except duckdb.Error:
        return None
    finally:
        cursor.close()
    return rows


@cache
def _empty_database() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(config={"threads": 1, "memory_limit": "64MB", "enable_external_access": "false"})
    connection.execute("SET GLOBAL TimeZone = 'UTC'")  # for later cursors
    for table in (METRICS, *ROLLUPS):
        connection.register("declared", table.schema.empty_table())
        connection.execute(f"CREATE TABLE {table.name} AS SELECT * FROM declared")  # noqa: S608 - a declared name
    return connection


# They consist of columns and attributes that the rollup keeps, and of time in buckets that are whole windows. An
# expression that is not known to be eligible is not eligible.

SECOND = 1_000_000
MINUTE, HOUR, DAY = 60 * SECOND, 3600 * SECOND, 86_400 * SECOND

TIME, VALUE, SERVICE = "timestamp", "value", "service_name"
PLAIN = frozenset({"metric_name", "metric_type", "unit", "is_monotonic", "aggregation_temporality", SERVICE})
MAPS = frozenset({"attributes", "resource_attrs"})
NAMES = frozenset(METRICS.schema.names)

DAYS = (
    *("day", "week", "month", "quarter", "year", "decade", "century", "millennium"),
    *("dow", "isodow", "doy", "weekday", "isoyear", "yearweek"),
)
UNITS = {"minute": MINUTE, "hour": HOUR} | dict.fromkeys(DAYS, DAY)
EPOCHS = {"epoch": SECOND, "time_to_unix": SECOND, "epoch_ms": 1000, "epoch_us": 1}
TRUNCATIONS = frozenset({"date_trunc", "datetrunc", "timestamp_trunc"})
AGGREGATES = {"mean": "avg"} | {name: name for name in ("sum", "min", "max", "avg", "count")}

NODES = (
    *(exp.Literal, exp.Boolean, exp.Null, exp.Identifier, exp.Var, exp.DataType, exp.Interval, exp.Tuple),
    *(exp.Alias, exp.Paren, exp.Cast, exp.Case, exp.If, exp.Between, exp.In, exp.Not, exp.Neg, exp.And, exp.Or),
    *(exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Is, exp.NullSafeEQ, exp.NullSafeNEQ, exp.Like, exp.ILike),
    *(exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod, exp.Pow, exp.DPipe),
    *(exp.Where, exp.Having, exp.Qualify, exp.Group, exp.Order, exp.Ordered, exp.Limit, exp.Offset, exp.WindowSpec),
    *(exp.IgnoreNulls, exp.RespectNulls),
)
FUNCTIONS = frozenset(
    (
        *("abs", "round", "floor", "ceil", "ceiling", "sqrt", "ln", "log", "log2", "log10", "exp", "pow", "power"),
        *("sign", "greatest", "least", "isnan", "isfinite", "coalesce", "ifnull", "nullif", "if"),
        *("lower", "upper", "trim", "ltrim", "rtrim", "substring", "substr", "left", "right", "replace"),
        *("concat", "concat_ws", "length", "split_part", "starts_with", "ends_with", "contains", "prefix", "suffix"),
        *("regexp_matches", "regexp_extract", "regexp_replace", "strftime", "time_to_str"),
        *("to_timestamp", "unix_to_time", "date_trunc", "timestamp_trunc", "epoch", "time_to_unix"),
    )
)


@dataclass
class ExpressionCheck:
    """Check of the expressions of one SELECT, which also collects their requirements.

    `scope` is the name of the table in the SELECT, `aliases` are the names that the SELECT defines. Afterwards
    `buckets` has the length of each time bucket, `keys` the attributes, `columns` the columns to read, and `aggregates`
    the aggregates of `value`, each with its FILTER if it has one.
    """

    scope: str
    aliases: frozenset[str] = frozenset()
    buckets: set[int] = field(default_factory=set)
    keys: set[tuple[str, str]] = field(default_factory=set)
    columns: set[str] = field(default_factory=set)
    aggregates: list[tuple[str, exp.Expr]] = field(default_factory=list)

    def fits(self, node: exp.Expr, *, grouped: bool = False) -> bool:
        """Return whether an expression has the same value.

        In an expression over groups, aggregates of `value` are allowed.
        """
        if isinstance(node, exp.Column):
            return self._is_kept(node) or (grouped and self._is_alias(node))
        if isinstance(node, exp.Bracket):
            return self._is_attribute(node)
        bucket = self._bucket(node)
        if bucket:
            self.buckets.add(bucket)
            self.columns.add(TIME)
            return True
        if grouped and isinstance(node, (exp.Filter, exp.Window, exp.AggFunc, exp.Anonymous)):
            found = self._of_groups(node)
            if found is not None:
                return found
        return _is_known(node) and all(self.fits(part, grouped=grouped) for part in node.iter_expressions())

    def is_column(self, node: exp.Expr | None, name: str) -> bool:
        """Return whether an expression is just that column of the table."""
        return (
            isinstance(node, exp.Column)
            and fold(node.name) == name
            and not node.args.get("db")
            and fold(node.table) in ("", self.scope)
        )

    def fits_groups(self, group: exp.Group) -> bool:
        """Return whether the keys of groups are eligible. An alias of the SELECT is replaced by its expression."""
        if any(group.args.get(name) for name in ("grouping_sets", "cube", "rollup", "totals")):
            return False
        return all(self._is_new_name(key) or self.fits(key) for key in group.expressions)

    def _is_kept(self, node: exp.Column) -> bool:
        name = fold(node.name)
        if name not in PLAIN or not self.is_column(node, name):
            return False
        self.columns.add(name)
        if name == SERVICE:
            self.keys.add(("resource_attrs", "service.name"))
        return True

    def _is_alias(self, node: exp.Column) -> bool:
        return not node.table and fold(node.name) in self.aliases

    def _is_new_name(self, node: exp.Expr) -> bool:
        return isinstance(node, exp.Column) and self._is_alias(node) and fold(node.name) not in NAMES

    def _is_attribute(self, node: exp.Bracket) -> bool:
        name = fold(node.this.name)
        keys = node.expressions
        if name not in MAPS or not self.is_column(node.this, name) or len(keys) != 1 or not keys[0].is_string:
            return False
        self.columns.add(name)
        self.keys.add((name, keys[0].name))
        return True

    def _of_groups(self, node: exp.Expr) -> bool | None:
        """Return whether an aggregate or window function is eligible, or `None` for any other function."""
        if isinstance(node, exp.Window):
            parts = [part for key, part in _parts(node) if key != "this"]
            return all(self.fits(part, grouped=True) for part in [*parts, *_arguments_over(node.this)])
        if isinstance(node, exp.Filter):
            return self.fits(node.expression) and self._is_aggregate(node.this, node)
        if isinstance(node, exp.AggFunc) or function_name(node) in AGGREGATES:
            return self._is_aggregate(node, node)
        return None

    def _is_aggregate(self, node: exp.Expr, whole: exp.Expr) -> bool:
        name = AGGREGATES.get(function_name(node))
        arguments = _arguments(node)
        if name is None or len(arguments) != 1 or not self.is_column(arguments[0], VALUE):
            return False
        self.aggregates.append((name, whole))
        return True

    def _bucket(self, node: exp.Expr) -> int | None:
        """Return the length of the buckets into which an expression divides time, or `None` if it does not."""
        match node:
            case exp.Cast():
                time, bucket = node.this, DAY if node.to.this == exp.DType.DATE else None
            case exp.Extract():
                time, bucket = node.expression, UNITS.get(fold(node.name))
            case _:
                time, bucket = self._find_divided_time(node)
        return bucket if self.is_column(time, TIME) else None

    def _find_divided_time(self, node: exp.Expr) -> tuple[exp.Expr | None, int | None]:
        """Return the time that a function divides into buckets, and the length of these."""
        name, arguments = function_name(node), _arguments(node)
        if name == "floor" and len(arguments) == 1:
            return _floor_bucket(arguments[0].unnest())
        if len(arguments) != 2:
            return None, None
        if name in TRUNCATIONS:
            unit, time = arguments if isinstance(node, exp.Anonymous) else (node.args["unit"], node.this)
            return time, UNITS.get(fold(unit.name))
        return (arguments[1], evaluate_interval(arguments[0])) if name in ("time_bucket", "date_bin") else (None, None)


def _floor_bucket(node: exp.Expr) -> tuple[exp.Expr | None, int | None]:
    """Return the buckets of `floor(epoch(timestamp) / 300)`."""
    if not isinstance(node, exp.Div) or not node.expression.is_int:
        return None, None
    epoch = node.this.unnest()
    unit, arguments = EPOCHS.get(function_name(epoch)), _arguments(epoch)
    return (arguments[0], unit * int(node.expression.name)) if unit and len(arguments) == 1 else (None, None)


def _is_known(node: exp.Expr) -> bool:
    return isinstance(node, NODES) or function_name(node) in FUNCTIONS


def _arguments(node: exp.Expr) -> list[exp.Expr]:
    return [part for _, part in _parts(node)]


def _arguments_over(node: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the arguments of a window function: any function is eligible, because its input is the groups."""
    if isinstance(node, (exp.Filter, exp.IgnoreNulls, exp.RespectNulls)):
        yield from _arguments_over(node.this)
        yield from (part for key, part in _parts(node) if key != "this")
    elif isinstance(node, exp.Func):
        yield from (part for part in _arguments(node) if not isinstance(part, exp.Star))
    else:
        yield node


def _parts(node: exp.Expr) -> Iterator[tuple[str, exp.Expr]]:
    """Yield the direct children of a node, each with the name of its argument."""
    for part in node.iter_expressions():
        yield part.arg_key or "", part
