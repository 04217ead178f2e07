"""Maintenance as it is run: a lease on the table, the steps in order, and a record of each."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import structlog

from neve.errors import Cancelled, LeaseLost, LeaseTaken, NeveError
from neve.lake.lake import identify
from neve.lake.leases import Lease, work_under
from neve.maintain.config import MaintainConfig
from neve.maintain.deletes import deletes
from neve.maintain.expire import expire
from neve.maintain.history import History
from neve.maintain.manifests import manifests
from neve.maintain.metrics import count_step
from neve.maintain.orphans import orphans
from neve.maintain.result import Outcome, StepResult
from neve.maintain.retention import retention
from neve.maintain.statistics import statistics
from neve.maintain.tags import tags
from neve.maintain.work import Guards, Tell, Work

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from neve.lake.documents import Documents
    from neve.lake.lake import Lake

log = structlog.get_logger("neve.maintain")

Step = Callable[[Work], Outcome]
STEPS: dict[str, Step] = {
    "retention": retention,
    "deletes": deletes,
    "manifests": manifests,
    "statistics": statistics,
    "tags": tags,
    "expire": expire,
    "orphans": orphans,
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
    tell: Tell = lambda _step, _done, _total: None
    clock: Callable[[], datetime] = _now
    steal: bool = False

    def run(
        self, table: str, steps: Sequence[str], *, dry_run: bool = False, how: Mapping[str, Step] | None = None
    ) -> list[StepResult]:
        """Steps on one table, in their order; one that fails is told, and does not keep the next from its turn.

        Raises `LeaseTaken` while another one is at the table, and `Cancelled` where `tell` does. `how` does steps in
        another way than their own.
        """
        return self._run(self._work(table, dry_run=dry_run), {step: (how or STEPS)[step] for step in steps})

    def round(self, table: str, *, dry_run: bool = False) -> list[StepResult]:
        """Every step; orphans are only listed where the settings do not say that they are to be removed."""
        listed = frozenset() if self.config.orphans.delete else frozenset({"orphans"})
        return self._run(self._work(table, dry_run=dry_run), {step: STEPS[step] for step in self.steps()}, listed)

    def steps(self) -> list[str]:
        """The steps of a round: what is deleted goes first, so that expiry and orphans find it."""
        return [step for step in STEPS if step != "statistics" or self.config.statistics.enabled]

    def _run(self, work: Work, steps: Mapping[str, Step], only_look: frozenset[str] = frozenset()) -> list[StepResult]:
        work.table()  # a name that is no table's is an error of whoever called
        results: list[StepResult] = []
        try:
            with self._lease(work) as lease:
                for step, how in steps.items():
                    turn = replace(work, dry_run=work.dry_run or step in only_look)
                    results.append(self._step(_leased(turn, lease), step, how))
        except LeaseLost as error:
            results.append(self._failed(work, "lease", error, 0.0))
        return results

    def refused(self, table: str, error: LeaseTaken) -> StepResult:
        """That another one is at a table, for whoever tells it beside the steps of other tables."""
        return self._failed(self._work(table, dry_run=False), "lease", error, 0.0)

    def _work(self, table: str, *, dry_run: bool) -> Work:
        name = ".".join(identify(table))
        return Work(self.lake, name, self.clock(), self.config, self.guards, dry_run, self.tell)

    def _lease(self, work: Work) -> AbstractContextManager[Lease | None]:
        """Two maintainers of one table would undo each other's plans; looking does no harm."""
        if self.documents is None or work.dry_run:
            return nullcontext()
        return work_under(
            self.documents,
            f"maintain:{work.name}",
            seconds=self.config.lease_seconds,
            what="neve maintain",
            steal=self.steal,
        )

    def _step(self, work: Work, step: str, how: Step) -> StepResult:
        started, clock = self.clock(), time.monotonic()
        try:
            outcome = how(work)
        except (LeaseLost, Cancelled):
            raise
        except Exception as error:
            if not isinstance(error, NeveError):
                log.exception("step failed", step=step, table=work.name)
            return self._remember(self._failed(work, step, error, time.monotonic() - clock))
        return self._remember(StepResult(step, work.name, work.dry_run, started, time.monotonic() - clock, outcome))

    def _failed(self, work: Work, step: str, error: Exception, seconds: float) -> StepResult:
        words = error.message if isinstance(error, NeveError) else f"{type(error).__name__}: {_first_line(error)}"
        hint = error.hint if isinstance(error, NeveError) else None
        nothing = Outcome("it failed")
        return StepResult(step, work.name, work.dry_run, self.clock(), seconds, nothing, error=words, hint=hint)

    def _remember(self, result: StepResult) -> StepResult:
        if not result.dry_run:
            count_step(result)
            if self.documents is not None:
                History(self.documents, self.config.history_days).remember(result)
        return result


def _leased(work: Work, lease: Lease | None) -> Work:
    return work if lease is None else replace(work, check=lease.check)


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [""])[0]
