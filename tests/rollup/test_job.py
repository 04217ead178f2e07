"""Runs on Spark: what changed is computed anew, and the tables are those of a run from scratch."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from neve.lake.commit.append import append_once
from neve.lake.write.table_writer import Target, write_files
from neve.model.levels import LEVELS
from neve.rollup.config import RollupConfig
from neve.rollup.job import Rollup
from neve.state.config import StateConfig
from neve.state.sql_documents import SqlDocuments
from neve.state.store import StateStore
from tests.rollup.compare import differences, plain
from tests.rollup.points import to_table
from tests.rollup.reference import merge, roll_up

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pyarrow as pa

    from neve.lake.lake import Lake

START = datetime(2026, 1, 1, 10, tzinfo=UTC)
CONFIG = RollupConfig()


def point(seconds: float, value: float, *, owner: str = "acme", name: str = "cpu", number: int = 0) -> dict[str, Any]:
    """A gauge's point."""
    at = START + timedelta(seconds=seconds)
    return {
        "organization_id": owner,
        "timestamp": at,
        "metric_name": name,
        "metric_type": "gauge",
        "service_name": "web",
        "value": value,
        "unit": "1",
        "flags": 0,
        "time_unix_nano": int(at.timestamp() * 1_000_000) * 1000,
        "start_time_unix_nano": 0,
        "attributes": [("host", "a")],
        "resource_attrs": [("service.name", "web")],
        "record_id": f"{owner}{name}{seconds}{value}{number}".encode().ljust(16)[:16],
    }


def put(lake: Lake, points: list[dict[str, Any]], batch: str) -> None:
    """Take points in, in one commit."""
    table = lake.table("metrics")
    files = write_files(Target.of(table), to_table(points))
    append_once(table, files, batch_id=batch, operation="test")


def rows(lake: Lake, table: str) -> pa.Table:
    """A table as pyiceberg reads it."""
    return lake.table(table).scan().to_arrow()


@pytest.fixture
def make_rollup(tmp_path: Path, spark: object) -> Callable[..., Rollup]:
    """A rollup whose clock stands still."""

    def make(lake: Lake, now: datetime, config: RollupConfig = CONFIG, **more: Any) -> Rollup:
        documents = SqlDocuments(StateStore(StateConfig(path=str(tmp_path / "state.db"))))
        return Rollup(lake, config, documents, clock=lambda: now, **more)

    return make


def check(lake: Lake, points: list[dict[str, Any]], until: datetime, config: RollupConfig = CONFIG) -> None:
    """Every level is what the reference makes of the points, as far as windows are closed."""
    reference = roll_up(points, config)
    for level in LEVELS:
        if level is not LEVELS[0]:
            reference = merge(reference, config, window_seconds=level.seconds)
        end = int(until.timestamp() * 1_000_000) // level.micros * level.micros
        reference = [row for row in reference if row["timestamp"] + level.micros <= end]
        found = differences(rows(lake, level.table), reference)
        assert not found, (level.name, found[:5], found[-5:])


def test_what_comes_late_changes_what_it_touches(
    make_lake: Callable[..., Lake], make_rollup: Callable[..., Rollup]
) -> None:
    """A first run, more points, late points and a point again; each time as if computed from scratch."""
    lake = make_lake()
    points = [point(second, second % 7) for second in range(0, 600, 10)]
    points += [point(second, 1, owner="other") for second in range(0, 600, 30)]
    put(lake, points, "one")
    now = START + timedelta(seconds=660)
    first = make_rollup(lake, now).run()
    assert [one.committed for one in first] == [True, True, False, False]
    check(lake, points, START + timedelta(seconds=600))

    more = [point(second, 5) for second in range(600, 900, 10)]
    late = [point(65, 100), point(65, 100)]
    put(lake, [*more, *late], "two")
    again = make_rollup(lake, now + timedelta(seconds=300)).run()
    points += [*more, late[0]]
    check(lake, points, START + timedelta(seconds=900))
    assert again[0].delete_files == 1
    assert again[0].duplicates == 1
    assert again[0].windows < 12

    nothing = make_rollup(lake, now + timedelta(seconds=300)).run()
    assert not any(one.committed for one in nothing)
    day = make_rollup(lake, START + timedelta(days=1)).run()
    assert all(one.committed for one in day)
    check(lake, points, START + timedelta(days=1))
    assert all(row["is_final"] for row in plain(rows(lake, "metrics_1d")).values())
