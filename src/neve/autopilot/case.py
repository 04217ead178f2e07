"""What is written down of an attempt from one step to the next: the proposal as far as it is known, and the promise."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from math import isfinite
from typing import TYPE_CHECKING, Any

from neve.autopilot.hot import shown
from neve.autopilot.propose.names import proposal_id
from neve.autopilot.propose.proposal import CanaryLine, Proposal, Reduction, RejectedCandidate
from neve.autopilot.stage.gain import said
from neve.errors import LakeError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from neve.autopilot.canary.report import CanaryReport
    from neve.autopilot.canary.statement import HotQuery
    from neve.autopilot.journal import Attempt, History
    from neve.autopilot.promise import Promise
    from neve.autopilot.recommend.recommendation import Rejected
    from neve.autopilot.stage.result import StageReport

KEY = "case"
MOST_REJECTED = 50  # that a proposal lists; --json of `recommend` has all


@dataclass(frozen=True)
class Case:
    """An attempt's papers; `raw` is the estimate before past outcomes corrected it."""

    proposal: Proposal
    raw: Reduction
    properties: dict[str, str]

    def as_document(self) -> dict[str, Any]:
        """For the store."""
        return {
            KEY: {
                "proposal": self.proposal.as_document(),
                "raw": asdict(self.raw),
                "properties": self.properties,
            }
        }

    @classmethod
    def of(cls, document: Any) -> Case:
        """The papers of a document."""
        found = document[KEY]
        return cls(Proposal.of(found["proposal"]), Reduction(**found["raw"]), dict(found["properties"]))

    def staged(self, report: StageReport) -> Case:
        """The papers with what was rewritten, where that is not everything."""
        if not report.left_out:
            return self
        reason = said(report.files_before, report.left_out)
        return replace(self, proposal=replace(self.proposal, reasons=(*self.proposal.reasons, reason)))

    def tried(self, report: CanaryReport, queries: Sequence[HotQuery], *, allow_literals: bool) -> Case:
        """The papers with what a canary found."""
        by_name = {one.name: one for one in queries}
        lines = tuple(
            CanaryLine(
                fingerprint=one.name,
                equal=one.equal,
                bytes_main=one.planned_main,
                bytes_branch=one.planned_branch,
                seconds_main=one.seconds_main,
                seconds_branch=one.seconds_branch,
                text=shown(by_name[one.name], allow_literals=False),
                example=by_name[one.name].text if allow_literals else "",
            )
            for one in report.results
        )
        found = report.reduction
        measured = Reduction(100 * found.estimate, 100 * found.low, 100 * found.high) if found else None
        return replace(self, proposal=replace(self.proposal, canary=lines, measured=measured))


def open_case(
    promise: Promise, rejected: Sequence[Rejected], *, attempt_id: str, table_bytes: int, created: datetime
) -> Case:
    """The papers of a promise."""
    found = promise.recommendation
    days = found.payback.days
    proposal = Proposal(
        id=proposal_id(found.table, found.before, found.after),
        table=found.table,
        kind=found.type,
        before=found.before,
        after=found.after,
        created=created,
        table_bytes=table_bytes,
        estimate=promise.told,
        cost_seconds=found.cost.seconds,
        cost_dollars=found.cost.dollars,
        payback_days=days if isfinite(days) else None,
        rollback_command=f"neve autopilot rollback {attempt_id}",
        reasons=tuple(one for one in (found.reasoning, promise.lesson) if one),
        rejected=tuple(RejectedCandidate(str(one.layout), one.reason) for one in rejected[:MOST_REJECTED]),
    )
    return Case(proposal, promise.raw, dict(found.properties))


def case_of(history: History, attempt: Attempt) -> Case:
    """The newest papers of an attempt."""
    for step in reversed(attempt.steps):
        report = history.report(step)
        if report is not None and KEY in report:
            return Case.of(report)
    raise LakeError(
        f"the attempt {attempt.id} of {attempt.table} was begun, but nothing is written down of it",
        hint=f"neve autopilot rollback {attempt.id}",
    )
