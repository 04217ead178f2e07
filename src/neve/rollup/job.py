"""The job: for each level, what changed in its source is computed anew and replaced in one commit."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING
from uuid import uuid4

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from neve.errors import CommitConflict
from neve.lake.calendar import now_utc
from neve.lake.changes import keeps_rows, snapshots_since
from neve.lake.lane import parallelism, run_tasks
from neve.lake.leases import work_under
from neve.lake.row_change import RowChange, change_rows
from neve.lake.statistics import table_statistics
from neve.model.rollups import LEVELS
from neve.rollup import metrics
from neve.rollup.announced import announce
from neve.rollup.definition import Definition
from neve.rollup.position import ROLLUP, Position
from neve.rollup.ranges import END, Ranges, micros_of
from neve.rollup.result import LevelResult, LevelStatus, shown, told
from neve.rollup.turn import MICROS, Turn, plan_turn, scan
from neve.rollup.wanted import never

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from pyiceberg.table import Table

    from neve.lake.documents import Documents
    from neve.lake.lake import Lake
    from neve.lake.leases import Lease
    from neve.model.rollups import Level
    from neve.rollup.config import RollupConfig
    from neve.rollup.tasks import Done
    from neve.rollup.turn import Planned
    from neve.rollup.wanted import Frozen

Progress = Callable[[str, int, int], None]
ATTEMPTS = 5
TASKS_EACH = 4  # that a core is given, when there are many


@dataclass(frozen=True)
class Rollup:
    """Keeps the levels of one lake current; among all that share the state store, one run of a level at a time.

    `frozen` tells, for a source and an organization, before which moment its rows may have been deleted for their age.
    """

    lake: Lake
    config: RollupConfig
    documents: Documents
    frozen: Callable[[str], Frozen] = lambda _source: never
    clock: Callable[[], datetime] = now_utc
    steal: bool = False
    progress: Progress = field(default=lambda _step, _done, _total: None)

    def run(self, levels: Sequence[Level] = LEVELS, since: datetime | None = None) -> list[LevelResult]:
        """Bring levels up to date, the lowest first, as each is the next one's source."""
        return [self.run_level(level, since) for level in levels]

    def run_level(self, level: Level, since: datetime | None = None) -> LevelResult:
        """Bring one level up to date; when another writer replaced its files meanwhile, look again."""
        again = Retrying(
            retry=retry_if_exception_type(CommitConflict),
            stop=stop_after_attempt(ATTEMPTS),
            wait=wait_random_exponential(multiplier=0.2, max=5),
            before_sleep=lambda _state: metrics.CONFLICTS.labels(level.name).inc(),
            reraise=True,
        )
        name = f"{ROLLUP}:{level.table}"
        seconds, steal = self.config.lease_seconds, self.steal
        with work_under(self.documents, name, seconds=seconds, what="rollup", steal=steal) as lease:
            result: LevelResult = again(self._run, level, since, lease)
        metrics.count_run(result)
        return result

    def _run(self, level: Level, since: datetime | None, lease: Lease) -> LevelResult:
        began = time.monotonic()
        source, target = self.lake.table(level.source), self.lake.table(level.table)
        turn = Turn(
            level=level,
            source=source,
            target=target,
            config=self.config,
            definition=Definition.of(self.config),
            now=micros_of(self.clock()),
            since=micros_of(since) if since else None,
            frozen=self.frozen(level.source),
        )
        planned = plan_turn(turn)
        lease.check()
        done = self._computed(turn, planned)
        change = planned.change(done)
        snapshot = None
        if change.changes_rows or turn.must_tell:
            lease.check()
            snapshot = self._commit(turn, change, planned.windows(done))
        return told(turn, planned, done, change, snapshot, time.monotonic() - began)

    def _computed(self, turn: Turn, planned: Planned) -> list[Done]:
        if not planned.tasks:
            return []
        spark = self.lake.spark
        return run_tasks(
            spark,
            turn.assignment,
            planned.tasks,
            partial(self.progress, turn.level.table),
            slices=TASKS_EACH * parallelism(spark),
        )

    def _commit(self, turn: Turn, change: RowChange, windows: dict[str, Ranges]) -> int:
        commit = change_rows(
            self.lake,
            turn.level.table,
            change,
            batch_id=f"{ROLLUP}:{turn.level.name}:{uuid4().hex}",
            operation=ROLLUP,
            summary={**turn.position.summary, **announce(windows)},
        )
        return commit.snapshot_id

    def status(self) -> list[LevelStatus]:
        """How the levels stand; reads metadata alone."""
        return [self._status(level) for level in LEVELS]

    def watch_lag(self) -> None:
        """Tell Prometheus how far the levels are behind now; cheaper than the status, as fewer manifests are read."""
        for level in LEVELS:
            source, position = self.lake.table(level.source), Position.of(self.lake.table(level.table))
            if position is not None:
                metrics.LAG.labels(level.name).set(self._lag(source, position, _behind(source, position)))

    def _status(self, level: Level) -> LevelStatus:
        table, source = self.lake.table(level.table), self.lake.table(level.source)
        position, statistics = Position.of(table), table_statistics(table)
        behind = _behind(source, position)
        lag = None if position is None else self._lag(source, position, behind)
        return LevelStatus(
            level=level.name,
            table=level.table,
            rows=statistics.rows,
            files=statistics.files,
            bytes=statistics.bytes,
            closed_until=shown(position.closed_until) if position else "",
            lag_seconds=lag,
            commits_behind=behind,
            note=self._note(position, behind),
        )

    def _lag(self, source: Table, position: Position, behind: int | None) -> float:
        waits = behind != 0 or scan(source, Ranges.of([(position.closed_until, END)]))
        return (micros_of(self.clock()) - position.closed_until) / MICROS if waits else 0.0

    def _note(self, position: Position | None, behind: int | None) -> str:
        if position is None:
            return "nothing rolled up yet: no run, or no closed window with rows"
        if position.definition != Definition.of(self.config).fingerprint:
            return "what is kept of series was changed: the next run computes every window"
        return "" if behind is not None else "its place in the source is gone: the next run computes every window"


def _behind(source: Table, position: Position | None) -> int | None:
    """Commits of the source that changed rows since the last run; `None` where nobody knows."""
    if position is None:
        return None
    since = snapshots_since(source, position.snapshot)
    return None if since is None else sum(not keeps_rows(snapshot) for snapshot in since)
