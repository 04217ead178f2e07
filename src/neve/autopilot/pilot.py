"""What is done with one attempt, step by step; each step is in the history before the next one begins."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from neve.autopilot.case import case_of, open_case
from neve.autopilot.hot import hot_queries, own_queries, parsed_own
from neve.autopilot.journal import Attempt, Stage, Step
from neve.autopilot.outcome import Outcome
from neve.autopilot.parse.tables import Tables
from neve.autopilot.propose.auto_merge import Decision, auto_merge
from neve.autopilot.propose.body import title_of
from neve.autopilot.propose.names import proposal_id
from neve.autopilot.propose.port import ForgeError
from neve.autopilot.propose.state import State as Said
from neve.autopilot.recommend.current import current_layout, table_bytes
from neve.autopilot.stage.asked import filters_of
from neve.autopilot.stage.begin import Change
from neve.autopilot.stage.record import State
from neve.errors import LakeError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neve.autopilot.analyzer import Analysis
    from neve.autopilot.canary.statement import HotQuery
    from neve.autopilot.case import Case
    from neve.autopilot.config import AutopilotConfig
    from neve.autopilot.journal import History
    from neve.autopilot.merge.result import MergeReport, RollbackReport
    from neve.autopilot.promise import Promise
    from neve.autopilot.propose.port import Posted
    from neve.autopilot.propose.proposals import Proposals
    from neve.autopilot.propose.state import Verdict
    from neve.autopilot.recommend.recommendation import Advice
    from neve.autopilot.rollout import Rollout, Trial
    from neve.autopilot.stage.result import DiscardReport, StageReport
    from neve.autopilot.survey import Survey
    from neve.autopilot.workload import Filter

Progress = Callable[[str, int, int], None]
OPEN = (Stage.RECOMMENDED, Stage.STAGED, Stage.CANARY, Stage.PROPOSED)
ID_DIGITS = 6


@dataclass(frozen=True)
class Pilot:
    """Takes attempts from one step to the next."""

    survey: Survey
    rollout: Rollout
    proposals: Proposals
    progress: Progress = lambda _step, _done, _total: None

    @property
    def history(self) -> History:
        """What was done before."""
        return self.survey.history

    @property
    def config(self) -> AutopilotConfig:
        """What the user set."""
        return self.survey.config

    def find(self, attempt_id: str) -> Attempt:
        """An attempt by its id, or by how its id begins where no other begins so."""
        found = [one for one in self.history.attempts() if one.id.startswith(attempt_id)]
        exact = [one for one in found if one.id == attempt_id]
        if len(exact or found) != 1:
            raise LakeError(
                f"{len(found) or 'no'} attempts have an id that begins with {attempt_id!r}, expected one",
                hint="`neve autopilot history` lists attempts",
            )
        return (exact or found)[0]

    def open_attempt(self, table: str) -> Attempt | None:
        """The attempt of a table that is not over."""
        return next((one for one in self.history.attempts(table) if one.stage in OPEN), None)

    def begin(self, promise: Promise, advice: Advice) -> Attempt:
        """Write a recommendation down as an attempt; a table has one at a time."""
        found, now = promise.recommendation, self.survey.clock()
        there = self.open_attempt(found.table)
        if there is not None:
            raise LakeError(
                f"{found.table} has the attempt {there.id} already, which is {there.stage}, expected none",
                hint=f"go on with it, or take it back: neve autopilot rollback {there.id}",
            )
        mark = proposal_id(found.table, found.before, found.after)[:ID_DIGITS]
        attempt = Attempt(
            f"{now:%Y%m%d%H%M%S}-{mark}",
            found.table,
            found.type,
            found.before,
            found.after,
            (Step(Stage.RECOMMENDED, now, found.delta),),
        )
        case = self._opened(promise, advice, attempt.id)
        self.history.begin(attempt)
        return self._note(attempt, Stage.RECOMMENDED, found.reasoning, case.as_document())

    def rejected_before(self, promise: Promise, advice: Advice) -> str:
        """Why people did not want the same change, where it was before them."""
        try:
            verdict = self.proposals.state(self._opened(promise, advice, "none").proposal)
        except ForgeError:  # it was never made, or the forge is away, which is seen again when it is proposed
            return ""
        return f"the same was proposed and rejected: {verdict.reason}" if verdict.state is Said.REJECTED else ""

    def hot(self, table: str, analysis: Analysis) -> list[HotQuery]:
        """The queries that a table's layout is tried and measured with."""
        own = own_queries(table, self.config.queries, self.survey.clock())
        return [*hot_queries(table, analysis.queries, self.config.canary_queries), *own]

    def stage(self, attempt: Attempt, analysis: Analysis | None = None) -> tuple[Attempt, StageReport]:
        """Put the layout on a branch, or go on with that; logs are read where they were not analysed just now."""
        _expect(attempt, Stage.RECOMMENDED)
        case = self.case(attempt)
        change = Change(attempt.id, attempt.table, attempt.after, properties=case.properties)
        # What an attempt began with stays its choice, whatever the logs say when it is gone on with.
        if self.config.stage.only_read and self.rollout.stager.records.find(attempt.id) is None:
            change = replace(change, asked=self._asked(attempt.table, analysis or self.survey.analyze()))
        report = self.rollout.stage(change, partial(self.progress, "stage"))
        document = {**report.as_document(), **case.staged(report).as_document()}
        return self._note(attempt, Stage.STAGED, "; ".join(report.reasons), document), report

    def canary(self, attempt: Attempt, queries: Sequence[HotQuery]) -> tuple[Attempt, Trial]:
        """Ask the hot queries of both; an attempt that fails is taken back."""
        _expect(attempt, Stage.STAGED, Stage.CANARY)
        trial = self.rollout.canary(attempt.id, queries, partial(self.progress, "canary"))
        reason = "; ".join(trial.canary.reasons)
        case = self.case(attempt).tried(trial.canary, queries, allow_literals=self.config.propose.allow_literals)
        attempt = self._note(attempt, Stage.CANARY, reason, {**trial.as_document(), **case.as_document()})
        if trial.discarded is not None:
            attempt = self._note(attempt, Stage.ROLLED_BACK, f"the canary failed: {reason}")
        return attempt, trial

    def propose(self, attempt: Attempt) -> tuple[Attempt, Posted]:
        """Bring the change before people."""
        _expect(attempt, Stage.CANARY, Stage.PROPOSED)
        if self.rollout.stager.records.get(attempt.id).state is not State.STAGED:
            raise LakeError(f"the branch of the attempt {attempt.id} was taken back, so there is nothing to propose")
        posted = self.proposals.propose(self.case(attempt).proposal)
        reason = f"{posted.action}: {posted.place}"
        return self._note(attempt, Stage.PROPOSED, reason, dict(posted.as_document())), posted

    def verdict(self, attempt: Attempt) -> tuple[Verdict, Decision]:
        """What people decided, and whether it may be merged without them."""
        proposal = self.case(attempt).proposal
        current = current_layout(self.survey.lake.table(attempt.table))
        verdict = self.proposals.refresh(proposal, current)
        return verdict, auto_merge(proposal, self.config.propose.auto_merge, self.survey.clock())

    def merge(self, attempt: Attempt, *, by_hand: bool = False) -> tuple[Attempt, MergeReport]:
        """Publish what is approved, or within the bounds of auto_merge; `by_hand` is an approval of its own."""
        _expect(attempt, Stage.PROPOSED, *((Stage.CANARY,) if by_hand else ()))
        proposal, why = self.case(attempt).proposal, "approved on the command line"
        if attempt.stage is Stage.PROPOSED:
            verdict, bounds = self.verdict(attempt)
            decision = Decision(True, why) if by_hand else bounds
            why = verdict.reason if verdict.state is Said.APPROVED else decision.reason
            self.proposals.merge(proposal, decision)
        report = self.rollout.merge(attempt.id, title_of(proposal))
        return self._note(attempt, Stage.MERGED, why, report.as_document()), report

    def measure(self, attempt: Attempt, queries: Sequence[HotQuery]) -> Outcome | None:
        """What a merge delivered, kept for later estimates; none where the queries read nothing before it."""
        _expect(attempt, Stage.MERGED)
        found = self.rollout.measure_again(attempt.id, queries)
        if found.delivered_pct is None:
            return None
        raw = self.case(attempt).raw
        outcome = Outcome(
            table=attempt.table,
            attempt_id=attempt.id,
            kind=attempt.kind,
            at=self.survey.clock(),
            promised_pct=raw.pct,
            promised_low_pct=raw.low_pct,
            delivered_pct=found.delivered_pct,
        )
        self.history.deliver(outcome)
        return outcome

    def rollback(self, attempt: Attempt, reason: str) -> tuple[Attempt, RollbackReport | DiscardReport | None]:
        """Take an attempt back, merged or not; none where nothing was staged yet."""
        if attempt.stage is Stage.ROLLED_BACK:
            raise LakeError(f"the attempt {attempt.id} is rolled back already")
        known = self.rollout.stager.records.find(attempt.id) is not None
        report = self.rollout.rollback(attempt.id, reason) if known else None
        return self._note(attempt, Stage.ROLLED_BACK, reason, report.as_document() if report else None), report

    def _asked(self, table: str, analysis: Analysis) -> tuple[Filter, ...]:
        """What queries of the logs, and the user's own, ask of a table."""
        tables = Tables({table: self.survey.lake.table(table).schema()})
        own = parsed_own(table, self.config.queries, self.survey.clock(), tables)
        return filters_of(table, [*analysis.queries, *own])

    def forget(self) -> int:
        """Forget the reports of attempts that are over for long; how many attempts those were."""
        days = max(self.config.history_days, self.config.recommend.settle_days)  # a merge is measured until it settled
        forgotten = self.history.forget_reports(self.survey.clock() - timedelta(days=days))
        for attempt in forgotten:
            self.rollout.stager.records.forget(attempt.id)
        return len(forgotten)

    def fail(self, attempt: Attempt, reason: str) -> Attempt:
        """Write down that an attempt failed."""
        return self._note(attempt, Stage.FAILED, reason)

    def case(self, attempt: Attempt) -> Case:
        """The attempt's papers."""
        return case_of(self.history, attempt)

    def _opened(self, promise: Promise, advice: Advice, attempt_id: str) -> Case:
        size = table_bytes(self.survey.lake.table(promise.recommendation.table))
        now = self.survey.clock()
        return open_case(promise, advice.rejected, attempt_id=attempt_id, table_bytes=size, created=now)

    def _note(self, attempt: Attempt, stage: Stage, reason: str, report: dict[str, object] | None = None) -> Attempt:
        self.history.note(attempt.table, attempt.id, stage, reason, report)
        found = self.history.attempt(attempt.table, attempt.id)
        if found is None:
            raise LakeError(f"the attempt {attempt.id} was removed from the history")
        return found


def _expect(attempt: Attempt, *stages: Stage) -> None:
    if attempt.stage not in stages:
        raise LakeError(
            f"the attempt {attempt.id} of {attempt.table} is {attempt.stage}, expected {' or '.join(stages)}",
            hint="`neve autopilot history` lists attempts",
        )
