"""The rollup job: for each level, recompute the windows whose source changed and replace them in one commit.

The results, the status and the metrics of a run are defined here as well.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from prometheus_client import Counter, Gauge, Histogram

from neve.lake.calendar import micros_of, now_utc
from neve.lake.commit.java_commit import RowChange, change_rows, retry_conflicts
from neve.lake.read.incremental import format_changed_windows, never_frozen
from neve.lake.spark.tasks import count_slices, run_tasks
from neve.model.levels import LEVELS
from neve.rollup.definition import Definition
from neve.rollup.planner import LevelRun, plan_run
from neve.rollup.position import ROLLUP
from neve.rollup.status import LevelStatus, format_moment, read_level_status
from neve.state.leases import hold_worker_lease

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from neve.lake.lake import Lake
    from neve.lake.read.incremental import Frozen
    from neve.lake.time_ranges import Ranges
    from neve.model.levels import Level
    from neve.rollup.config import RollupConfig
    from neve.rollup.planner import RunPlan
    from neve.rollup.tasks import TaskResult
    from neve.state.documents import Documents
    from neve.state.leases import Lease


RUNS = Counter("neve_rollup_runs", "finished runs, by level and whether they committed", ["level", "did"])
CONFLICTS = Counter("neve_rollup_conflicts", "commit conflicts with other writers; the run is planned again", ["level"])
SOURCE_ROWS = Counter(
    "neve_rollup_source_rows", "source rows of computed windows: points, or rows of the level below", ["level"]
)
ROWS = Counter("neve_rollup_rows", "rows written", ["level"])
WINDOWS = Counter("neve_rollup_windows", "windows computed, summed over organizations", ["level"])
LEFT = Counter("neve_rollup_left_windows", "windows not recomputed, as retention may have deleted points", ["level"])
WITHOUT_VALUE = Counter("neve_rollup_points_without_value", "points without a value", ["level"])
UNKNOWN = Counter("neve_rollup_points_of_unknown_worth", "points whose contribution is unknown", ["level"])
DUPLICATES = Counter("neve_rollup_duplicates", "duplicate points, which are counted once", ["level"])
LAG = Gauge(
    "neve_rollup_lag_seconds", "seconds since the end of the last final window; 0: nothing is pending", ["level"]
)
BUCKETS = (0.1, 0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600)
SECONDS = Histogram("neve_rollup_seconds", "seconds from planning to the commit", ["level"], buckets=BUCKETS)


def count_run(result: LevelResult) -> None:
    """Count a finished run of a level in the metrics."""
    level = result.level
    RUNS.labels(level, "commit" if result.committed else "nothing").inc()
    SOURCE_ROWS.labels(level).inc(result.source_rows)
    ROWS.labels(level).inc(result.rows)
    WINDOWS.labels(level).inc(result.windows)
    LEFT.labels(level).inc(result.left_windows)
    WITHOUT_VALUE.labels(level).inc(result.without_value)
    UNKNOWN.labels(level).inc(result.unknown)
    DUPLICATES.labels(level).inc(result.duplicates)
    SECONDS.labels(level).observe(result.seconds)


@dataclass(frozen=True)
class LevelResult:
    """Result of a run of one level."""

    level: str
    table: str
    reason: str
    committed: bool
    source_rows: int = 0
    duplicates: int = 0
    without_value: int = 0
    unknown: int = 0
    rows: int = 0
    windows: int = 0
    left_windows: int = 0
    files_added: int = 0
    files_removed: int = 0
    delete_files: int = 0
    bytes_added: int = 0
    closed_until: str = ""
    source_snapshot: str = ""
    snapshot: str = ""
    seconds: float = 0.0

    def as_document(self) -> dict[str, Any]:
        """Return the result as a JSON document, for programs."""
        return asdict(self)


def make_result(
    run: LevelRun,
    planned: RunPlan,
    done: Sequence[TaskResult],
    change: RowChange,
    snapshot: int | None,
    seconds: float,
) -> LevelResult:
    """Return the result of a run."""
    micros = run.level.micros
    position = run.position if snapshot is not None else run.previous
    return LevelResult(
        level=run.level.name,
        table=run.level.table,
        reason=planned.reason,
        committed=snapshot is not None,
        source_rows=sum(one.counts.points for one in done),
        duplicates=sum(one.counts.duplicates for one in done),
        without_value=sum(one.counts.without_value for one in done),
        unknown=sum(one.counts.unknown for one in done),
        rows=sum(one.rows for one in done),
        windows=sum(ranges.length // micros for ranges in planned.windows(done).values()),
        left_windows=planned.left,
        files_added=len(change.added),
        files_removed=len(change.removed),
        delete_files=len(change.deletes),
        bytes_added=sum(int(file["file-size-in-bytes"]) for file in (*change.added, *change.deletes)),
        closed_until=format_moment(position.closed_until) if position else "",
        source_snapshot=str(position.snapshot or "") if position else "",
        snapshot=str(snapshot or ""),
        seconds=seconds,
    )


Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Rollup:
    """Job that keeps the levels of one lake current. Processes with one state store run a level one at a time.

    `frozen` returns, for a source and an organization, the time before which its rows may have been deleted for their
    age.
    """

    lake: Lake
    config: RollupConfig
    documents: Documents
    frozen: Callable[[str], Frozen] = lambda _source: never_frozen
    clock: Callable[[], datetime] = now_utc
    steal: bool = False
    progress: Progress = field(default=lambda _step, _done, _total: None)

    def run(self, levels: Sequence[Level] = LEVELS, since: datetime | None = None) -> list[LevelResult]:
        """Update levels, the lowest first, as each is the source of the next."""
        return [self.run_level(level, since) for level in levels]

    def run_level(self, level: Level, since: datetime | None = None) -> LevelResult:
        """Update one level. If another writer replaced its files meanwhile, plan again."""
        self.lake.check_driver("a rollup")
        again = retry_conflicts(CONFLICTS.labels(level.name).inc)
        name = f"{ROLLUP}:{level.table}"
        seconds, steal = self.config.lease_seconds, self.steal
        with hold_worker_lease(self.documents, name, seconds=seconds, what="rollup", steal=steal) as lease:
            result: LevelResult = again(self._run, level, since, lease)
        count_run(result)
        return result

    def _run(self, level: Level, since: datetime | None, lease: Lease) -> LevelResult:
        began = time.monotonic()
        source, target = self.lake.table(level.source), self.lake.table(level.table)
        run = LevelRun(
            level=level,
            source=source,
            target=target,
            config=self.config,
            definition=Definition.of(self.config),
            now=micros_of(self.clock()),
            since=micros_of(since) if since else None,
            frozen=self.frozen(level.source),
        )
        planned = plan_run(run)
        lease.check()
        done = self._run_tasks(run, planned)
        change = planned.change(done)
        snapshot = None
        if change.changes_rows or run.must_commit_position:
            lease.check()
            snapshot = self._commit(run, change, planned.windows(done))
        return make_result(run, planned, done, change, snapshot, time.monotonic() - began)

    def _run_tasks(self, run: LevelRun, planned: RunPlan) -> list[TaskResult]:
        if not planned.tasks:
            return []
        spark = self.lake.spark
        return run_tasks(
            spark,
            run.assignment,
            planned.tasks,
            partial(self.progress, run.level.table),
            slices=count_slices(spark),
        )

    def _commit(self, run: LevelRun, change: RowChange, windows: dict[str, Ranges]) -> int:
        commit = change_rows(
            self.lake,
            run.level.table,
            change,
            batch_id=f"{ROLLUP}:{run.level.name}:{uuid4().hex}",
            operation=ROLLUP,
            summary={**run.position.to_summary(ROLLUP), **format_changed_windows(windows)},
        )
        return commit.snapshot_id

    def status(self) -> list[LevelStatus]:
        """Return the status of the levels. Reads metadata alone."""
        return read_level_status(self.lake, self.config, self.clock())

    def watch_lag(self) -> None:
        """Set the metrics of the levels' lag."""
        for level in self.status():
            if level.lag_seconds is not None:
                LAG.labels(level.level).set(level.lag_seconds)
