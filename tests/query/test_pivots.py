"""PIVOT without values: two statements on one snapshot, with the result that DuckDB gives."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest

from neve.errors import LimitExceeded, QueryCancelled, QueryError
from neve.model.tables import LOGS, SPANS
from neve.query.config import QueryConfig
from neve.query.engine.duckdb import DuckEngine, DuckRun
from neve.query.execution import RunningQuery
from neve.query.limits import Limits
from neve.query.query_plan import QueryPlan
from neve.query.request import Request, TimeRange
from neve.query.service import Ports, QueryService
from neve.query.sql.statement import parse, write_for_duckdb
from tests.query.engines import SCHEMAS, START, logs, put, spans
from tests.query.lakes import ACME, OTHER, make_lake

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from neve.lake.lake import Lake
    from neve.query.engine.duckdb import Write

PIVOTS = (
    "PIVOT spans ON service_name USING count(*) GROUP BY status_code ORDER BY status_code",
    "PIVOT spans ON service_name, status_code USING sum(flags) AS total, count(*) AS n GROUP BY span_kind ORDER BY ALL",
    "PIVOT spans ON span_kind USING max(flags) GROUP BY service_name ORDER BY ALL LIMIT 2",
    "PIVOT spans ON (status_code = 2) USING count(*) GROUP BY service_name ORDER BY ALL",
    "PIVOT spans ON date_trunc('day', timestamp) USING count(*) GROUP BY service_name ORDER BY ALL",
    "PIVOT spans ON service_name, status_code IN (1, 2) USING count(*) GROUP BY span_kind ORDER BY ALL",
    "PIVOT logs ON message USING count(*) AS n GROUP BY severity_text ORDER BY ALL",
    "PIVOT logs ON attributes['path'] USING count(*) GROUP BY severity_text ORDER BY ALL",
    "PIVOT (SELECT service_name, span_kind FROM spans) ON service_name ORDER BY ALL",
    "PIVOT (SELECT service_name, span_kind FROM spans) ON upper(service_name) USING count(*) ORDER BY ALL",
    "PIVOT (SELECT service_name, span_kind FROM spans WHERE service_name IS NULL) ON service_name ORDER BY ALL",
    "PIVOT (SELECT service_name, span_kind FROM spans WHERE false) ON service_name USING count(*) GROUP BY span_kind",
    "FROM (PIVOT spans ON service_name USING count(*) GROUP BY span_kind) AS p WHERE p.cart > 1 ORDER BY ALL",
    "WITH s AS (SELECT * FROM spans WHERE flags < 40), p AS (PIVOT s ON service_name USING count(*) GROUP BY span_kind)"
    " SELECT * FROM p JOIN s USING (span_kind) ORDER BY flags",
    "WITH p AS (PIVOT spans ON service_name USING count(*) GROUP BY status_code)"
    " PIVOT p ON status_code USING sum(cart) ORDER BY ALL",
    "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 5) PIVOT t ON 'n' || n USING sum(n)",
    "SELECT (SELECT sum(cart) FROM (PIVOT spans ON service_name USING count(*) GROUP BY status_code)) AS x",
    "UNPIVOT (PIVOT spans ON service_name USING count(*) GROUP BY status_code) ON cart, checkout ORDER BY ALL",
    "WITH a AS (FROM spans) SELECT a.* FROM a PIVOT (count(*) FOR service_name IN ('cart') GROUP BY span_kind) AS a"
    " ORDER BY ALL LIMIT 3",
    'WITH "pivot" AS (SELECT flags AS "pivot" FROM spans) SELECT "pivot"."pivot" FROM "pivot" ORDER BY 1',
)

IN_SERVICES = "service_name IN ('cart', 'checkout')"
KINDS = "SELECT s.service_name, s.span_kind, s.flags FROM spans s"
# Sources whose meaning depends on the qualifiers of their columns.
SOURCES = (
    f"{KINDS} WHERE EXISTS (SELECT 1 FROM logs l WHERE l.trace_id = s.trace_id)",
    f"{KINDS} WHERE NOT EXISTS (SELECT 1 FROM logs l WHERE l.trace_id = s.trace_id AND"
    " l.service_name = s.service_name)",
    f"{KINDS} WHERE s.trace_id IN (SELECT l.trace_id FROM logs l WHERE l.timestamp > s.timestamp)",
    f"{KINDS} WHERE (SELECT count(*) FROM logs l WHERE l.service_name = s.service_name"
    " AND l.trace_id < s.trace_id) > 5",
    "SELECT l.service_name, s.span_kind FROM logs l JOIN spans s ON l.trace_id = s.trace_id AND"
    " l.record_id > s.record_id",
    "SELECT s.* EXCLUDE (s.timestamp) FROM spans s LEFT JOIN logs AS l ON l.trace_id = s.trace_id"
    " WHERE l.trace_id IS NULL",
    "SELECT l.* FROM logs l JOIN spans s ON l.trace_id = s.trace_id WHERE s.status_code = 1",
    "SELECT COLUMNS(s.*) FROM spans s, logs l WHERE s.trace_id = l.trace_id AND s.flags < 20",
    "SELECT a.service_name, b.flags FROM spans a JOIN spans b ON a.parent_span_id = b.span_id",
    "SELECT s.service_name, e.name FROM spans s, unnest(s.events) AS u(e)",
    "WITH w AS (SELECT a.* FROM spans a WHERE a.flags > (SELECT avg(b.flags) FROM spans b"
    " WHERE b.service_name = a.service_name)) SELECT w.service_name, w.status_code FROM w",
    f"{KINDS} UNION ALL SELECT l.service_name, l.severity_number, 1 FROM logs l WHERE l.trace_id IN"
    " (SELECT s.trace_id FROM spans s WHERE s.service_name <> l.service_name)",
)
CORRELATED = (
    *(f"PIVOT ({source}) ON {IN_SERVICES} USING count(*) ORDER BY ALL" for source in SOURCES),
    *(f"PIVOT ({source}) ON service_name USING count(*) ORDER BY ALL" for source in SOURCES),
    *(f"PIVOT ({source}) ON service_name USING count(*) GROUP BY service_name ORDER BY ALL" for source in SOURCES[:2]),
    *(f"FROM ({source}) PIVOT (count(*) FOR {IN_SERVICES}) ORDER BY ALL" for source in SOURCES),
    *(
        f"UNPIVOT ({source}) ON span_kind, flags ORDER BY ALL"
        for source in SOURCES
        if source.startswith(KINDS) or "COLUMNS" in source
    ),
    f"FROM ({SOURCES[0]}) UNPIVOT (v FOR n IN (span_kind, flags)) ORDER BY ALL",
    f"WITH p AS (PIVOT ({SOURCES[0]}) ON {IN_SERVICES} USING sum(flags) GROUP BY span_kind)"
    " SELECT p.*, s.flags FROM p JOIN spans s ON s.span_kind = p.span_kind WHERE EXISTS"
    " (SELECT 1 FROM logs l WHERE l.trace_id = s.trace_id) ORDER BY ALL",
    f"PIVOT (SELECT u.name, u.value FROM (UNPIVOT ({SOURCES[0]}) ON span_kind, flags) AS u JOIN spans s"
    " ON s.flags = u.value) ON name USING sum(value)",
    f"UNPIVOT (SELECT p.* FROM (PIVOT ({SOURCES[1]}) ON service_name USING count(*) GROUP BY span_kind) AS p"
    " WHERE EXISTS (SELECT 1 FROM logs l WHERE l.severity_number = p.span_kind)) ON cart, checkout ORDER BY ALL",
    f"PIVOT (SELECT p.* FROM (PIVOT ({SOURCES[2]}) ON {IN_SERVICES} USING count(*) AS n GROUP BY span_kind) AS p,"
    " spans s WHERE s.span_kind = p.span_kind AND s.flags < 9) ON span_kind USING sum(cart_n), max(checkout_n)",
    f"PIVOT (PIVOT (PIVOT ({SOURCES[0]}) ON service_name USING sum(flags)) ON span_kind"
    ' USING sum(checkout)) ON "1" USING count(*)',
    "WITH a AS (WITH b AS (SELECT s.* FROM spans s WHERE s.flags < 30) SELECT b.* FROM b JOIN logs l ON"
    " l.trace_id = b.trace_id) PIVOT a ON service_name USING count(*) GROUP BY span_kind ORDER BY ALL",
    "SELECT s.flags, (SELECT sum(p.cart) FROM (PIVOT (SELECT l.service_name, l.message FROM logs l WHERE"
    f" l.trace_id = s.trace_id) ON {IN_SERVICES} USING count(*)) AS p) AS n FROM spans s ORDER BY ALL",
)
PIVOTS_OF_KINDS = "PIVOT spans ON service_name USING sum(flags) GROUP BY span_kind"
OWN_NULLS = (
    "PIVOT spans ON status_code IN (NULL), service_name USING count(*) GROUP BY span_kind ORDER BY ALL",
    "PIVOT spans ON service_name, status_code IN (NULL, 1) USING count(*) GROUP BY span_kind ORDER BY ALL",
    "PIVOT (FROM spans WHERE false) ON status_code IN (NULL), service_name USING count(*) GROUP BY span_kind",
    "PIVOT spans ON status_code IN (NULL) USING count(*) GROUP BY span_kind ORDER BY ALL",
)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory, iceberg: None) -> Lake:
    """Spans and logs of two organizations."""
    lake = make_lake(tmp_path_factory.mktemp("pivots"))
    for owner in (ACME, OTHER):
        put(lake, SPANS, spans(owner, 90), f"{owner}-p")
        put(lake, LOGS, logs(owner, 60), f"{owner}-p")
    return lake


@pytest.fixture(scope="module")
def service(lake: Lake) -> Iterator[QueryService]:
    """A service without limits of its own."""
    service = QueryService(lake, QueryConfig(), limits=lambda *_: Limits())
    yield service
    service.close()


def ask(service: QueryService, sql: str, **more: Any) -> tuple[pa.Table, RunningQuery]:
    """The result of a statement, and its query."""
    running = service.start(Request(sql, ACME, time=TimeRange(START), **more))
    return pa.Table.from_batches(running.batches(), running.schema), running


@pytest.mark.parametrize("sql", [*PIVOTS, *CORRELATED, *OWN_NULLS])
def test_the_result_is_that_of_duckdb(sql: str, service: QueryService) -> None:
    """Columns, their order, and rows: plain DuckDB has the same rows in tables of its own."""
    with duckdb.connect(config={}) as plain:
        plain.execute("SET TimeZone = 'UTC'")
        for name in ("spans", "logs"):
            plain.register(name, ask(service, f"SELECT * FROM {name}")[0])
        expected = plain.execute(sql).to_arrow_table()
    found, _ = ask(service, sql)
    assert found.schema.names == expected.schema.names
    assert found.to_pylist() == expected.to_pylist()


@pytest.mark.parametrize(
    ("qualified", "plain"),
    [
        ("PIVOT spans ON spans.service_name USING sum(spans.flags) GROUP BY spans.span_kind", PIVOTS_OF_KINDS),
        ("PIVOT telemetry.spans ON telemetry.Spans.service_name USING sum(flags) GROUP BY span_kind", PIVOTS_OF_KINDS),
        ("PIVOT spans AS s ON s.service_name USING sum(s.flags) GROUP BY s.span_kind", PIVOTS_OF_KINDS),
        (
            f"FROM (FROM spans) AS s PIVOT (sum(s.flags) FOR s.{IN_SERVICES} GROUP BY s.span_kind)",
            f"PIVOT spans ON {IN_SERVICES} USING sum(flags) GROUP BY span_kind",
        ),
    ],
)
def test_columns_may_have_the_name_of_the_source(qualified: str, plain: str, service: QueryService) -> None:
    """DuckDB takes no qualified columns in a PIVOT itself. The name of its source is left out."""
    found = [ask(service, f"{sql} ORDER BY ALL")[0] for sql in (qualified, plain)]
    assert found[0].equals(found[1])
    assert found[0].num_rows == 6


def test_fields_of_structs_are_refused(service: QueryService) -> None:
    """As DuckDB does: without its qualifier, a field would mean the column of the same name."""
    source = "(SELECT {'span_kind': 7} AS s, span_kind, flags FROM spans)"
    for sql in (
        f"PIVOT {source} ON s.span_kind IN (7) USING count(*)",
        f"PIVOT {source} ON flags IN (7) USING sum(s.span_kind)",
    ):
        with pytest.raises(QueryError, match="cannot contain qualified columns"):
            ask(service, sql)


def test_statements_that_differ_in_qualifiers_differ() -> None:
    """The text that is the key of the cache has the qualifiers of a PIVOT's source."""
    sql = f"PIVOT (SELECT l.* FROM logs l JOIN spans s ON s.trace_id = l.trace_id) ON {IN_SERVICES} USING count(*)"
    assert parse(sql, SCHEMAS).normalised_sql != parse(sql.replace("l.*", "s.*"), SCHEMAS).normalised_sql


