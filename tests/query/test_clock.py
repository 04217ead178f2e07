"""The clock of a query: it stands still, so that a range that ends now reads the files of that range alone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from neve.model.tables import SPANS
from neve.query.config import QueryConfig
from neve.query.execution import RunningQuery
from neve.query.request import Request
from neve.query.service import QueryService
from neve.query.sql.dialect import write
from neve.query.sql.statement import parse, pin_clock
from tests.query.engines import put
from tests.query.lakes import ACME, make_lake

if TYPE_CHECKING:
    from collections.abc import Iterator

    from neve.lake.lake import Lake

START = datetime(2026, 3, 28, 12, tzinfo=UTC)
COMMITS, BUCKETS = 8, 16
PINNED = "CAST('2026-03-28T12:00:00+00:00' AS TIMESTAMPTZ)"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory, iceberg: None) -> Iterator[QueryService]:
    """Spans of eight minutes, one commit a minute, each with files of several buckets."""
    lake: Lake = make_lake(tmp_path_factory.mktemp("clock"))
    for minute in range(COMMITS):
        rows = [
            {
                "organization_id": ACME,
                "timestamp": START + timedelta(minutes=minute, seconds=second),
                "trace_id": bytes([minute, second]) * 8,
                "span_id": bytes([minute, second]) * 4,
                "start_time_unix_nano": minute * 100 + second,
                "record_id": bytes([minute, second]) * 8,
            }
            for second in range(60)
        ]
        put(lake, SPANS, rows, f"clock {minute}")
    service = QueryService(lake, QueryConfig(threads=1))
    yield service
    service.close()


@pytest.fixture
def at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Queries begin at the end of the last minute."""
    began = RunningQuery.__init__

    def begin(self: RunningQuery, *given: Any) -> None:
        began(self, *given)
        self.started = START + timedelta(minutes=COMMITS)

    monkeypatch.setattr(RunningQuery, "__init__", begin)


@pytest.mark.parametrize(("seconds", "files", "rows"), [(30, BUCKETS, 29), (59, BUCKETS, 58), (150, 3 * BUCKETS, 149)])
def test_only_files_of_the_range_are_read(
    service: QueryService, at_the_end: None, seconds: int, files: int, rows: int
) -> None:
    """Half a minute until now is one commit of eight, whatever the clocks of planner and engine say meanwhile."""
    sql = f"SELECT count(*) AS n FROM spans WHERE timestamp > now() - INTERVAL {seconds} SECOND"
    running = service.start(Request(sql, ACME))
    [batch] = running.batches()
    assert batch.to_pylist() == [{"n": rows}]
    assert 0 < running.statistics.files <= files
    assert running.statistics.pruned_files > 0
    assert "NOW()" in running.normalised, "the query log has what was asked"


@pytest.mark.parametrize(
    ("sql", "pinned"),
    [
        ("SELECT now()", f'SELECT {PINNED} AS "now()"'),
        ("SELECT current_date AS d", f'SELECT CAST({PINNED} AS DATE) AS "d"'),
        ("SELECT today() AS d", f'SELECT CAST({PINNED} AS DATE) AS "d"'),
        ("SELECT get_current_timestamp() AS t", f'SELECT {PINNED} AS "t"'),
        ("SELECT 1 AS x WHERE transaction_timestamp() > now()", f'SELECT 1 AS "x" WHERE {PINNED} > {PINNED}'),
        ("SELECT t FROM (SELECT now() AS t)", f'SELECT "t" FROM (SELECT {PINNED} AS "t")'),
    ],
)
def test_every_clock_of_a_statement_stands_still(sql: str, pinned: str) -> None:
    """All of them have the same time; columns keep their names."""
    assert write(pin_clock(parse(sql, {}), START).tree) == pinned


def test_a_statement_without_a_clock_stays_as_it_is() -> None:
    """Nothing is copied, and nothing that is only called like a clock changes."""
    statement = parse("SELECT 'now()' AS \"now\"", {})
    assert pin_clock(statement, START) is statement


def test_today_is_the_day_of_the_zone(service: QueryService, at_the_end: None) -> None:
    """As in DuckDB itself: the day begins where the session is."""
    running = service.start(Request("SELECT current_date::VARCHAR AS d", ACME, time_zone="Pacific/Kiritimati"))
    [batch] = running.batches()
    assert batch.to_pylist() == [{"d": "2026-03-29"}]
