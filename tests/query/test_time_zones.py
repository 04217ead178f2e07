"""The time zone of a session: for times without a zone, for days, and for times in the result."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from neve.errors import QueryError
from neve.model.tables import SPANS
from neve.query.config import QueryConfig
from neve.query.engine.worker_pool import WorkerPool
from neve.query.limits import Limits
from neve.query.request import Request
from neve.query.service import Ports, QueryService, no_limits
from neve.query.sql.duckdb_statement import DuckDBStatement
from tests.api.querying import serving
from tests.query.engines import put
from tests.query.lakes import ACME, make_lake

if TYPE_CHECKING:
    from collections.abc import Iterator

    from neve.lake.lake import Lake

START = datetime(2026, 3, 28, 12, tzinfo=UTC)  # clocks in Europe change on the next day
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Pacific/Kiritimati", "Pacific/Pago_Pago")


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory, iceberg: None) -> Lake:
    """Spans of three days, one each half hour, in files by day and bucket."""
    lake = make_lake(tmp_path_factory.mktemp("zones"))
    rows = [
        {
            "organization_id": ACME,
            "timestamp": START + timedelta(minutes=30 * number),
            "trace_id": bytes([number]) * 16,
            "span_id": bytes([number]) * 8,
            "start_time_unix_nano": number,
            "record_id": bytes([number]) * 16,
        }
        for number in range(120)
    ]
    put(lake, SPANS, rows, "zones")
    return lake


@pytest.fixture(scope="module")
def plain() -> Iterator[duckdb.DuckDBPyConnection]:
    """A DuckDB with the same times."""
    with duckdb.connect(config={}) as connection:
        connection.execute(
            "CREATE TABLE spans AS SELECT n, TIMESTAMPTZ '2026-03-28 12:00:00+00' + to_minutes(n * 30) AS timestamp"
            " FROM range(120) AS t(n)"
        )
        yield connection


@pytest.fixture(scope="module", params=["in this process", "in workers"])
def service(request: pytest.FixtureRequest, lake: Lake) -> Iterator[QueryService]:
    """Both places in which DuckDB runs."""
    config = QueryConfig(threads=1, spark_bytes=0)
    engine = WorkerPool(lake, config) if request.param == "in workers" else None
    service = QueryService(lake, config, limits=no_limits, ports=Ports(engine=engine))
    yield service
    service.close()


def ask(service: QueryService, sql: str, zone: str = "UTC") -> list[dict[str, Any]]:
    """The rows of a statement in a zone."""
    running = service.start(Request(sql, ACME, time_zone=zone))
    rows: list[dict[str, Any]] = pa.Table.from_batches(running.batches(), running.schema).to_pylist()
    return rows


def test_a_session_has_a_zone_of_its_own(service: QueryService) -> None:
    """Days, hours and texts are those of the zone. The next statement is in UTC again, and so is the cache."""
    sql = "SELECT date_trunc('day', TIMESTAMPTZ '2026-03-29 23:30:00+00')::VARCHAR AS day"
    for _ in range(2):
        assert ask(service, sql, "Europe/Berlin") == [{"day": "2026-03-30 00:00:00+02"}]
        assert ask(service, sql) == [{"day": "2026-03-29 00:00:00+00"}]
    assert ask(service, "SELECT hour(TIMESTAMPTZ '2026-01-01 00:00:00+00') AS h", "Asia/Kolkata") == [{"h": 5}]


@settings(deadline=None, max_examples=40)
@given(
    zone=st.sampled_from(ZONES),
    operator=st.sampled_from([">=", "<", "=", "<>"]),
    hours=st.integers(-24, 90),
    form=st.sampled_from(
        ["'{}'", "TIMESTAMP '{}'", "'{}'::TIMESTAMP", "TIMESTAMPTZ '{}'", "TIMESTAMP '{}' + INTERVAL 1 day"]
    ),
    column=st.sampled_from(["timestamp", "date_trunc('day', timestamp)", "time_bucket(INTERVAL 6 hours, timestamp)"]),
)
@example(zone="Europe/Berlin", operator=">=", hours=12, form="'{}'", column="timestamp")
def test_pruning_loses_no_row_in_any_zone(
    service: QueryService,
    plain: duckdb.DuckDBPyConnection,
    zone: str,
    operator: str,
    hours: int,
    form: str,
    column: str,
) -> None:
    """The rows are those of plain DuckDB in the same zone."""
    text = (START + timedelta(hours=hours)).strftime("%Y-%m-%d %H:%M:%S")
    where = f"timestamp >= '2026-03-01' AND {column} {operator} {form.format(text)}"
    found = ask(service, f"SELECT start_time_unix_nano AS n FROM spans WHERE {where}", zone)
    plain.execute(f"SET TimeZone = '{zone}'")
    expected = plain.execute(f"SELECT n FROM spans WHERE {where}").fetchall()
    assert sorted(row["n"] for row in found) == sorted(n for (n,) in expected)


def test_files_are_pruned_in_a_zone(service: QueryService) -> None:
    """By the moment that a text means there."""
    running = service.start(
        Request("SELECT count(*) FROM spans WHERE timestamp >= '2026-03-30 02:00'", ACME, time_zone="Europe/Berlin")
    )
    assert list(running.batches())
    assert running.statistics.pruned_files > running.statistics.files > 0
    assert "2026-03-30 00:00:00+00" in running.statistics.scans[0].predicate


@pytest.mark.parametrize(
    "zone", ["Europe/Berlni", "", "x'; COPY spans TO '/tmp/x", "local", "UTC'", "\u212a", "A" * 500]
)
def test_an_unknown_zone_is_refused(service: QueryService, zone: str) -> None:
    """Nothing but the name of a zone reaches an engine."""
    with pytest.raises(QueryError, match="the time zone is"):
        ask(service, "SELECT 1", zone)


def test_a_zone_is_checked_again_where_it_is_written() -> None:
    """The statement that sets it takes a name only."""
    assert DuckDBStatement("SELECT 1").session() == []
    assert DuckDBStatement("", time_zone="Asia/Tokyo").session() == ["SET SESSION TimeZone = 'Asia/Tokyo'"]
    with pytest.raises(QueryError):
        DuckDBStatement("", time_zone="x' --").session()


def test_spark_runs_no_query_in_another_zone(lake: Lake) -> None:
    """Its translation is for UTC."""
    service = QueryService(lake, QueryConfig(spark_bytes=1), limits=lambda *_: Limits())
    with pytest.raises(QueryError, match="a time zone other than UTC"):
        ask(service, "SELECT count(*) FROM spans", "Asia/Tokyo")
    service.close()


def test_a_request_over_http_has_a_zone(lake: Lake) -> None:
    """The field `timezone`; times in the result are the same moments, with the offset of the zone."""
    service = QueryService(lake, QueryConfig(), limits=no_limits)
    with serving(service) as client:
        sql = "SELECT TIMESTAMPTZ '2026-01-01 12:00:00+00' AS t, hour('2026-01-01'::TIMESTAMPTZ) AS h"
        body = json.dumps({"sql": sql, "timezone": "Europe/Berlin"}).encode()
        reply = json.loads(client.send("POST", "/api/v1/query", body, {"content-type": "application/json"}).body)
        [row] = reply["rows"]
        assert datetime.fromisoformat(row[0]) == datetime(2026, 1, 1, 12, tzinfo=UTC)
        assert row[1] == 0
        body = json.dumps({"sql": sql, "timezone": "Nowhere"}).encode()
        reply = json.loads(client.send("POST", "/api/v1/query", body, {"content-type": "application/json"}).body)
        assert "the time zone is 'Nowhere'" in reply["error"]["message"]
    service.close()
