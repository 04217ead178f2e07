"""Which time of rollups queries may rely on: what is closed, and what nothing has changed since."""

from __future__ import annotations

import itertools
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow.parquet as pq
import pytest

from neve.app.rollup import RollupCoverage
from neve.lake.calendar import micros_of
from neve.lake.commit.append import append_once
from neve.lake.read.incremental import find_touched_windows, format_changed_windows
from neve.lake.time_ranges import BEGINNING, Ranges
from neve.lake.write.table_writer import Target, write_files
from neve.model.levels import LEVELS
from neve.model.tables import TABLES
from neve.query.rollup_routing.router import route
from neve.query.sql.statement import find_lake_tables, parse, write_for_duckdb
from neve.rollup.config import RollupConfig, RollupRule
from neve.rollup.definition import Definition
from neve.rollup.job import Rollup
from neve.rollup.position import ROLLUP, Position
from neve.state.config import StateConfig
from neve.state.sql_documents import SqlDocuments
from neve.state.store import StateStore
from tests.rollup.compare import raised, rolled
from tests.rollup.test_job import START, point, put

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

    from neve.lake.lake import Lake
    from neve.lake.read.incremental import TouchedWindows

CONFIG = RollupConfig()
BEGIN = micros_of(START)
MINUTE = 60_000_000
LOOKBACK = 5 * MINUTE
_numbers = itertools.count()


def after(minutes: float) -> int:
    """A moment, so many minutes after the beginning."""
    return BEGIN + int(minutes * MINUTE)


def take_in(lake: Lake, *minutes: float, owner: str = "acme") -> None:
    """One commit of points."""
    put(lake, [point(at * 60, 1.0, owner=owner) for at in minutes], f"batch {next(_numbers)}")


def roll_up(lake: Lake, level: int, closed: float, *windows: float, config: RollupConfig = CONFIG) -> Position:
    """What a run of a level commits that made rows of some windows of one organization, without Spark."""
    this, source = LEVELS[level], lake.table(LEVELS[level].source)
    rows = rolled([point(at * 60, 1.0) for at in windows or (0,)], config, LEVELS[0])
    for above in LEVELS[1 : level + 1]:
        rows = raised(rows, config, above)
    made = Ranges.of((after(at), after(at) + 1) for at in windows).align(this.micros)
    position = Position(source.metadata.current_snapshot_id, after(closed), Definition.of(config).fingerprint)
    _commit(lake, this.table, rows, {**position.to_summary(ROLLUP), **format_changed_windows({"acme": made})})
    return position


def _commit(lake: Lake, name: str, rows: Any, summary: dict[str, str]) -> None:
    table = lake.table(name)
    files = write_files(Target.of(table), rows)
    append_once(table, files, batch_id=f"batch {next(_numbers)}", operation="test", summary=summary)


def found(lake: Lake, config: RollupConfig = CONFIG, **more: Any) -> dict[str, list[tuple[float, float]]]:
    """What each level covers, in minutes after the beginning; all time before it is minus infinity."""
    return {
        one.table: [
            (float("-inf") if start <= BEGINNING else (start - BEGIN) / MINUTE, (end - BEGIN) / MINUTE)
            for start, end in one.ranges
        ]
        for one in RollupCoverage(config)(lake, **more)
    }


EVER = float("-inf")


def test_nothing_is_covered_before_the_first_run(lake: Lake) -> None:
    """Tables alone are no rollup."""
    take_in(lake, 1)
    assert RollupCoverage(CONFIG)(lake) == []


