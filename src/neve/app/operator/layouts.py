"""Attempts of the autopilot: their path and promises, and changes that operators request as jobs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime  # noqa: TC003 - pydantic reads it
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from neve.app.reports import JobReport, Report
from neve.autopilot.attempt import OPEN_STAGES, Stage
from neve.autopilot.history import History
from neve.errors import ConfigError, LakeError
from neve.jobs.job import Job, Task, WorkNotFound, WorkStateError

if TYPE_CHECKING:
    from collections.abc import Callable

    from neve.app.settings import Settings
    from neve.autopilot.attempt import Attempt
    from neve.autopilot.attempt_runner import AttemptRunner
    from neve.autopilot.outcome import Outcome
    from neve.autopilot.propose.proposal import Reduction
    from neve.jobs.queue import JobQueue
    from neve.lake.lake import Lake
    from neve.state.documents import Documents

Change = Literal["approve", "reject", "rollback"]
ALLOWED_STAGES: dict[Change, tuple[Stage, ...]] = {
    "approve": (Stage.CANARY, Stage.PROPOSED),
    "reject": OPEN_STAGES,
    "rollback": (Stage.MERGED,),
}


class StepLine(Report):
    """One stage that an attempt reached."""

    stage: str
    at: datetime
    reason: str


class ReductionReport(Report):
    """Reduction of scanned bytes in percent, with its interval."""

    pct: float
    low_pct: float
    high_pct: float


class OutcomeReport(Report):
    """Measured gain of a merge, beside its estimate."""

    at: datetime
    promised_pct: float
    promised_low_pct: float
    delivered_pct: float
    is_delivered: bool


class AttemptLine(Report):
    """One attempt to change the layout of a table."""

    id: str
    table: str
    kind: str
    stage: str
    before: str
    after: str
    started: datetime
    steps: list[StepLine]
    outcome: OutcomeReport | None
    changes: list[str] = Field(description="changes that its stage permits: approve, reject, rollback")


class AttemptsReport(Report):
    """Attempts, newest first."""

    total: int
    offset: int
    attempts: list[AttemptLine]


class CanaryQueryReport(Report):
    """One frequent query on main and on the branch."""

    fingerprint: str
    equal: bool
    bytes_main: int
    bytes_branch: int
    seconds_main: float
    seconds_branch: float
    text: str = Field(description="the query; values are hidden unless autopilot.propose.allow_literals is set")


class RejectedLayoutReport(Report):
    """A layout that was evaluated and not chosen."""

    layout: str
    reason: str


class AttemptDetail(AttemptLine):
    """One attempt with its estimate, its canary and its cost. Parts that are not stored are null or empty."""

    table_bytes: int | None
    promised: ReductionReport | None
    measured: ReductionReport | None = Field(description="by the canary")
    reasons: list[str]
    cost_seconds: float | None
    cost_dollars: float | None
    payback_days: float | None = Field(description="null: never, or unknown")
    canary: list[CanaryQueryReport]
    rejected: list[RejectedLayoutReport]
    branch: str
    job: JobReport | None = Field(description="requested change that has not ended")


@dataclass(frozen=True)
class Layouts:
    """The attempts of a lake, and the changes that operators request."""

    documents: Documents
    jobs: JobQueue

    def list(self, offset: int, limit: int) -> AttemptsReport:
        """Return a page of attempts, newest first."""
        history = History(self.documents)
        found, outcomes = history.attempts(), {one.attempt_id: one for one in history.outcomes()}
        lines = [AttemptLine(**_describe(one, outcomes.get(one.id))) for one in found[offset : offset + limit]]
        return AttemptsReport(total=len(found), offset=offset, attempts=lines)

    def get(self, attempt_id: str) -> AttemptDetail:
        """Return one attempt; raises `WorkNotFound`."""
        attempt = self._find(attempt_id)
        outcome = next((one for one in History(self.documents).outcomes() if one.attempt_id == attempt.id), None)
        proposal = attempt.details.proposal if attempt.details else None
        return AttemptDetail(
            **_describe(attempt, outcome),
            table_bytes=proposal.table_bytes if proposal else None,
            promised=_describe_reduction(proposal.estimate if proposal else None),
            measured=_describe_reduction(proposal.measured if proposal else None),
            reasons=list(proposal.reasons) if proposal else [],
            cost_seconds=proposal.cost_seconds if proposal else None,
            cost_dollars=proposal.cost_dollars if proposal else None,
            payback_days=proposal.payback_days if proposal else None,
            canary=[
                CanaryQueryReport(
                    fingerprint=one.fingerprint,
                    equal=one.equal,
                    bytes_main=one.bytes_main,
                    bytes_branch=one.bytes_branch,
                    seconds_main=one.seconds_main,
                    seconds_branch=one.seconds_branch,
                    text=one.example or one.text,
                )
                for one in (proposal.canary if proposal else ())
            ],
            rejected=[RejectedLayoutReport.model_validate(one) for one in (proposal.rejected if proposal else ())],
            branch=attempt.branch.branch if attempt.branch else "",
            job=self._open_job(attempt),
        )

    def request(self, attempt_id: str, change: Change, *, table: str, by: str, reason: str) -> Job:
        """Request a change of an attempt; `table` repeats the name of its table.

        Raises `ConfigError` for another table, `WorkStateError` if the stage of the attempt does not permit it.
        """
        attempt = self._find(attempt_id)
        if table != attempt.table:
            raise ConfigError(f"table is {table[:100]!r}, expected {attempt.table!r}, the table of this attempt")
        if attempt.stage not in ALLOWED_STAGES[change]:
            expected = " or ".join(ALLOWED_STAGES[change])
            raise WorkStateError(f"the attempt {attempt.id} is {attempt.stage}, expected {expected} to {change} it")
        words = {"approve": "approved", "reject": "rejected", "rollback": "rolled back"}[change]
        because = f"{words} by {by}{f': {reason}' if reason else ''}"
        return self.jobs.request(Task.LAYOUT, attempt.table, f"{change}:{attempt.id}", reason=because)

    def _find(self, attempt_id: str) -> Attempt:
        history = History(self.documents)
        found = next((one for one in history.attempts() if one.id == attempt_id), None)
        if found is None:
            raise WorkNotFound(
                f"there is no attempt {attempt_id[:100]!r}", hint="`neve autopilot history` lists attempts"
            )
        return history.load(found)

    def _open_job(self, attempt: Attempt) -> JobReport | None:
        found = self.jobs.list(task=Task.LAYOUT, table=attempt.table, limit=100)
        mine = (job for job in found if job.state.is_open and job.window.partition(":")[2] == attempt.id)
        job = next(mine, None)
        return JobReport.model_validate(job) if job else None


def _describe(attempt: Attempt, outcome: Outcome | None) -> dict[str, Any]:
    return {
        "id": attempt.id,
        "table": attempt.table,
        "kind": attempt.kind,
        "stage": attempt.stage.value,
        "before": str(attempt.before),
        "after": str(attempt.after),
        "started": attempt.started_at,
        "steps": [StepLine(stage=one.stage.value, at=one.at, reason=one.reason) for one in attempt.steps],
        "outcome": OutcomeReport.model_validate(outcome) if outcome else None,
        "changes": [change for change, stages in ALLOWED_STAGES.items() if attempt.stage in stages],
    }


def _describe_reduction(found: Reduction | None) -> ReductionReport | None:
    return None if found is None else ReductionReport.model_validate(found)


def run_change(settings: Settings, lake: Lake, job: Job, progress: Callable[[str, int, int], None]) -> str:
    """Merge or roll back an attempt in a worker, and describe the result."""
    from neve.app.autopilot import open_pilot  # noqa: PLC0415 - a JVM's worth of imports

    with open_pilot(settings, lake, progress) as pilot:
        return apply_change(pilot, job)


def apply_change(pilot: AttemptRunner, job: Job) -> str:
    """Apply the change that a job requests; a repeated one, after a killed worker, changes nothing."""
    change, _colon, attempt_id = job.window.partition(":")
    attempt = pilot.find(attempt_id)
    if change != "approve":
        if attempt.stage is not Stage.ROLLED_BACK:
            attempt, _report = pilot.rollback(attempt, job.reason)
        return f"{attempt.table} is {attempt.before} as before"
    if attempt.stage is Stage.MERGED:
        return f"{attempt.table} is {attempt.after} already"
    hot = pilot.hot(attempt.table, pilot.scan.analyze())
    attempt, merged = pilot.merge(attempt, by_hand=True, approval=job.reason)
    result = f"{attempt.table} is {attempt.after} ({merged.how})"
    try:
        outcome = pilot.measure(attempt, hot)
    except LakeError as error:  # it is merged, and the next nightly run measures it
        return f"{result}; not measured yet: {error.message}"
    if outcome is None:
        return f"{result}; nothing to measure"
    return f"{result}; the frequent queries read {outcome.delivered_pct:.1f} % less"