@pytest.mark.parametrize(
    ("sql", "place"),
    [
        ("PIVOT logs ON message USING count(*) ORDER BY FRM x", "line 1, column 47"),
        ("PIVOT logs ON message\nUSING count(*)\nLIMIT 3 foo bar", "line 3, column 9"),
        ("WITH a AS (FROM logs) UNPIVOT a ON x y z ORDER BY 1", "line 1, column 38"),
        ("PIVOT logs ON message IN (1, USING count(*) ORDER BY 1", "line 1, column 30"),
    ],
)
def test_errors_show_the_place_in_the_text_as_it_was_sent(sql: str, place: str) -> None:
    """Also where the statement is read as a query over the PIVOT."""
    with pytest.raises(QueryError, match=place):
        parse(sql, SCHEMAS)


def test_both_statements_are_counted(service: QueryService) -> None:
    """Files and bytes are those of the values and of the PIVOT, and the log has the statement as it was sent."""
    _, running = ask(service, PIVOTS[0], fresh=True)
    _, plain = ask(service, PIVOTS[0].replace("ON service_name", "ON service_name IN ('cart')"), fresh=True)
    assert len(running.statistics.scans) == 2
    assert running.statistics.bytes == 2 * plain.statistics.bytes
    assert "values of PIVOT" in running.statistics.notes[0]
    assert "cart" not in running.normalised
    assert running.tables == ("spans",)


