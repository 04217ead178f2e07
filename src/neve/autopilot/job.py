"""The nightly run: one table after the other, from the logs to a merge; what fails is taken back and written down."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING

from neve.autopilot.journal import Stage
from neve.autopilot.pilot import OPEN, Pilot
from neve.autopilot.propose.port import ForgeError
from neve.autopilot.propose.state import State
from neve.autopilot.report import RunReport, TableReport
from neve.errors import Cancelled, CommitConflict, CommitUnknown, LeaseLost, LeaseTaken, NeveError
from neve.lake.leases import work_under

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from datetime import datetime

    from neve.autopilot.analyzer import Analysis
    from neve.autopilot.journal import Attempt
    from neve.autopilot.layout import Layout
    from neve.lake.documents import Documents

LEASE = "autopilot"


class TimeIsUp(NeveError):
    """Raised when a run has had its time; what it began is gone on with by the next."""


# What may be better next time, and leaves the attempt as it is.
LATER = (TimeIsUp, LeaseTaken, LeaseLost, CommitConflict, CommitUnknown, ForgeError)


@dataclass
class Nightly:
    """A run over all tables that are looked after."""

    pilot: Pilot
    documents: Documents
    steal: bool = False
    told: Callable[[TableReport], None] = lambda _report: None
    monotonic: Callable[[], float] = time.monotonic
    _end: float = field(default=0.0, init=False)

    def run(self, tables: Iterable[str] = ()) -> RunReport:
        """Do what can be done tonight; raises `Cancelled` where nobody wants it any more, and the next run goes on."""
        config, started = self.pilot.config, self.monotonic()
        self._end = started + config.time_limit_seconds
        pilot = replace(self.pilot, progress=self._guarded)
        with work_under(
            self.documents, LEASE, seconds=config.lease_seconds, what="a nightly run", steal=self.steal
        ) as lease:
            pilot.forget()
            names = pilot.survey.tables(tables)
            analysis = pilot.survey.analyze()
            done: list[TableReport] = []
            for name in names:
                if self.monotonic() >= self._end:
                    break
                lease.check()
                done.append(_Turn(pilot, analysis, name).report())
                self.told(done[-1])
        return RunReport(
            analysis.counted,
            sum(one.queries for one in analysis.unparsed),
            tuple(done),
            tuple(names[len(done) :]),
            self.monotonic() - started,
        )

    def _guarded(self, step: str, done: int, total: int) -> None:
        self.pilot.progress(step, done, total)
        if done < total and self.monotonic() >= self._end:
            raise TimeIsUp(
                f"the run has had its {self.pilot.config.time_limit_seconds:g} s, at {done} of {total} of {step}",
                hint="the next run goes on; autopilot.time_limit_seconds gives more time",
            )


@dataclass
class _Turn:
    """One table's turn."""

    pilot: Pilot
    analysis: Analysis
    table: str
    did: list[str] = field(default_factory=list)
    attempt: Attempt | None = None
    delivered: float | None = None

    def report(self) -> TableReport:
        """Do what can be done, and tell; one table's failure is no other's."""
        failed = False
        try:
            reason = self._go()
        except Cancelled:  # it is the whole run that is given up; the attempt stays in its stage
            raise
        except LATER as error:
            reason = f"it waits for the next run: {error.message}"
        except Exception as error:
            # Whatever it is, of an engine, a storage or the network: main is as it was, and other tables go on.
            reason, failed = self._failed(error), True
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

    def _go(self) -> str:
        self._tidy()
        self.attempt = self.pilot.open_attempt(self.table)
        if self.attempt is None:
            reason = self._begin()
            if reason:
                return reason
        while self.attempt is not None and self.attempt.stage in OPEN:
            reason = self._step(self.attempt)
            if reason:
                return reason
        return self.attempt.steps[-1].reason if self.attempt else ""

    def _tidy(self) -> None:
        """What earlier runs left: a merge that was not measured, a failure that was not taken back."""
        measured = {one.attempt_id for one in self.pilot.history.outcomes(self.table)}
        settling = timedelta(days=self.pilot.config.recommend.settle_days)
        for one in self.pilot.history.attempts(self.table):
            last = one.steps[-1]
            if one.stage is Stage.FAILED:
                self.pilot.rollback(one, last.reason)
                self.did.append(f"took {one.id} back")
            elif (
                one.stage is Stage.MERGED and one.id not in measured and self.pilot.survey.clock() - last.at < settling
            ):
                self._measure(one)

    def _begin(self) -> str:
        """Begin an attempt; why not, where there is nothing to do."""
        promises = self.pilot.survey.advise(self.table, self.analysis)
        if not promises.kept:
            return promises.advice.reason
        best = promises.kept[0]
        now, settle = self.pilot.survey.clock(), self.pilot.config.recommend.settle_days
        past = tried_lately(self.pilot.history.attempts(self.table), best.recommendation.after, now, settle)
        past = past or self.pilot.rejected_before(best, promises.advice)
        if past:
            return past
        self.attempt = self.pilot.begin(best, promises.advice)
        self.did.append(f"recommended: {best.recommendation.delta}")
        return ""

    def _step(self, attempt: Attempt) -> str:
        """Take an attempt to its next stage; why it has to wait, where it has."""
        if attempt.stage is Stage.RECOMMENDED:
            self.attempt, staged = self.pilot.stage(attempt, self.analysis)
            self.did.append(f"staged {staged.files_before} files as {staged.files_after} on {staged.branch}")
        elif attempt.stage is Stage.STAGED:
            self.attempt, trial = self.pilot.canary(attempt, self.pilot.hot(self.table, self.analysis))
            self.did.append(f"canary {'passed' if trial.canary.passed else 'failed'}")
        elif attempt.stage is Stage.CANARY:
            self.attempt, posted = self.pilot.propose(attempt)
            self.did.append(f"proposed: {posted.place}")
        else:
            return self._decided(attempt)
        return ""

    def _decided(self, attempt: Attempt) -> str:
        verdict, decision = self.pilot.verdict(attempt)
        if verdict.state in (State.REJECTED, State.STALE):
            self.attempt, _report = self.pilot.rollback(attempt, f"{verdict.state}: {verdict.reason}")
            self.did.append("rolled back")
            return ""
        if verdict.state is State.OPEN and not decision.allowed:
            return f"it waits for an approval: {verdict.reason}; {decision.reason}"
        self.attempt, merged = self.pilot.merge(attempt)
        self.did.append(f"merged by {merged.how}")
        self._measure(self.attempt)
        return ""

    def _measure(self, attempt: Attempt) -> None:
        outcome = self.pilot.measure(attempt, self.pilot.hot(self.table, self.analysis))
        if outcome is not None:
            self.delivered = outcome.delivered_pct
            self.did.append(
                f"measured {outcome.delivered_pct:.1f} % less to scan, promised were {outcome.promised_pct:.1f} %"
            )

    def _failed(self, error: Exception) -> str:
        reason = error.message if isinstance(error, NeveError) else f"{type(error).__name__}: {_line(error)}"
        found = self.pilot.open_attempt(self.table)
        if found is None:
            return reason
        self.attempt = self.pilot.fail(found, reason)
        try:
            self.attempt, _report = self.pilot.rollback(self.attempt, reason)
            self.did.append("rolled back")
        except Exception as second:
            return f"{reason}; it is not rolled back yet: {_line(second)}"
        return reason


def tried_lately(attempts: Sequence[Attempt], after: Layout, now: datetime, days: float) -> str:
    """Why a layout is not tried again so soon, where it was tried without success."""
    for one in attempts:
        last = one.steps[-1]
        if one.after == after and last.stage is Stage.ROLLED_BACK and now - last.at < timedelta(days=days):
            return f"the same was tried as {one.id} and taken back ({last.reason}); {days:g} days are waited"
    return ""


def _line(error: Exception) -> str:
    return (str(error).splitlines() or [""])[0]