def test_a_run_covers_what_it_closed(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything up to the last closed window, also where there are no points; no file is opened for that."""
    take_in(lake, 1, 2)
    roll_up(lake, 0, 10, 1, 2)
    roll_up(lake, 1, 10, 1)
    monkeypatch.setattr(pq, "ParquetFile", None)
    assert found(lake) == {"metrics_1m": [(EVER, 10)], "metrics_5m": [(EVER, 10)]}


def test_other_settings_cover_nothing(lake: Lake) -> None:
    """Rows that were made by other settings are computed anew, so nobody relies on them."""
    take_in(lake, 1)
    roll_up(lake, 0, 10, 1)
    assert found(lake, RollupConfig(attributes="none")) == {}


def test_late_points_uncover_their_windows(lake: Lake) -> None:
    """Those of the look-back after them, too; others of the same organization stay, and all of other organizations."""
    take_in(lake, 1)
    roll_up(lake, 0, 30, 1)
    roll_up(lake, 1, 30, 1)
    take_in(lake, 12.5)
    take_in(lake, 50)
    expected = {"metrics_1m": [(EVER, 12), (18, 30)], "metrics_5m": [(EVER, 10), (20, 30)]}
    assert found(lake) == expected
    assert found(lake, organization="acme") == expected
    assert found(lake, organization="other") == {"metrics_1m": [(EVER, 30)], "metrics_5m": [(EVER, 30)]}


def test_a_level_waits_for_the_one_below(lake: Lake) -> None:
    """What a run replaced below is stale above until the level's own run."""
    take_in(lake, 1)
    roll_up(lake, 0, 30, 1)
    roll_up(lake, 1, 30, 1)
    take_in(lake, 12.5)
    roll_up(lake, 0, 31, 12)
    assert found(lake) == {"metrics_1m": [(EVER, 31)], "metrics_5m": [(EVER, 10), (15, 30)]}
    roll_up(lake, 1, 30, 12)
    assert found(lake) == {"metrics_1m": [(EVER, 31)], "metrics_5m": [(EVER, 30)]}


def test_what_others_changed_in_a_level_is_not_relied_on(lake: Lake) -> None:
    """A commit that is not the rollup's uncovers the windows that it touched, here and above."""
    take_in(lake, 1)
    roll_up(lake, 0, 30, 1)
    _commit(lake, "metrics_1m", rolled([point(7 * 60, 9.0)], CONFIG, LEVELS[0]), {})
    roll_up(lake, 1, 30, 1)
    assert found(lake) == {"metrics_1m": [(EVER, 7), (8, 30)], "metrics_5m": [(EVER, 5), (10, 30)]}


def test_a_lost_place_covers_nothing(lake: Lake) -> None:
    """When the snapshot of the last run is gone, nobody knows what came since."""
    take_in(lake, 1)
    position = roll_up(lake, 0, 30, 1)
    rows = rolled([point(120, 1.0)], CONFIG, LEVELS[0])
    _commit(lake, "metrics_1m", rows, replace(position, snapshot=42).to_summary(ROLLUP))
    assert found(lake) == {}


def test_what_retention_may_have_taken_is_left_to_points(lake: Lake) -> None:
    """Rollups outlive their points, and a level may outlive another; an answer is that of the points."""
    take_in(lake, 1)
    roll_up(lake, 0, 30, 1)
    roll_up(lake, 1, 30, 1)
    since = {"metrics": after(2.5)}
    assert found(lake, kept_since=lambda table: since.get(table, BEGINNING)) == {
        "metrics_1m": [(8, 30)],
        "metrics_5m": [(10, 30)],
    }
    since = {"metrics_5m": after(11)}
    assert found(lake, kept_since=lambda table: since.get(table, BEGINNING)) == {
        "metrics_1m": [(EVER, 30)],
        "metrics_5m": [(15, 30)],
    }


def test_what_changed_is_looked_up_once(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as the tables are the same; for each organization by itself."""
    looked: list[int] = []

    def counted(table: Table, snapshots: Iterable[Snapshot], micros: int) -> TouchedWindows:
        looked.append(micros)
        return find_touched_windows(table, snapshots, micros)

    monkeypatch.setattr("neve.lake.read.incremental.find_touched_windows", counted)
    take_in(lake, 1)
    roll_up(lake, 0, 30, 1)
    take_in(lake, 12.5)
    coverages = RollupCoverage(CONFIG)
    first = coverages(lake, "acme")
    times = len(looked)
    assert [one.ranges for one in coverages(lake, "acme")] == [one.ranges for one in first]
    assert len(looked) == times > 0
    assert coverages(lake, "other")[0].ranges != first[0].ranges
    take_in(lake, 20)
    assert coverages(lake, "acme")[0].ranges == RollupCoverage(CONFIG)(lake, "acme")[0].ranges != first[0].ranges


def test_rules_say_what_is_kept(lake: Lake) -> None:
    """The first rule that fits a metric decides."""
    rule = RollupRule(metrics="jvm.*", attributes="none", resource_attributes=("service.name",))
    config = RollupConfig(attributes=("route",), rules=(rule,))
    take_in(lake, 1)
    roll_up(lake, 0, 30, 1, config=config)
    [one] = RollupCoverage(config)(lake)
    assert one.keeps("http.requests", "attributes", "route")
    assert not one.keeps("http.requests", "attributes", "host")
    assert one.keeps("http.requests", "resource_attrs", "host.name")
    assert not one.keeps("jvm.memory", "attributes", "route")
    assert one.keeps("jvm.memory", "resource_attrs", "service.name")
    assert not one.keeps("jvm.memory", "resource_attrs", "host.name")


QUESTION = """SELECT date_trunc('hour', timestamp) AS hour, sum(value) AS total, count(value), max(value) AS most
FROM metrics WHERE metric_name = 'cpu' AND metric_type = 'gauge' GROUP BY hour ORDER BY hour"""


def ask(lake: Lake, *, routed: bool) -> tuple[list[dict[str, Any]], str]:
    """An answer from the lake's tables, for one organization; and which rollups it came from."""
    statement, used = parse(QUESTION, {table.name: table.schema for table in TABLES}), ""
    if routed:
        statement, used = route(statement, RollupCoverage(CONFIG)(lake, "acme"))
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    for name in set(statement.tables):
        connection.register(f"rows_of_{name}", lake.table(name).scan(row_filter="organization_id = 'acme'").to_arrow())
    sources = {
        number: f"(SELECT * FROM rows_of_{table.name})" for number, table in find_lake_tables(statement.tree).items()
    }
    return connection.execute(write_for_duckdb(statement, sources)).to_arrow_table().to_pylist(), used


@pytest.mark.long
def test_answers_stay_those_of_points(make_lake: Callable[..., Lake], tmp_path: Path, spark: object) -> None:
    """Runs, late points and runs again: at every step the answer is that of the points."""
    lake = make_lake()
    documents = SqlDocuments(StateStore(StateConfig(path=str(tmp_path / "state.db"))))

    def run(hours: float) -> None:
        now = START + timedelta(hours=hours)
        Rollup(lake, CONFIG, documents, clock=lambda: now).run()

    put(lake, [point(at, at % 11, owner=owner) for at in range(0, 9000, 50) for owner in ("acme", "other")], "one")
    run(2.2)
    _same_answer(lake)
    put(lake, [point(100, 1000.0), point(9100, 5.0)], "late")
    assert _same_answer(lake)[0]["most"] == 1000.0
    run(30)
    _same_answer(lake)
    newest = RollupCoverage(CONFIG)(lake)[-1]
    assert (newest.table, newest.ranges[-1][1]) == ("metrics_1d", micros_of(datetime(2026, 1, 2, tzinfo=UTC)))


def _same_answer(lake: Lake) -> list[dict[str, Any]]:
    answer, used = ask(lake, routed=True)
    assert used.startswith("metrics_1h")
    assert answer == ask(lake, routed=False)[0]
    return answer
