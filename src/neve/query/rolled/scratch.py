"""A DuckDB without rows, which knows what constants are worth and what the columns of a SELECT are called."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import duckdb
from sqlglot import exp

from neve.model.rollups import ROLLUPS
from neve.model.tables import METRICS
from neve.query.sql.identifiers import fold

if TYPE_CHECKING:
    from collections.abc import Sequence

Columns = list[tuple[str, str]]  # names and types

# Nodes and functions that a constant time or interval may be made of.
NODES = (exp.Literal, exp.Interval, exp.Var, exp.DataType, exp.Paren, exp.Neg, exp.Add, exp.Sub, exp.Mul)
CLOCKS = (exp.CurrentTimestamp, exp.CurrentDate)
FUNCTIONS = frozenset(
    (
        *("now", "get_current_timestamp", "transaction_timestamp", "current_timestamp", "today", "current_date"),
        *("to_timestamp", "unix_to_time", "make_timestamp", "make_timestamptz", "make_date", "strptime"),
        *("date_trunc", "timestamp_trunc", "to_seconds", "to_minutes", "to_hours", "to_days"),
    )
)
TYPES = (exp.DType.TIMESTAMP, exp.DType.TIMESTAMPTZ, exp.DType.TIMESTAMPNTZ, exp.DType.DATE, exp.DType.INTERVAL)
LIMIT = 253_402_214_400_000_000  # the last day of the year 9999, in microseconds


def function_name(node: exp.Expr) -> str:
    """What a function is called, in lower case; empty for what is no function."""
    if isinstance(node, exp.Anonymous):
        return fold(str(node.this))
    return fold(node.sql_name()) if isinstance(node, exp.Func) else ""


def moment_of(node: exp.Expr) -> int | None:
    """A constant time in microseconds since 1970, as DuckDB understands it in UTC; `None` for anything else."""
    found = _number("epoch_us(CAST({} AS TIMESTAMPTZ))", node)
    return found if found is not None and 0 <= found < LIMIT else None


def width_of(node: exp.Expr) -> int | None:
    """How long a constant interval is in microseconds; one of months is some whole number of days."""
    return _number("epoch_us(TIMESTAMP '2000-01-03' + {}) - epoch_us(TIMESTAMP '2000-01-03')", node)


def columns_of(select: exp.Select) -> Columns | None:
    """Names and types of what a SELECT over points and rollups gives; `None` where DuckDB does not take it."""
    alone = select.copy()
    alone.set("with_", None)
    for table in alone.find_all(exp.Table):
        table.set("db", None)
        table.set("catalog", None)
    rows = _answer("DESCRIBE " + alone.sql(dialect="duckdb"))
    return None if rows is None else [(str(row[0]), str(row[1])) for row in rows]


def _number(template: str, node: exp.Expr) -> int | None:
    if not all(_is_constant(part) for part in node.walk()):
        return None
    rows = _answer("SELECT " + template.format(f"({node.sql(dialect='duckdb')})"))
    value = rows[0][0] if rows else None
    return value if isinstance(value, int) else None


def _is_constant(node: exp.Expr) -> bool:
    if isinstance(node, exp.Cast):
        return node.to.this in TYPES
    return isinstance(node, (*NODES, *CLOCKS)) or function_name(node) in FUNCTIONS


def _answer(sql: str) -> Sequence[tuple[object, ...]] | None:
    cursor = _empty().cursor()
    try:
        rows: Sequence[tuple[object, ...]] = cursor.execute(sql).fetchall()
    except duckdb.Error:
        return None
    finally:
        cursor.close()
    return rows


@cache
def _empty() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(config={"threads": 1, "memory_limit": "64MB", "enable_external_access": "false"})
    connection.execute("SET GLOBAL TimeZone = 'UTC'")  # for the cursors to come
    for table in (METRICS, *ROLLUPS):
        connection.register("declared", table.schema.empty_table())
        connection.execute(f"CREATE TABLE {table.name} AS SELECT * FROM declared")  # noqa: S608 - a declared name
    return connection
