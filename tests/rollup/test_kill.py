"""Killed at any point, run again: the tables are those of a run that nobody killed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from neve.model.levels import LEVELS
from tests.rollup.test_job import START, check, point, put

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from neve.lake.lake import Lake

pytestmark = pytest.mark.kills

NOW = START + timedelta(days=2)
# The whole chain; killed with all that belongs to it just before or just after a level's commit, if that is asked for.
SCRIPT = """
    import os
    import signal
    import sys
    from datetime import datetime
    import structlog
    from neve.app.rollup import build_rollup
    from neve.app.settings import load_settings
    from neve.app.wiring import build_lake
    from neve.rollup import job

    config, now, when, table = sys.argv[1:]
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    settings = load_settings(config, {})
    lake = build_lake(settings)
    lake.spark
    print("ready", flush=True)
    commit = job.change_rows

    def die() -> None:
        os.killpg(os.getpgrp(), signal.SIGKILL)
        signal.pause()

    def dying(lake, name, *args, **kwargs):
        if (when, table) == ("before", name):
            die()
        done = commit(lake, name, *args, **kwargs)
        if (when, table) == ("after", name):
            die()
        return done

    job.change_rows = dying
    build_rollup(settings, lake, clock=lambda: datetime.fromisoformat(now)).run()
    print("done", flush=True)
"""


@dataclass(frozen=True)
class Bench:
    """A lake and the command that rolls it up in a process of its own."""

    lake: Lake
    folder: Path

    def start(self, when: str = "", table: str = "") -> subprocess.Popen[str]:
        """Start the command and wait until its Spark is there."""
        config = str(self.folder / "neve.yaml")
        command = [sys.executable, "-c", textwrap.dedent(SCRIPT), config, NOW.isoformat(), when, table]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        return process

    def die_at(self, when: str, table: str) -> None:
        """A run that is killed at a level's commit."""
        process = self.start(when, table)
        assert self.end(process) == ""
        assert process.returncode == -signal.SIGKILL

    def die_after(self, seconds: float) -> None:
        """A run that is killed after some time, wherever it is then."""
        process = self.start()
        time.sleep(seconds)
        os.killpg(process.pid, signal.SIGKILL)
        self.end(process)

    def finish(self) -> None:
        """A run that nobody kills."""
        process = self.start()
        assert self.end(process) == "done\n"
        assert process.returncode == 0

    def end(self, process: subprocess.Popen[str]) -> str:
        """Wait for a run's end; what it still said."""
        said, _ = process.communicate(timeout=600)
        return said

    @property
    def begun(self) -> list[str]:
        """The levels that have a commit."""
        return [level.name for level in LEVELS if self.lake.table(level.table).current_snapshot() is not None]


@pytest.fixture
def bench(make_lake: Callable[..., Lake], tmp_path: Path) -> Bench:
    """A lake in a folder; a lease ends long before the next Spark has started."""
    lake = make_lake()
    (tmp_path / "neve.yaml").write_text(
        f"lake: {{warehouse: {tmp_path}/warehouse}}\n"
        f"catalog: {{name: {lake.catalog_config.name}, path: {tmp_path}/catalog.db}}\n"
        f"state: {{path: {tmp_path}/state.db}}\n"
        f"spark: {{log_file: {tmp_path}/spark.log, driver_memory: 1g, master: 'local[2]'}}\n"
        "rollup: {lease_seconds: 1, slice_points: 1000}\n"
    )
    return Bench(lake, tmp_path)


def points_of(hours: range, number: int = 0) -> list[dict[str, Any]]:
    """Gauges of two organizations."""
    times = [hour * 3600 + second for hour in hours for second in range(0, 3600, 20)]
    return [point(at + number, at % 11, owner=owner, number=number) for at in times for owner in ("acme", "other")]


def test_killed_at_commits_and_at_random_moments(bench: Bench) -> None:
    """Each run goes on where the one before it was killed: no row is missing, none is there twice."""
    points = points_of(range(6))
    put(bench.lake, points, "one")
    for when, table, begun in (
        ("before", "metrics_1m", []),
        ("after", "metrics_5m", ["1m", "5m"]),
    ):
        bench.die_at(when, table)
        assert bench.begun == begun
    chance = random.Random(5)
    for number in range(1, 3):
        late = points_of(range(number, number + 3), number)
        put(bench.lake, late, f"late {number}")
        points += late
        bench.die_after(chance.uniform(0.1, 2.5))
    bench.finish()
    check(bench.lake, points, NOW)