def test_values_come_from_the_cache(service: QueryService) -> None:
    """The second time, neither statement runs."""
    ask(service, PIVOTS[2])
    _, running = ask(service, PIVOTS[2])
    assert running.statistics.cache == "hit"


@pytest.mark.lake
def test_both_statements_read_one_snapshot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that arrive between the two are in neither."""
    lake = make_lake(tmp_path)
    collect = RunningQuery.collect

    def commit_then(self: RunningQuery, run: Any) -> pa.Table:
        found = collect(self, run)
        put(lake, SPANS, spans(ACME, 8), "between")
        return found

    monkeypatch.setattr(RunningQuery, "collect", commit_then)
    service = QueryService(lake, QueryConfig(), limits=lambda *_: Limits())
    running = service.start(Request("PIVOT spans ON operation_name USING count(*) GROUP BY organization_id", ACME))
    assert [row for batch in running.batches() for row in batch.to_pylist()] == [{"organization_id": ACME, "get": 8}]
    assert len({scan.snapshot for scan in running.statistics.scans}) == 1
    service.close()


def test_too_many_values_are_refused(service: QueryService) -> None:
    """With the bound and the remedy."""
    with pytest.raises(QueryError, match="PIVOT ON record_id has more than 100 values") as caught:
        ask(service, "PIVOT (FROM spans UNION ALL BY NAME FROM logs) ON record_id USING count(*)")
    assert "WHERE" in (caught.value.hint or "")
    with pytest.raises(QueryError, match="has 270 combinations of values, at most 100"):
        ask(service, "PIVOT spans ON flags, status_code USING count(*) GROUP BY span_kind")
    with pytest.raises(QueryError, match="can't be the name of a column"):
        ask(service, "PIVOT spans ON repeat('x', 1001) USING count(*)")
    with pytest.raises(QueryError, match="9 PIVOT columns without values, at most 8"):
        ask(service, "PIVOT spans ON a, b, c, d, e, f, g, h, i")


def test_limits_hold_for_both_statements_together(lake: Lake, service: QueryService) -> None:
    """A limit of bytes that each statement alone would keep."""
    _, running = ask(service, PIVOTS[0], fresh=True)
    limits = Limits(scan_bytes=running.statistics.bytes - 1)
    limited = QueryService(lake, QueryConfig(), limits=lambda *_: limits)
    with pytest.raises(LimitExceeded, match="bytes"):
        ask(limited, PIVOTS[0])
    limited.close()
    daily = QueryService(lake, QueryConfig(), limits=lambda *_: Limits(daily_bytes=running.statistics.bytes - 1))
    with pytest.raises(LimitExceeded):
        ask(daily, PIVOTS[0])
    daily.close()


def test_both_statements_share_the_limit_of_processor_time(lake: Lake) -> None:
    """The engine is told what earlier statements have used."""
    told: list[tuple[float | None, float]] = []

    class Engine(DuckEngine):
        """An engine whose runs say that they used two seconds."""

        def run(self, write: Write, limits: Limits, organization: str = "") -> DuckRun:
            """Note the limits."""
            told.append((limits.cpu_seconds, limits.used_cpu_seconds))
            run = super().run(write, limits, organization)
            run.cpu_seconds = 2.0  # type: ignore[attr-defined]
            return run

    ports = Ports(engine=Engine(lake, QueryConfig()))
    service = QueryService(lake, QueryConfig(), limits=lambda *_: Limits(cpu_seconds=5), ports=ports)
    ask(service, "PIVOT spans ON service_name, status_code USING count(*)")
    assert told == [(5, 0.0), (5, 2.0), (5, 4.0)]
    service.close()


def test_a_query_can_be_cancelled_while_values_are_read(service: QueryService, monkeypatch: pytest.MonkeyPatch) -> None:
    """The PIVOT itself does not start."""
    collect = RunningQuery.collect

    def cancel_then(self: RunningQuery, run: Any) -> pa.Table:
        self.cancel()
        return collect(self, run)

    monkeypatch.setattr(RunningQuery, "collect", cancel_then)
    with pytest.raises(QueryCancelled):
        ask(service, PIVOTS[0], fresh=True)


def test_explain_reads_no_values(service: QueryService, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its plan has the files of the PIVOT."""
    monkeypatch.setattr(RunningQuery, "collect", None)
    lines = ask(service, f"EXPLAIN {PIVOTS[0]}")[0]["plan"].to_pylist()
    assert any("values of PIVOT are read first" in line for line in lines)
    assert any(line.startswith("spans at snapshot") for line in lines)


def test_a_pivot_for_spark_is_refused_before_values_are_read(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark has no PIVOT that gives the same result."""
    monkeypatch.setattr(RunningQuery, "collect", None)
    service = QueryService(lake, QueryConfig(spark_bytes=1), limits=lambda *_: Limits())
    with pytest.raises(QueryError, match=r"Spark has to run this query .* PIVOT"):
        ask(service, PIVOTS[0])
    service.close()


def test_an_open_pivot_is_never_written() -> None:
    """DuckDB would run two statements, the first of which Neve has not checked."""
    with pytest.raises(QueryError, match="a PIVOT needs its values"):
        write_for_duckdb(parse("PIVOT spans ON service_name", SCHEMAS), {0: '"x"'})


def test_earlier_bytes_are_part_of_the_statistics(service: QueryService) -> None:
    """A plan after another statement is charged for its own bytes only."""
    _, running = ask(service, "SELECT count(*) FROM spans", fresh=True)
    plan = QueryPlan(running.request, parse("SELECT 1", SCHEMAS), {}, {}, {}, replace(running.statistics))
    assert plan.after(running.statistics).statistics.bytes - plan.after(running.statistics).earlier_bytes == (
        running.statistics.bytes
    )
