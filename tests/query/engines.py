"""The same statement on both engines: a lake with rows that are hard on translations, and how answers are compared."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from neve.lake.commit.append import append_once
from neve.lake.duckdb import confinement_statements, connect, quote_literal, scan_sql
from neve.lake.write.table_writer import Target, write_files
from neve.model.tables import LOGS, METRICS, SPANS, TABLES
from neve.query.sql.statement import Statement, find_lake_tables, parse, write_for_duckdb, write_for_spark

if TYPE_CHECKING:
    from collections.abc import Callable

    from duckdb import DuckDBPyConnection
    from pyspark.sql import SparkSession

    from neve.lake.lake import Lake
    from neve.model.columns import Table

ACME, OTHER = "acme", "globex"
START = datetime(2026, 3, 1, 22, 30, tzinfo=UTC)
SCHEMAS = {table.name: table.schema for table in TABLES}
SERVICES = ("cart", "checkout", "päment", None)
MESSAGES = (
    "Connection timed out after 30s",
    "timeout: upstream cart-7",
    "GET /api/v1/items?id=42 200",
    "Über-Fehler in Straße 5",
    "100% of $5 \\ {x} 'quoted'",
    "line one\nline two",
    "日本語のログ error",
    "",
    None,
)
CODES = ("200", "404", "500", "1.5", " 7 ", "-3", None)


def spans(owner: str, count: int) -> list[dict[str, Any]]:
    """Spans of two days: no end, NaN, errors, events, empty maps and none."""
    return [_span(owner, number) for number in range(count)]


def _span(owner: str, number: int) -> dict[str, Any]:
    at = START + timedelta(minutes=7 * number, microseconds=number * 1003)
    code = CODES[number % len(CODES)]
    events = [
        {"time_unix_nano": _nanos(at) + place, "name": f"event {place}", "attributes": [("k", str(place))]}
        for place in range(number % 3)
    ]
    return {
        "organization_id": owner,
        "timestamp": at,
        "trace_id": bytes([number % 251]) * 16,
        "span_id": number.to_bytes(8, "big"),
        "parent_span_id": None if number % 4 == 0 else (number - 1).to_bytes(8, "big"),
        "service_name": SERVICES[number % 4],
        "operation_name": ("GET /", "POST /pay", "select")[number % 3],
        "span_kind": number % 6,
        "status_code": number % 3,
        "duration_ms": _duration(number),
        "start_time_unix_nano": _nanos(at),
        "end_time_unix_nano": _nanos(at) + number * 1_000_000,
        "status_message": None if number % 3 else "failed",
        "flags": number,
        "attributes": [("http.status_code", code), ("user", f"u{number % 5}")] if code else [],
        "attribute_types": [("http.status_code", "int")] if code else None,
        "events": events if number % 7 else None,
        "resource_attrs": [("host.name", f"h{number % 3}"), ("service.name", "x")],
        "record_id": number.to_bytes(16, "big"),
        "ingested_at": at + timedelta(seconds=90),
    }


def _duration(number: int) -> float | None:
    if number % 11 == 0:
        return None
    return math.nan if number % 50 == 49 else (number * 37 % 1000) / 8


def logs(owner: str, count: int) -> list[dict[str, Any]]:
    """Logs with text that quoting and patterns stumble over."""
    return [_log(owner, number) for number in range(count)]


def _log(owner: str, number: int) -> dict[str, Any]:
    at = START + timedelta(minutes=11 * number, seconds=number % 60)
    return {
        "organization_id": owner,
        "timestamp": at,
        "service_name": SERVICES[(number + 1) % 4],
        "severity_number": None if number % 13 == 0 else number % 24 + 1,
        "severity_text": ("INFO", "warn", "Error")[number % 3],
        "message": MESSAGES[number % len(MESSAGES)],
        "trace_id": bytes([number % 251]) * 16 if number % 2 else None,
        "time_unix_nano": _nanos(at),
        "observed_time_unix_nano": 0,
        "attributes": [("attempt", str(number % 4)), ("path", f"/a/{number % 3}/b")] if number % 5 else [],
        "record_id": (10_000 + number).to_bytes(16, "big"),
    }


def metrics(owner: str, count: int) -> list[dict[str, Any]]:
    """Points of gauges, sums and histograms."""
    return [_point(owner, number) for number in range(count)]


def _point(owner: str, number: int) -> dict[str, Any]:
    at = START + timedelta(seconds=97 * number)
    histogram = number % 3 == 2
    return {
        "organization_id": owner,
        "timestamp": at,
        "metric_name": ("cpu", "requests", "latency")[number % 3],
        "metric_type": ("gauge", "sum", "histogram")[number % 3],
        "service_name": SERVICES[number % 2],
        "value": None if histogram else number / 4 - 10,
        "count": number if histogram else None,
        "sum": number * 1.5 if histogram else None,
        "is_monotonic": number % 3 == 1 if number % 3 else None,
        "unit": ("1", "By", "ms")[number % 3],
        "time_unix_nano": _nanos(at),
        "value_int": number * 7 - 50 if number % 3 == 1 else None,
        "explicit_bounds": [0.5, 1.0, 5.0] if histogram else None,
        "bucket_counts": [number, 0, number % 4, 1] if histogram else [],
        "attributes": [("host", f"h{number % 4}")],
        "record_id": (20_000 + number).to_bytes(16, "big"),
    }


def _nanos(at: datetime) -> int:
    return int((at - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(microseconds=1)) * 1000


def fill(lake: Lake) -> Lake:
    """Put the rows of two organizations into a lake."""
    for owner, share in ((ACME, 1), (OTHER, 3)):
        put(lake, SPANS, spans(owner, 360 // share), owner)
        put(lake, LOGS, logs(owner, 240 // share), owner)
        put(lake, METRICS, metrics(owner, 200 // share), owner)
    return lake


def put(lake: Lake, table: Table, rows: list[dict[str, Any]], owner: str) -> None:
    """Write and commit rows; columns that they don't have are null."""
    columns = [pa.array([row.get(field.name) for row in rows], field.type) for field in table.schema]
    written = write_files(Target.of(lake.table(table.name)), pa.table(columns, schema=table.schema))
    append_once(lake.table(table.name), written, batch_id=f"{owner}-{table.name}", operation="test")


