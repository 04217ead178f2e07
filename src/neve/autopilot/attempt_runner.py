"""Steps of an attempt to change a table's layout, from the recommendation to the merge or the rollback.

Each step is recorded in the history before the next one begins, so that a killed run can be continued.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from math import isfinite
from typing import TYPE_CHECKING

from neve.autopilot.attempt import OPEN_STAGES, Attempt, AttemptDetails, BranchState, Stage, Step
from neve.autopilot.estimate.file_pruning import collect_filters
from neve.autopilot.outcome import Outcome
from neve.autopilot.propose.forge import ForgeError, ProposalState
from neve.autopilot.propose.proposal import (
    CanaryLine,
    Proposal,
    Reduction,
    RejectedCandidate,
    format_title,
    make_proposal_id,
)
from neve.autopilot.propose.proposals import MergeDecision, decide_auto_merge
from neve.autopilot.rollout.canary_queries import (
    format_query,
    parse_own_queries,
    select_hot_queries,
    select_own_queries,
)
from neve.autopilot.rollout.stage_files import format_selection
from neve.autopilot.rollout.stage_setup import StageRequest
from neve.autopilot.table_layout import current_layout, table_bytes
from neve.autopilot.workload.tables import Tables
from neve.errors import LakeError
from neve.state.audit import record_command

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from neve.autopilot.analyzer import Analysis
    from neve.autopilot.config import AutopilotConfig
    from neve.autopilot.expected_gain import ExpectedGain
    from neve.autopilot.history import History
    from neve.autopilot.propose.forge import PostedChange, Verdict
    from neve.autopilot.propose.proposals import Proposals
    from neve.autopilot.recommend.recommendation import Advice, RejectedLayout
    from neve.autopilot.rollout.canary import CanaryReport
    from neve.autopilot.rollout.canary_queries import CanaryQuery
    from neve.autopilot.rollout.reports import CanaryTrial, DiscardReport, MergeReport, RollbackReport, StageReport
    from neve.autopilot.rollout.rollout import Rollout
    from neve.autopilot.workload_scan import WorkloadScan
    from neve.predicate.filters import Filter


Progress = Callable[[str, int, int], None]
ATTEMPT_ID_DIGITS = 6


@dataclass(frozen=True)
class AttemptRunner:
    """Runner that moves attempts from one step to the next."""

    scan: WorkloadScan
    rollout: Rollout
    proposals: Proposals
    progress: Progress = lambda _step, _done, _total: None

    @property
    def history(self) -> History:
        """The history of earlier attempts."""
        return self.scan.history

    @property
    def config(self) -> AutopilotConfig:
        """The user's settings."""
        return self.scan.config

    def find(self, attempt_id: str) -> Attempt:
        """Return an attempt by its id, or by a prefix of the id that is unique."""
        found = [one for one in self.history.attempts() if one.id.startswith(attempt_id)]
        exact = [one for one in found if one.id == attempt_id]
        if len(exact or found) != 1:
            raise LakeError(
                f"{len(found) or 'no'} attempts have an id that begins with {attempt_id!r}, expected one",
                hint="`neve autopilot history` lists attempts",
            )
        return self.history.load((exact or found)[0])

    def open_attempt(self, table: str) -> Attempt | None:
        """Return the unfinished attempt of a table."""
        found = next((one for one in self.history.attempts(table) if one.stage in OPEN_STAGES), None)
        return None if found is None else self.history.load(found)

    def begin(self, gain: ExpectedGain, advice: Advice) -> Attempt:
        """Record a recommendation as an attempt.

        A table has at most one attempt at a time.
        """
        found, now = gain.recommendation, self.scan.clock()
        current = self.open_attempt(found.table)
        if current is not None:
            raise LakeError(
                f"{found.table} already has the attempt {current.id} ({current.stage}), expected none",
                hint=f"continue it, or roll it back: neve autopilot rollback {current.id}",
            )
        mark = make_proposal_id(found.table, found.before, found.after)[:ATTEMPT_ID_DIGITS]
        attempt = Attempt(
            f"{now:%Y%m%d%H%M%S}-{mark}",
            found.table,
            found.type,
            found.before,
            found.after,
            (Step(Stage.RECOMMENDED, now, found.delta),),
        )
        details = self._describe(gain, advice, attempt.id)
        self.history.begin(attempt)
        return self._record(attempt, Stage.RECOMMENDED, found.reasoning, details.as_document())

    def rejected_before(self, gain: ExpectedGain, advice: Advice) -> str:
        """Return why reviewers rejected the same change, if it was proposed before."""
        try:
            verdict = self.proposals.state(self._describe(gain, advice, "none").proposal)
        except ForgeError:  # it was never proposed, or the forge can't be reached: the proposal step will report that
            return ""
        return (
            f"the same change was proposed and rejected: {verdict.reason}"
            if verdict.state is ProposalState.REJECTED
            else ""
        )

    def hot(self, table: str, analysis: Analysis) -> list[CanaryQuery]:
        """Return the queries for the canary and the measurement of a table's layout."""
        own = select_own_queries(table, self.config.queries, self.scan.clock())
        return [*select_hot_queries(table, analysis.queries, self.config.canary_queries), *own]

    def stage(self, attempt: Attempt, analysis: Analysis | None = None) -> tuple[Attempt, StageReport]:
        """Stage the layout on a branch, or resume that.

        Logs are read unless an analysis is given.
        """
        _check_stage(attempt, Stage.RECOMMENDED)
        details = _get_details(attempt)
        change = StageRequest(attempt.id, attempt.table, attempt.after, properties=details.properties)
        # An attempt keeps the files that were selected at its start, whatever the logs contain when it is resumed.
        if self.config.stage.only_read and attempt.branch is None:
            change = replace(change, filters=self._collect_filters(attempt.table, analysis or self.scan.analyze()))
        report = self.rollout.stage(change, partial(self.progress, "stage"))
        document = {**report.as_document(), **add_selection(details, report).as_document()}
        return self._record(attempt, Stage.STAGED, "; ".join(report.reasons), document), report

    def canary(self, attempt: Attempt, queries: Sequence[CanaryQuery]) -> tuple[Attempt, CanaryTrial]:
        """Run the hot queries on main and on the branch.

        An attempt that fails is rolled back.
        """
        _check_stage(attempt, Stage.STAGED, Stage.CANARY)
        trial = self.rollout.canary(attempt.id, queries, partial(self.progress, "canary"))
        reason = "; ".join(trial.canary.reasons)
        literals = self.config.propose.allow_literals
        details = add_canary(_get_details(attempt), trial.canary, queries, allow_literals=literals)
        attempt = self._record(attempt, Stage.CANARY, reason, {**trial.as_document(), **details.as_document()})
        if trial.discarded is not None:
            attempt = self._record(attempt, Stage.ROLLED_BACK, f"the canary failed: {reason}")
        return attempt, trial

    def propose(self, attempt: Attempt) -> tuple[Attempt, PostedChange]:
        """Propose the change for review."""
        _check_stage(attempt, Stage.CANARY, Stage.PROPOSED)
        if self.history.get_branch(attempt.id).state is not BranchState.STAGED:
            raise LakeError(f"the branch of the attempt {attempt.id} was rolled back, so there is nothing to propose")
        posted = self.proposals.propose(_get_details(attempt).proposal)
        reason = f"{posted.action}: {posted.place}"
        return self._record(attempt, Stage.PROPOSED, reason, dict(posted.as_document())), posted

    def verdict(self, attempt: Attempt) -> tuple[Verdict, MergeDecision]:
        """Return the decision of the reviewers, and whether the change may be merged without one."""
        proposal = _get_details(attempt).proposal
        current = current_layout(self.scan.lake.table(attempt.table))
        verdict = self.proposals.refresh(proposal, current)
        return verdict, decide_auto_merge(proposal, self.config.propose.auto_merge, self.scan.clock())

    def merge(
        self, attempt: Attempt, *, by_hand: bool = False, approval: str = "approved on the command line"
    ) -> tuple[Attempt, MergeReport]:
        """Publish a change that is approved or within the bounds of auto_merge.

        `by_hand` counts as an approval, with `approval` as its reason.
        """
        _check_stage(attempt, Stage.PROPOSED, *((Stage.CANARY,) if by_hand else ()))
        proposal, why = _get_details(attempt).proposal, approval
        if attempt.stage is Stage.PROPOSED:
            verdict, bounds = self.verdict(attempt)
            decision = MergeDecision(True, why) if by_hand else bounds
            why = verdict.reason if verdict.state is ProposalState.APPROVED else decision.reason
            self.proposals.merge(proposal, decision)
        report = self.rollout.merge(attempt.id, format_title(proposal))
        self._audit("layout.merge", attempt, why)
        return self._record(attempt, Stage.MERGED, why, report.as_document()), report

    def measure(self, attempt: Attempt, queries: Sequence[CanaryQuery]) -> Outcome | None:
        """Measure what a merge delivered, and store it for later estimates.

        Return None if the queries read nothing before the merge.
        """
        _check_stage(attempt, Stage.MERGED)
        found = self.rollout.measure_again(attempt.id, queries)
        if found.delivered_pct is None:
            return None
        raw = _get_details(attempt).raw
        outcome = Outcome(
            table=attempt.table,
            attempt_id=attempt.id,
            kind=attempt.kind,
            at=self.scan.clock(),
            promised_pct=raw.pct,
            promised_low_pct=raw.low_pct,
            delivered_pct=found.delivered_pct,
        )
        self.history.deliver(outcome)
        return outcome

    def rollback(self, attempt: Attempt, reason: str) -> tuple[Attempt, RollbackReport | DiscardReport | None]:
        """Roll an attempt back, merged or not.

        Return None if nothing was staged yet.
        """
        if attempt.stage is Stage.ROLLED_BACK:
            raise LakeError(f"the attempt {attempt.id} is already rolled back")
        is_staged = self.history.find_branch(attempt.id) is not None
        report = self.rollout.rollback(attempt.id, reason) if is_staged else None
        self._audit("layout.rollback", attempt, reason)
        return self._record(attempt, Stage.ROLLED_BACK, reason, report.as_document() if report else None), report

    def _audit(self, action: str, attempt: Attempt, reason: str) -> None:
        facts = {"table": attempt.table, "before": str(attempt.before), "after": str(attempt.after), "reason": reason}
        record_command(self.history.documents, action, attempt.id, **facts)

    def _collect_filters(self, table: str, analysis: Analysis) -> tuple[Filter, ...]:
        """Return the filters on a table, of logged queries and of the user's own."""
        tables = Tables({table: self.scan.lake.table(table).schema()})
        own = parse_own_queries(table, self.config.queries, self.scan.clock(), tables)
        return collect_filters(table, [*analysis.queries, *own])

    def forget(self) -> int:
        """Delete the reports of attempts that ended long ago, and return the number of these attempts."""
        # a merge is measured until it has settled
        days = max(self.config.history_days, self.config.recommend.settle_days)
        return len(self.history.forget_reports(self.scan.clock() - timedelta(days=days)))

    def fail(self, attempt: Attempt, reason: str) -> Attempt:
        """Record that an attempt failed."""
        return self._record(attempt, Stage.FAILED, reason)

    def _describe(self, gain: ExpectedGain, advice: Advice, attempt_id: str) -> AttemptDetails:
        size = table_bytes(self.scan.lake.table(gain.recommendation.table))
        now = self.scan.clock()
        return create_details(gain, advice.rejected, attempt_id=attempt_id, table_bytes=size, created=now)

    def _record(self, attempt: Attempt, stage: Stage, reason: str, report: dict[str, object] | None = None) -> Attempt:
        return self.history.load(self.history.note(attempt.table, attempt.id, stage, reason, report))


