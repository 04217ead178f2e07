"""Nightly run: take the attempt of each managed table as far as possible, roll back failures, and report."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from neve.autopilot.attempt import OPEN_STAGES, Stage
from neve.autopilot.propose.forge import ForgeError, ProposalState
from neve.errors import Cancelled, CommitConflict, CommitUnknown, LeaseLost, LeaseTaken, NeveError
from neve.state.leases import hold_worker_lease

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from datetime import datetime

    from neve.autopilot.analyzer import Analysis
    from neve.autopilot.attempt import Attempt
    from neve.autopilot.attempt_runner import AttemptRunner
    from neve.autopilot.layout import Layout
    from neve.state.documents import Documents


@dataclass(frozen=True)
class TableReport:
    """Steps done for one table, and why no more were done.

    `stage` is the stage of its attempt, empty if it has none.
    """

    table: str
    attempt_id: str
    stage: str
    did: tuple[str, ...]
    reason: str
    failed: bool = False
    delivered_pct: float | None = None

    def as_document(self) -> dict[str, Any]:
        """Return the JSON document for programs."""
        return asdict(self)


@dataclass(frozen=True)
class RunReport:
    """All tables of a run; `left` has the tables that the time limit excluded."""

    queries: int
    unparsed: int
    tables: tuple[TableReport, ...]
    left: tuple[str, ...]
    seconds: float

    @property
    def has_failed(self) -> bool:
        """Return whether a failure needs the attention of a person."""
        return any(one.failed for one in self.tables)

    def as_document(self) -> dict[str, Any]:
        """Return the JSON document for programs."""
        return {
            "queries": self.queries,
            "unparsed": self.unparsed,
            "tables": [one.as_document() for one in self.tables],
            "left": list(self.left),
            "seconds": round(self.seconds, 3),
        }


LEASE = "autopilot"


class TimeLimitReached(NeveError):
    """Raised when a run reaches its time limit; the next run resumes its attempts."""


# Temporary errors, which leave the attempt as it is.
RETRIED_ERRORS = (TimeLimitReached, LeaseTaken, LeaseLost, CommitConflict, CommitUnknown, ForgeError)


@dataclass
class NightlyRun:
    """A run over all managed tables."""

    runner: AttemptRunner
    documents: Documents
    steal: bool = False
    on_report: Callable[[TableReport], None] = lambda _report: None
    monotonic: Callable[[], float] = time.monotonic
    _end: float = field(default=0.0, init=False)

    def run(self, tables: Iterable[str] = ()) -> RunReport:
        """Run all possible steps.

        Raises `Cancelled` if the run is cancelled. The next run resumes it.
        """
        config, started = self.runner.config, self.monotonic()
        self._end = started + config.time_limit_seconds
        runner = replace(self.runner, progress=self._report_progress)
        with hold_worker_lease(
            self.documents, LEASE, seconds=config.lease_seconds, what="a nightly run", steal=self.steal
        ) as lease:
            runner.forget()
            names = runner.scan.tables(tables)
            analysis = runner.scan.analyze()
            done: list[TableReport] = []
            for name in names:
                if self.monotonic() >= self._end:
                    break
                lease.check()
                done.append(_TableRun(runner, analysis, name).report())
                self.on_report(done[-1])
        return RunReport(
            analysis.counted,
            sum(one.queries for one in analysis.unparsed),
            tuple(done),
            tuple(names[len(done) :]),
            self.monotonic() - started,
        )

    def _report_progress(self, step: str, done: int, total: int) -> None:
        self.runner.progress(step, done, total)
        if done < total and self.monotonic() >= self._end:
            raise TimeLimitReached(
                f"the run reached its time limit of {self.runner.config.time_limit_seconds:g} s "
                f"at {done} of {total} of {step}",
                hint="the next run continues; raise autopilot.time_limit_seconds for longer runs",
            )


@dataclass
class _TableRun:
    """The part of a run for one table."""

    runner: AttemptRunner
    analysis: Analysis
    table: str
    did: list[str] = field(default_factory=list)
    attempt: Attempt | None = None
    delivered: float | None = None

    def report(self) -> TableReport:
        """Run all possible steps and report them; a failure of one table doesn't affect other tables."""
        failed = False
        try:
            reason = self._run_steps()
        except Cancelled:  # the whole run is cancelled; the attempt stays in its stage
            raise
        except RETRIED_ERRORS as error:
            reason = f"deferred to the next run: {error.message}"
        except Exception as error:
            # Any failure of an engine, a storage or the network: main is unchanged, and the other tables are processed.
            reason, failed = self._record_failure(error), True
        found = self.attempt
        return TableReport(
            self.table,
            found.id if found else "",
            found.stage if found else "",
            tuple(self.did),
            reason,
            failed,
            self.delivered,
        )

    def _run_steps(self) -> str:
        self._finish_earlier_runs()
        self.attempt = self.runner.open_attempt(self.table)
        if self.attempt is None:
            reason = self._begin()
            if reason:
                return reason
        while self.attempt is not None and self.attempt.stage in OPEN_STAGES:
            reason = self._step(self.attempt)
            if reason:
                return reason
        return self.attempt.steps[-1].reason if self.attempt else ""

    def _finish_earlier_runs(self) -> None:
        """Finish what earlier runs left: measure merges that were not measured, and roll back failed attempts."""
        measured = {one.attempt_id for one in self.runner.history.outcomes(self.table)}
        settling = timedelta(days=self.runner.config.recommend.settle_days)
        for one in self.runner.history.attempts(self.table):
            last = one.steps[-1]
            if one.stage is Stage.FAILED:
                self.runner.rollback(one, last.reason)
                self.did.append(f"rolled back {one.id}")
            elif one.stage is Stage.MERGED and one.id not in measured and self.runner.scan.clock() - last.at < settling:
                self._measure(one)

    def _begin(self) -> str:
        """Begin an attempt, or return why there is nothing to do."""
        gains = self.runner.scan.advise(self.table, self.analysis)
        if not gains.gains:
            return gains.advice.reason
        best = gains.gains[0]
        now, settle = self.runner.scan.clock(), self.runner.config.recommend.settle_days
        past = find_recent_rollback(self.runner.history.attempts(self.table), best.recommendation.after, now, settle)
        past = past or self.runner.rejected_before(best, gains.advice)
        if past:
            return past
        self.attempt = self.runner.begin(best, gains.advice)
        self.did.append(f"recommended: {best.recommendation.delta}")
        return ""

    def _step(self, attempt: Attempt) -> str:
        """Move an attempt to its next stage, or return why it has to wait."""
        if attempt.stage is Stage.RECOMMENDED:
            self.attempt, staged = self.runner.stage(attempt, self.analysis)
            self.did.append(f"staged {staged.files_before} files as {staged.files_after} on {staged.branch}")
        elif attempt.stage is Stage.STAGED:
            self.attempt, trial = self.runner.canary(attempt, self.runner.hot(self.table, self.analysis))
            self.did.append(f"canary {'passed' if trial.canary.passed else 'failed'}")
        elif attempt.stage is Stage.CANARY:
            self.attempt, posted = self.runner.propose(attempt)
            self.did.append(f"proposed: {posted.place}")
        else:
            return self._follow_verdict(attempt)
        return ""

    def _follow_verdict(self, attempt: Attempt) -> str:
        verdict, decision = self.runner.verdict(attempt)
        if verdict.state in (ProposalState.REJECTED, ProposalState.STALE):
            self.attempt, _report = self.runner.rollback(attempt, f"{verdict.state}: {verdict.reason}")
            self.did.append("rolled back")
            return ""
        if verdict.state is ProposalState.OPEN and not decision.allowed:
            return f"waiting for approval: {verdict.reason}; {decision.reason}"
        self.attempt, merged = self.runner.merge(attempt)
        self.did.append(f"merged by {merged.how}")
        self._measure(self.attempt)
        return ""

    def _measure(self, attempt: Attempt) -> None:
        outcome = self.runner.measure(attempt, self.runner.hot(self.table, self.analysis))
        if outcome is not None:
            self.delivered = outcome.delivered_pct
            self.did.append(
                f"measured {outcome.delivered_pct:.1f} % less to scan, estimated {outcome.promised_pct:.1f} %"
            )

    def _record_failure(self, error: Exception) -> str:
        reason = error.message if isinstance(error, NeveError) else f"{type(error).__name__}: {_first_line(error)}"
        found = self.runner.open_attempt(self.table)
        if found is None:
            return reason
        self.attempt = self.runner.fail(found, reason)
        try:
            self.attempt, _report = self.runner.rollback(self.attempt, reason)
            self.did.append("rolled back")
        except Exception as second:
            return f"{reason}; the rollback failed: {_first_line(second)}"
        return reason


def find_recent_rollback(attempts: Sequence[Attempt], after: Layout, now: datetime, days: float) -> str:
    """Return why a layout is not tried again yet, if an attempt with it was rolled back recently."""
    for one in attempts:
        last = one.steps[-1]
        if one.after == after and last.stage is Stage.ROLLED_BACK and now - last.at < timedelta(days=days):
            return (
                f"the same change was tried as {one.id} and rolled back ({last.reason}); "
                f"it is retried after {days:g} days"
            )
    return ""


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [""])[0]
