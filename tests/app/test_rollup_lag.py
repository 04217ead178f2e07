"""How far rollups are behind, as it is told to Prometheus: now, and not when one last ran."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from prometheus_client import REGISTRY
from structlog.testing import capture_logs

from neve.app.rollup import clear_lag, refresh_lag
from neve.app.settings import Settings
from neve.lake.calendar import micros_of, now_utc
from neve.lake.commit.append import append_once
from neve.rollup.position import ROLLUP, Position
from tests.compact.tables import documents_in
from tests.rollup.test_job import point, put

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from neve.lake.lake import Lake

SETTINGS = Settings(organization="acme")


def lag(level: str = "1m") -> float | None:
    """What a scrape sees."""
    return REGISTRY.get_sample_value("neve_rollup_lag_seconds", {"level": level})


@pytest.fixture(autouse=True)
def unknown() -> Iterator[None]:
    """Nobody has said anything before or after."""
    clear_lag()
    yield
    clear_lag()


def test_the_lag_grows_where_no_rollup_runs(make_lake: Callable[..., Lake], tmp_path: Path) -> None:
    """Nothing is said before the first run; then 0 while nothing waits, and the age of the last final window else."""
    lake, documents = make_lake(), documents_in(tmp_path)
    put(lake, [point(0, 1.0)], "first")
    refresh_lag(SETTINGS, lake, documents)
    assert lag() is None
    position = Position(
        lake.table("metrics").metadata.current_snapshot_id, micros_of(now_utc() - timedelta(seconds=600)), "any"
    )
    append_once(lake.table("metrics_1m"), [], batch_id="run", operation="rollup", summary=position.to_summary(ROLLUP))
    refresh_lag(SETTINGS, lake, documents)
    assert lag() == 0
    put(lake, [point(1, 2.0)], "second")
    refresh_lag(SETTINGS, lake, documents)
    before = lag()
    refresh_lag(SETTINGS, lake, documents)
    assert 600 <= (before or 0) < (lag() or 0) < 700
    assert lag("5m") is None
    clear_lag()
    assert lag() is None


def test_what_can_not_be_told_is_said_and_fails_nobody(make_lake: Callable[..., Lake], tmp_path: Path) -> None:
    """The last number would be taken for the present one."""
    with capture_logs() as said:
        refresh_lag(SETTINGS, make_lake(init=False), documents_in(tmp_path))
    assert math.isnan(lag() or 0)
    assert [line["event"] for line in said] == ["lag of rollups is unknown"]