def _get_details(attempt: Attempt) -> AttemptDetails:
    if attempt.details is None:
        raise LakeError(
            f"the attempt {attempt.id} of {attempt.table} was started, but has no stored details",
            hint=f"neve autopilot rollback {attempt.id}",
        )
    return attempt.details


def _check_stage(attempt: Attempt, *stages: Stage) -> None:
    if attempt.stage not in stages:
        raise LakeError(
            f"the attempt {attempt.id} of {attempt.table} is {attempt.stage}, expected {' or '.join(stages)}",
            hint="`neve autopilot history` lists attempts",
        )


MAX_REJECTED = 50  # limit of a proposal's list; `recommend --json` has all


def create_details(
    gain: ExpectedGain, rejected: Sequence[RejectedLayout], *, attempt_id: str, table_bytes: int, created: datetime
) -> AttemptDetails:
    """Return the details of an expected gain."""
    found = gain.recommendation
    days = found.payback.days
    proposal = Proposal(
        id=make_proposal_id(found.table, found.before, found.after),
        table=found.table,
        kind=found.type,
        before=found.before,
        after=found.after,
        created=created,
        table_bytes=table_bytes,
        estimate=gain.calibrated,
        cost_seconds=found.cost.seconds,
        cost_dollars=found.cost.dollars,
        payback_days=days if isfinite(days) else None,
        rollback_command=f"neve autopilot rollback {attempt_id}",
        reasons=tuple(one for one in (found.reasoning, gain.lesson) if one),
        rejected=tuple(RejectedCandidate(str(one.layout), one.reason) for one in rejected[:MAX_REJECTED]),
    )
    return AttemptDetails(proposal, gain.raw, dict(found.properties))


def add_selection(details: AttemptDetails, report: StageReport) -> AttemptDetails:
    """Return the details with the rewritten files, if not all files are rewritten."""
    if not report.left_out:
        return details
    reason = format_selection(report.files_before, report.left_out)
    return replace(details, proposal=replace(details.proposal, reasons=(*details.proposal.reasons, reason)))


def add_canary(
    details: AttemptDetails, report: CanaryReport, queries: Sequence[CanaryQuery], *, allow_literals: bool
) -> AttemptDetails:
    """Return the details with the result of a canary."""
    by_name = {one.name: one for one in queries}
    lines = tuple(
        CanaryLine(
            fingerprint=one.name,
            equal=one.equal,
            bytes_main=one.planned_main,
            bytes_branch=one.planned_branch,
            seconds_main=one.seconds_main,
            seconds_branch=one.seconds_branch,
            text=format_query(by_name[one.name], allow_literals=False),
            example=by_name[one.name].text if allow_literals else "",
        )
        for one in report.results
    )
    found = report.reduction
    measured = Reduction(100 * found.estimate, 100 * found.low, 100 * found.high) if found else None
    return replace(details, proposal=replace(details.proposal, canary=lines, measured=measured))