def open_duckdb(lake: Lake) -> DuckDBPyConnection:
    """DuckDB that reaches the lake's files and nothing else."""
    connection = connect(lake.s3, on_s3=False, threads=1)
    connection.execute("SET python_enable_replacements = false")
    for statement in confinement_statements([lake.table(name).metadata.location for name in lake.table_names()]):
        connection.execute(statement)
    return connection


def duckdb_sources(lake: Lake, statement: Statement, owner: str) -> dict[int, str]:
    """Each table as the rows of one organization."""
    return {
        number: f"(SELECT * FROM {scan_sql(lake.table(table.name))} WHERE organization_id = {quote_literal(owner)})"
        for number, table in find_lake_tables(statement.tree).items()
    }


def cache_for_spark(spark: SparkSession, lake: Lake, owner: str = ACME) -> None:
    """The rows of an organization in Spark's memory: the queries are many and the files are always the same."""
    for name in ("spans", "logs", "metrics"):
        rows = spark.sql(f"SELECT * FROM {lake.spark_name(name)} WHERE organization_id = '{owner}'")
        rows.coalesce(1).cache().createOrReplaceTempView(view_of(name, owner))


def view_of(table: str, owner: str) -> str:
    """What cached rows are called."""
    return f"cached_{owner}_{table}"


def spark_sources(statement: Statement, owner: str) -> dict[int, str]:
    """The same for Spark."""
    return {
        number: f"(SELECT * FROM {view_of(table.name, owner)})"
        for number, table in find_lake_tables(statement.tree).items()
    }


def ask_duckdb(connection: DuckDBPyConnection, lake: Lake, sql: str, owner: str = ACME) -> pa.Table:
    """DuckDB's answer."""
    statement = parse(sql, SCHEMAS)
    return connection.execute(write_for_duckdb(statement, duckdb_sources(lake, statement, owner))).to_arrow_table()


def ask_spark(spark: SparkSession, sql: str, owner: str = ACME) -> pa.Table:
    """Spark's answer."""
    statement = parse(sql, SCHEMAS)
    return spark.sql(write_for_spark(statement, spark_sources(statement, owner))).toArrow()


def differences(left: pa.Table, right: pa.Table, *, ordered: bool) -> list[str]:
    """How two answers differ: in names, kinds of values, number of rows, or rows."""
    if left.schema.names != right.schema.names:
        return [f"names: {left.schema.names} and {right.schema.names}"]
    kinds = [
        (field.name, said(field.type), said(right.schema.field(place).type)) for place, field in enumerate(left.schema)
    ]
    wrong = [
        f"{name} is {one} and {other}" for name, one, other in kinds if one != other and "null" not in (one, other)
    ]
    if wrong:
        return wrong
    if left.num_rows != right.num_rows:
        return [f"{left.num_rows} rows and {right.num_rows}"]
    rows, others = _rows(left), _rows(right)
    if not ordered:
        rows, others = sorted(rows, key=repr), sorted(others, key=repr)
    pairs = zip(rows, others, strict=True)
    found = [f"{one} and {other}" for one, other in pairs if not alike(one, other)]
    return found[:3]


def said(kind: pa.DataType) -> str:
    """A type in the kinds that matter: engines differ in widths."""
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"list of {said(kind.value_type)}"
    if pa.types.is_struct(kind):
        return f"struct of {', '.join(f'{field.name} {said(field.type)}' for field in kind)}"
    if pa.types.is_timestamp(kind):
        return f"timestamp {'with' if kind.tz else 'without'} zone"
    return next((name for name, is_one in KINDS if is_one(kind)), str(kind).removeprefix("large_"))


KINDS: tuple[tuple[str, Callable[[pa.DataType], bool]], ...] = (
    ("integer", lambda kind: pa.types.is_integer(kind) or (pa.types.is_decimal(kind) and kind.scale == 0)),
    ("decimal", pa.types.is_decimal),
    ("float", pa.types.is_floating),
    ("map", pa.types.is_map),
)


def _rows(table: pa.Table) -> list[tuple[Any, ...]]:
    columns = [column.to_pylist() for column in table.columns]
    return [tuple(plain(value) for value in row) for row in zip(*columns, strict=True)]


def plain(value: Any) -> Any:
    """A value that can be sorted and compared: numbers rounded only where they are compared."""
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else value
    if isinstance(value, list):
        items = [plain(item) for item in value]
        pairs = items and all(isinstance(item, tuple) for item in items)
        return sorted(items) if pairs else items
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return value


def alike(one: Any, other: Any) -> bool:
    """Whether two values are the same, floats to nine digits."""
    if isinstance(one, float) and isinstance(other, float):
        return (math.isnan(one) and math.isnan(other)) or math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-12)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(alike, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(alike(one[key], other[key]) for key in one)
    return bool(one == other) and isinstance(one, datetime) == isinstance(other, datetime)
