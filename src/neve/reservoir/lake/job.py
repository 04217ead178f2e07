"""The job: windows of a table whose records changed are sampled anew, and replaced in one commit of the sample."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from uuid import uuid4

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from neve.errors import CommitConflict
from neve.lake.calendar import now_utc
from neve.lake.leases import work_under
from neve.lake.row_change import change_rows
from neve.reservoir.lake.count import count_failure, count_run
from neve.reservoir.lake.decide import Decider
from neve.reservoir.lake.occasion import Occasion
from neve.reservoir.lake.plan import Plan, Scope, never, plan_windows
from neve.reservoir.lake.position import RESERVOIR, announce
from neve.reservoir.lake.result import LakeRun, windows_told
from neve.reservoir.lake.weights import refused
from neve.reservoir.lake.windows import micros_of
from neve.reservoir.lake.writing import Writing

if TYPE_CHECKING:
    from datetime import datetime

    from neve.lake.documents import Documents
    from neve.lake.lake import Lake
    from neve.lake.leases import Lease
    from neve.lake.row_change import RowChange
    from neve.reservoir.lake.config import LakeSampling
    from neve.reservoir.lake.plan import Counts, Frozen

Progress = Callable[[str, int, int], None]
EVERYTHING = Scope()
ATTEMPTS = 5
STEPS = ("counting", "deciding", "writing", "committing")


@dataclass(frozen=True)
class LakeSampler:
    """Samples one table of a lake into its table of samples; among all that share the state store, one run at a time.

    `frozen` tells of an organization before which moment its rows may have been deleted for their age: what was sampled
    of them stays.
    """

    lake: Lake
    table: str
    config: LakeSampling
    documents: Documents
    frozen: Frozen = never
    clock: Callable[[], datetime] = now_utc
    steal: bool = False
    progress: Progress = field(default=lambda _step, _done, _total: None)

    @property
    def target(self) -> str:
        """The table that the sample goes to."""
        return f"{self.table}_sample"

    def run(self, scope: Scope = EVERYTHING) -> LakeRun:
        """Sample what changed since the last run; when another writer replaced files meanwhile, look again."""
        again = Retrying(
            retry=retry_if_exception_type(CommitConflict),
            stop=stop_after_attempt(ATTEMPTS),
            wait=wait_random_exponential(multiplier=0.2, max=5),
            reraise=True,
        )
        name, seconds = f"reservoir:{self.target}", self.config.lease_seconds
        with work_under(self.documents, name, seconds=seconds, what="reservoir", steal=self.steal) as lease:
            try:
                result: LakeRun = again(self._run, scope, lease)
            except Exception as error:
                count_failure(self.table)
                ours = refused(error, self.table)
                if ours is None:
                    raise
                raise ours from error
        count_run(result)
        return result

    def plan(self, scope: Scope = EVERYTHING) -> Plan:
        """What a run would do; records are counted, nothing is written."""
        occasion = self._occasion(scope)
        return self._planned(occasion)[0]

    def _run(self, scope: Scope, lease: Lease) -> LakeRun:
        began, occasion = time.monotonic(), self._occasion(scope)
        plan, wrong = self._planned(occasion)
        written = Writing(self.lake, occasion, plan, self._decider(occasion), self._tell).written()
        snapshot = ""
        if written.change.changes_rows or occasion.must_tell or (plan.turns and not occasion.was):
            self._tell("committing")
            lease.check()
            snapshot = str(self._commit(occasion, plan, written.change))
        change, position = written.change, occasion.position if snapshot else occasion.was
        return LakeRun(
            source=self.table,
            target=self.target,
            policy=self.config.policy,
            how=self.config.how,
            reason=occasion.reason,
            windows=windows_told(plan.turns, written.kept, wrong),
            waiting=plan.waiting,
            left=plan.left,
            mixed=occasion.position.mixed,
            files_added=len(change.added),
            files_removed=len(change.removed),
            delete_files=len(change.deletes),
            bytes=sum(int(file["file-size-in-bytes"]) for file in (*change.added, *change.deletes)),
            source_snapshot=str(position.snapshot or "") if position else "",
            snapshot=snapshot,
            seconds=time.monotonic() - began,
        )

    def _occasion(self, scope: Scope) -> Occasion:
        source, target = self.lake.table(self.table), self.lake.table(self.target)
        return Occasion(source, target, self.config, scope, micros_of(self.clock()), self.frozen)

    def _decider(self, occasion: Occasion) -> Decider:
        return Decider(self.lake, self.config, self.table, occasion.source, occasion.snapshot or 0)

    def _planned(self, occasion: Occasion) -> tuple[Plan, Counts]:
        wanted = occasion.wanted
        if occasion.snapshot is None or not wanted.time:
            return Plan(), {}
        self._tell("counting")
        counts, wrong = self._decider(occasion).counts(wanted.time, wanted.scope.owner)
        return plan_windows(counts, wanted), wrong

    def _commit(self, occasion: Occasion, plan: Plan, change: RowChange) -> int:
        commit = change_rows(
            self.lake,
            self.target,
            change,
            batch_id=f"{RESERVOIR}:{self.target}:{uuid4().hex}",
            operation=RESERVOIR,
            summary={**occasion.position.summary, **announce(plan.windows, self.config.window_seconds)},
        )
        return commit.snapshot_id

    def _tell(self, step: str) -> None:
        self.progress(step, STEPS.index(step), len(STEPS))
