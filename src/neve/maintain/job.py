"""Run maintenance steps on a table under a lease; record each in the history and the metrics."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from prometheus_client import Counter, Gauge

from neve.errors import Cancelled, LeaseLost, LeaseTaken, NeveError
from neve.lake.lake import parse_table_name
from neve.logger import get_logger
from neve.maintain.config import MaintainConfig
from neve.maintain.deletes import rewrite_deletes
from neve.maintain.expire import expire_snapshots
from neve.maintain.manifests import rewrite_manifests
from neve.maintain.orphans import remove_orphans
from neve.maintain.retention import apply_retention
from neve.maintain.statistics import compute_statistics
from neve.maintain.step import Guards, History, Outcome, ProgressCallback, StepContext, StepResult
from neve.maintain.tags import update_tags
from neve.state.leases import Lease, hold_worker_lease

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from neve.lake.lake import Lake
    from neve.state.documents import Documents


RUNS = Counter("neve_maintain_runs", "runs of a step", ["step", "table"])
FAILURES = Counter("neve_maintain_failures", "failed runs of a step", ["step", "table"])
SECONDS = Counter("neve_maintain_seconds", "duration of the runs of a step", ["step", "table"])
SNAPSHOTS = Counter("neve_maintain_expired_snapshots", "expired snapshots", ["table"])
FILES = Counter("neve_maintain_removed_files", "removed data and delete files", ["step", "table"])
ROWS = Counter("neve_maintain_deleted_rows", "rows deleted by retention", ["table"])
BYTES = Counter("neve_maintain_freed_bytes", "freed bytes, approximately", ["step", "table"])
LAST = Gauge("neve_maintain_last_success_timestamp_seconds", "time of the last successful run", ["step", "table"])


def count_step(result: StepResult) -> None:
    """Count a step that was not a dry run."""
    labels, gain = (result.step, result.table), result.outcome.gain
    RUNS.labels(*labels).inc()
    SECONDS.labels(*labels).inc(result.seconds)
    if result.is_failure:
        FAILURES.labels(*labels).inc()
        return
    FILES.labels(*labels).inc(gain.files + gain.delete_files)
    BYTES.labels(*labels).inc(gain.bytes)
    SNAPSHOTS.labels(result.table).inc(gain.snapshots)
    ROWS.labels(result.table).inc(gain.rows)
    LAST.labels(*labels).set(result.started_at.timestamp() + result.seconds)


log = get_logger("neve.maintain")

Step = Callable[[StepContext], Outcome]
STEPS: dict[str, Step] = {
    "retention": apply_retention,
    "deletes": rewrite_deletes,
    "manifests": rewrite_manifests,
    "statistics": compute_statistics,
    "tags": update_tags,
    "expire": expire_snapshots,
    "orphans": remove_orphans,
}


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True)
class Maintainer:
    """Runs steps on tables of a lake. Without documents there is neither a lease nor a history."""

    lake: Lake
    config: MaintainConfig = field(default_factory=MaintainConfig)
    guards: Guards = field(default_factory=Guards)
    documents: Documents | None = None
    report_progress: ProgressCallback = lambda _step, _done, _total: None
    clock: Callable[[], datetime] = _now
    steal: bool = False

    def run(
        self, table: str, steps: Sequence[str], *, dry_run: bool = False, how: Mapping[str, Step] | None = None
    ) -> list[StepResult]:
        """Run steps on one table, in their order. A failed step is reported, and the next one runs.

        Raises `LeaseTaken` while another process maintains the table, and `Cancelled` if `report_progress` does. `how`
        overrides the implementation of steps.
        """
        return self._run(self._work(table, dry_run=dry_run), {step: (how or STEPS)[step] for step in steps})

    def round(self, table: str, *, dry_run: bool = False) -> list[StepResult]:
        """Run every step. Orphans are only listed unless the settings enable their removal."""
        listed = frozenset() if self.config.orphans.delete else frozenset({"orphans"})
        return self._run(self._work(table, dry_run=dry_run), {step: STEPS[step] for step in self.steps()}, listed)

    def steps(self) -> list[str]:
        """Return the steps of a round. Deleting steps come first, so that expiry and orphans find their files."""
        return [step for step in STEPS if step != "statistics" or self.config.statistics.enabled]

    def _run(
        self, work: StepContext, steps: Mapping[str, Step], listed: frozenset[str] = frozenset()
    ) -> list[StepResult]:
        work.table()  # an unknown table name is an error of the caller
        results: list[StepResult] = []
        try:
            with self._lease(work) as lease:
                for step, how in steps.items():
                    turn = replace(work, dry_run=work.dry_run or step in listed)
                    results.append(self._step(_with_lease(turn, lease), step, how))
        except LeaseLost as error:
            results.append(self._make_failure(work, "lease", error, 0.0))
        return results

    def report_lease_taken(self, table: str, error: LeaseTaken) -> StepResult:
        """Return a result for a table that another process maintains, to report it beside the steps of other tables."""
        return self._make_failure(self._work(table, dry_run=False), "lease", error, 0.0)

    def _work(self, table: str, *, dry_run: bool) -> StepContext:
        name = ".".join(parse_table_name(table))
        return StepContext(self.lake, name, self.clock(), self.config, self.guards, dry_run, self.report_progress)

    def _lease(self, work: StepContext) -> AbstractContextManager[Lease | None]:
        """Acquire the lease of a table: two maintainers would invalidate each other's plans. A dry run needs none."""
        if self.documents is None or work.dry_run:
            return nullcontext()
        return hold_worker_lease(
            self.documents,
            f"maintain:{work.name}",
            seconds=self.config.lease_seconds,
            what="neve maintain",
            steal=self.steal,
        )

    def _step(self, work: StepContext, step: str, how: Step) -> StepResult:
        started, clock = self.clock(), time.monotonic()
        try:
            outcome = how(work)
        except (LeaseLost, Cancelled):
            raise
        except Exception as error:
            if not isinstance(error, NeveError):
                log.exception("step failed", step=step, table=work.name)
            return self._remember(self._make_failure(work, step, error, time.monotonic() - clock))
        return self._remember(StepResult(step, work.name, work.dry_run, started, time.monotonic() - clock, outcome))

    def _make_failure(self, work: StepContext, step: str, error: Exception, seconds: float) -> StepResult:
        message = error.message if isinstance(error, NeveError) else f"{type(error).__name__}: {_first_line(error)}"
        hint = error.hint if isinstance(error, NeveError) else None
        nothing = Outcome("failed")
        return StepResult(step, work.name, work.dry_run, self.clock(), seconds, nothing, error=message, hint=hint)

    def _remember(self, result: StepResult) -> StepResult:
        if not result.dry_run:
            count_step(result)
            if self.documents is not None:
                History(self.documents, self.config.history_days).remember(result)
        return result


def _with_lease(work: StepContext, lease: Lease | None) -> StepContext:
    return work if lease is None else replace(work, check=lease.check)


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [""])[0]
