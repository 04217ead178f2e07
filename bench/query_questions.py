"""Twelve questions as people ask them, and the three that answer: the service, plain DuckDB and Spark SQL."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from bench.query_data import END, GAUGES, OWNER, PHRASE, RARE, SERVICES, START
from neve.lake.duckdb import connect, quote_literal, to_duckdb_path
from neve.query.request import Request
from neve.query.sql.statement import find_lake_tables, parse, write_for_duckdb, write_for_spark

if TYPE_CHECKING:
    from collections.abc import Callable

    import duckdb
    import pyarrow as pa

    from bench.query_data import Made
    from neve.lake.lake import Lake
    from neve.query.config import QueryConfig
    from neve.query.request import Statistics
    from neve.query.service import QueryService

    Ask = Callable[[str], "Answer"]

TABLES = ("spans", "logs", "metrics")
NEAR = 1e-6
DAY = (START + timedelta(days=1), START + timedelta(days=2))
Row = tuple[Any, ...]


@dataclass(frozen=True)
class Question:
    """One question; `prunes` says whether files are apart by what it asks for."""

    name: str
    sql: str
    prunes: bool = True


def questions(made: Made) -> tuple[Question, ...]:
    """All of them, about rows that are there."""
    trace, began = made.traces[len(made.traces) // 2]
    return (
        Question("trace_by_id", trace_by_id(trace)),
        Question("rare_term", rare_term(RARE)),
        Question(
            "phrase",
            f"SELECT service_name, count(*) AS found FROM logs WHERE has_phrase(message, '{PHRASE}') "
            "GROUP BY 1 ORDER BY 1",
        ),
        Question("errors_five_minutes", errors_between(END - timedelta(minutes=5), END)),
        Question("p95_by_endpoint_hour", p95_between(END - timedelta(hours=1), END)),
        Question(
            "top_customers_day",
            "SELECT attributes['customer.id'] AS customer, count(*) AS requests FROM spans "
            f"WHERE span_kind = 2 AND {within('timestamp', *DAY)} GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 10",
        ),
        Question(
            "join_errors_spans",
            "SELECT s.service_name, s.operation_name, count(*) AS errors, avg(s.duration_ms) AS mean_ms "
            "FROM logs AS l JOIN spans AS s ON l.trace_id = s.trace_id AND l.span_id = s.span_id "
            f"WHERE l.severity_number >= 17 AND {within('l.timestamp', END - timedelta(minutes=15), END)} "
            f"AND {within('s.timestamp', END - timedelta(minutes=15), END)} GROUP BY 1, 2 ORDER BY 3 DESC, 1, 2",
        ),
        Question("logs_of_trace", logs_of_trace(trace, began)),
        Question("day_view", day_view(GAUGES[3], *DAY)),
        Question(
            "rate_change_by_minute",
            "SELECT minute, requests, requests - lag(requests) OVER (ORDER BY minute) AS change FROM ("
            "SELECT date_trunc('minute', timestamp) AS minute, count(*) AS requests FROM spans "
            f"WHERE service_name = '{SERVICES[3]}' AND {within('timestamp', END - timedelta(hours=6), END)} "
            "GROUP BY 1) AS rates ORDER BY minute",
        ),
        Question(
            "map_filter_day",
            "SELECT count(*) AS failed FROM spans "
            f"WHERE attributes['http.response.status_code'] = '503' AND {within('timestamp', *DAY)}",
        ),
        Question(
            "full_scan",
            "SELECT service_name, count(*) AS spans, avg(duration_ms) AS mean_ms FROM spans GROUP BY 1 ORDER BY 1",
            prunes=False,
        ),
    )


def trace_by_id(trace: str) -> str:
    """The spans of a trace, of whatever day."""
    return (
        "SELECT timestamp, span_id, service_name, operation_name, duration_ms, status_code FROM spans "
        f"WHERE trace_id = unhex('{trace}') ORDER BY timestamp, span_id"
    )


def rare_term(word: str) -> str:
    """The logs that have a word."""
    return f"SELECT timestamp, service_name, message FROM logs WHERE has_term(message, '{word}') ORDER BY timestamp"


def errors_between(since: datetime, until: datetime) -> str:
    """Failed spans by service."""
    return (
        "SELECT service_name, count(*) AS errors FROM spans "
        f"WHERE status_code = 2 AND {within('timestamp', since, until)} GROUP BY 1 ORDER BY 2 DESC, 1"
    )


def p95_between(since: datetime, until: datetime) -> str:
    """How slow the slow ones are, by endpoint."""
    return (
        "SELECT operation_name, quantile_cont(duration_ms, 0.95) AS p95, count(*) AS spans FROM spans "
        f"WHERE {within('timestamp', since, until)} GROUP BY 1 ORDER BY 1"
    )


def logs_of_trace(trace: str, began: datetime) -> str:
    """What the spans of a trace said, near the time that it began."""
    near = began - timedelta(minutes=30), began + timedelta(minutes=30)
    return (
        "SELECT l.timestamp, s.service_name, s.operation_name, l.message "
        "FROM logs AS l JOIN spans AS s ON l.trace_id = s.trace_id AND l.span_id = s.span_id "
        f"WHERE l.trace_id = unhex('{trace}') AND s.trace_id = unhex('{trace}') "
        f"AND {within('l.timestamp', *near)} AND {within('s.timestamp', *near)} ORDER BY l.timestamp, l.message"
    )


def day_view(gauge: str, since: datetime, until: datetime) -> str:
    """A gauge by hour and service."""
    return (
        "SELECT date_trunc('hour', timestamp) AS hour, service_name, avg(value) AS mean, max(value) AS most "
        f"FROM metrics WHERE metric_name = '{gauge}' AND metric_type = 'gauge' AND {within('timestamp', since, until)} "
        "GROUP BY 1, 2 ORDER BY 1, 2"
    )


def within(column: str, since: datetime, until: datetime) -> str:
    """A condition on a time."""
    return f"{column} >= TIMESTAMPTZ '{since.isoformat()}' AND {column} < TIMESTAMPTZ '{until.isoformat()}'"


@dataclass(frozen=True)
class Answer:
    """Rows, and what they took."""

    rows: list[Row]
    seconds: float
    statistics: Statistics | None = None


def by_service(service: QueryService, *, fresh: bool = True) -> Ask:
    """Ours; nothing comes from the cache unless it may."""

    def ask(sql: str) -> Answer:
        began = time.perf_counter()
        running = service.start(Request(sql, OWNER, fresh=fresh))
        batches = list(running.batches())
        seconds = time.perf_counter() - began
        return Answer([row for batch in batches for row in _rows(batch)], seconds, running.statistics)

    return ask


def by_duckdb(lake: Lake, config: QueryConfig) -> Ask:
    """Views of all files of each table, with the threads and the memory that ours has, and footers kept as well."""
    connection = connect(lake.s3, on_s3=False, threads=config.threads, memory_limit=config.memory_limit, extensions=())
    connection.execute("SET parquet_metadata_cache = true")
    connection.execute("SET enable_progress_bar = false")
    for name in TABLES:
        connection.execute(_view(lake, name))
    schemas = schemas_of(lake)

    def ask(sql: str) -> Answer:
        statement = parse(sql, schemas)
        plain = write_for_duckdb(
            statement,
            {number: f"(SELECT * FROM all_{node.name})" for number, node in find_lake_tables(statement.tree).items()},
        )
        return _duckdb_answer(connection, plain)

    return ask


def by_spark(lake: Lake) -> Ask:
    """The Iceberg tables in Spark SQL."""
    spark = lake.spark
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    schemas = schemas_of(lake)

    def ask(sql: str) -> Answer:
        statement = parse(sql, schemas)
        owned = f"WHERE organization_id = {quote_literal(OWNER)}"
        sources = {
            number: f"(SELECT * FROM {lake.spark_name(node.name)} {owned})"
            for number, node in find_lake_tables(statement.tree).items()
        }
        text = write_for_spark(statement, sources)
        began = time.perf_counter()
        table = spark.sql(text).toArrow()
        seconds = time.perf_counter() - began
        return Answer([row for batch in table.to_batches() for row in _rows(batch)], seconds)

    return ask


def schemas_of(lake: Lake) -> dict[str, pa.Schema]:
    """The columns of the tables that are asked about."""
    return {name: lake.table(name).schema().as_arrow() for name in TABLES}


def same(ours: list[Row], theirs: list[Row]) -> bool:
    """Whether rows are the same, in the same order, but for the order in which floats were added up."""
    return len(ours) == len(theirs) and all(
        len(one) == len(other) and all(map(_alike, one, other)) for one, other in zip(ours, theirs, strict=True)
    )


def _alike(one: object, other: object) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=NEAR)
    return one == other


def _view(lake: Lake, name: str) -> str:
    files = (to_duckdb_path(task.file.file_path) for task in lake.table(name).scan().plan_files())
    every = f"read_parquet([{', '.join(map(quote_literal, files))}])"
    return f"CREATE VIEW all_{name} AS SELECT * FROM {every} WHERE organization_id = {quote_literal(OWNER)}"


def _duckdb_answer(connection: duckdb.DuckDBPyConnection, sql: str) -> Answer:
    began = time.perf_counter()
    batches = list(connection.execute(sql).to_arrow_reader())
    seconds = time.perf_counter() - began
    return Answer([row for batch in batches for row in _rows(batch)], seconds)


def _rows(batch: pa.RecordBatch) -> list[Row]:
    return list(zip(*([_plain(value) for value in column.to_pylist()] for column in batch.columns), strict=True))


def _plain(value: object) -> object:
    """Numbers as floats, times in UTC: engines have several types for the same."""
    if isinstance(value, int | Decimal) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, datetime):
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    return bytes(value) if isinstance(value, bytes | bytearray) else value
