"""A layout's way from a branch to main: staged, tried, published, measured, and taken back wherever it fails."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from neve.autopilot.canary.canary import Canary
from neve.autopilot.merge.merger import Merger

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from neve.autopilot.canary.report import CanaryReport
    from neve.autopilot.canary.statement import HotQuery
    from neve.autopilot.merge.measure import Measured
    from neve.autopilot.merge.result import MergeReport, RollbackReport
    from neve.autopilot.stage.begin import Change
    from neve.autopilot.stage.result import DiscardReport, StageReport
    from neve.autopilot.stage.stager import Stager


@dataclass(frozen=True)
class Trial:
    """What the canary said, and how the branch was taken back where it said no."""

    canary: CanaryReport
    discarded: DiscardReport | None

    def as_document(self) -> dict[str, Any]:
        """For programs."""
        return {
            "canary": self.canary.as_document(),
            "discarded": self.discarded.as_document() if self.discarded else None,
        }


@dataclass(frozen=True)
class Rollout:
    """All that is done with an attempt; `steal` takes the lease from a run that is known to be dead."""

    stager: Stager
    steal: bool = False

    def stage(self, change: Change, progress: Callable[[int, int], None] | None = None) -> StageReport:
        """Put a layout on a branch."""
        return self.stager.stage(change, progress, steal=self.steal)

    def canary(
        self, attempt_id: str, queries: Sequence[HotQuery], progress: Callable[[int, int], None] | None = None
    ) -> Trial:
        """Ask hot queries of main and of the branch; a branch that fails is taken back at once."""
        record = self.stager.records.get(attempt_id)
        report = Canary(self.stager.lake, self.stager.config.canary).run(record, queries, progress)
        if report.passed:
            return Trial(report, None)
        return Trial(report, self.stager.discard(attempt_id, "; ".join(report.reasons), steal=self.steal))

    def merge(self, attempt_id: str, message: str = "") -> MergeReport:
        """Publish a staged layout."""
        return Merger(self.stager).merge(attempt_id, message, steal=self.steal)

    def rollback(self, attempt_id: str, reason: str = "asked for") -> RollbackReport | DiscardReport:
        """Take an attempt back: its merge where there was one, otherwise its branch."""
        merger = Merger(self.stager)
        if merger.is_merged(attempt_id):
            return merger.rollback(attempt_id, steal=self.steal)
        return self.stager.discard(attempt_id, reason, steal=self.steal)

    def measure_again(self, attempt_id: str, queries: Sequence[HotQuery]) -> Measured:
        """What a merge delivered."""
        record = self.stager.records.get(attempt_id)
        return Canary(self.stager.lake, self.stager.config.canary).measure_again(record, queries)
