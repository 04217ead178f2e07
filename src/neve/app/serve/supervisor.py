"""The supervisor of the parts of one process: each runs in a thread, and is restarted with backoff after a failure.

A part that fails stops no other. At the end all parts are drained.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from neve.app.serve.part import PartState, check_transition, find_problem
from neve.app.serve.status_reporter import StatusReporter, describe_error
from neve.errors import ConfigError, NeveError, TableMissing
from neve.jobs.status_board import PartStatus
from neve.lake.calendar import now_utc
from neve.logger import get_logger

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from neve.app.serve.config import ServeConfig
    from neve.app.serve.part import Part
    from neve.jobs.status_board import StatusBoard


MOST_DOUBLINGS = 30


@dataclass(frozen=True)
class Backoff:
    """Consecutive failures; a run that was healthy for longer than the longest pause resets them."""

    first_seconds: float
    most_seconds: float
    failures: int = 0

    def add_failure(self, ran_seconds: float) -> Backoff:
        """Return the backoff after one more failure of something that had been ready for so long."""
        before = 0 if ran_seconds > self.most_seconds else self.failures
        return Backoff(self.first_seconds, self.most_seconds, before + 1)

    @property
    def seconds(self) -> float:
        """The pause after these failures.

        >>> [Backoff(1.0, 30.0, failures).seconds for failures in (0, 1, 2, 5, 6, 5000)]
        [0.0, 1.0, 2.0, 16.0, 30.0, 30.0]
        """
        if not self.failures:
            return 0.0
        return min(self.most_seconds, self.first_seconds * 2.0 ** min(self.failures - 1, MOST_DOUBLINGS))


# Errors that a retry can't fix: an operator has to act, which may take a while.
PERMANENT_ERRORS = (ConfigError, TableMissing)

log = get_logger("neve.serve")


class PartRunner:
    """Runner of a part, which restarts it until it is drained; `changed` is called after each change of its state."""

    def __init__(self, part: Part, config: ServeConfig, changed: Callable[[], None]) -> None:
        self.status = PartStatus(name=part.name, state=PartState.CREATED, since=now_utc())
        self._part = part
        self._stop = threading.Event()
        self._notify = changed
        self._changing = threading.Lock()
        self._backoff = Backoff(config.restart_first_seconds, config.restart_most_seconds)
        self._running_since: float | None = None
        # A daemon thread, so that a part that does not end can't keep the process from exiting.
        self._thread = threading.Thread(target=self._keep, name=f"part {part.name}", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def drain(self) -> None:
        """Ask the part to stop; further calls have no effect."""
        if self._stop.is_set():
            return
        self._stop.set()
        with self._changing:
            if PartState(self.status.state).is_active:
                self._enter(PartState.DRAINING)

    def has_ended(self, within_seconds: float = 0.0) -> bool:
        """Return whether the part ends within the timeout."""
        if self._thread.ident is not None:
            self._thread.join(max(0.0, within_seconds))
        return not self._thread.is_alive()

    def _keep(self) -> None:
        while not self._stop.is_set():
            with self._changing:
                self._enter(PartState.STARTED)
            self._running_since = None
            error = self._run()
            if error is not None:
                self._backoff = self._backoff.add_failure(self._ran_seconds())
                told_to_stop = self._stop.is_set()
                self._fail(error)
                if told_to_stop:
                    return  # it failed, and that state stays visible
                self._stop.wait(self._pause(error))
        self._end()

    def _end(self) -> None:
        """Enter the stopped state; a part that was asked to stop just before its start skips the draining state."""
        with self._changing:
            if PartState(self.status.state).is_active:
                self._enter(PartState.DRAINING)
            self._enter(PartState.STOPPED)

    def _run(self) -> Exception | None:
        """Run the part once, and return the reason of its failure; none if it ended because it was asked to stop."""
        try:
            self._part.run(self._stop, self._say)
        except Exception as error:
            # Any error of the engine, the storage or the network: the other parts go on, and this one is restarted.
            return error
        return None if self._stop.is_set() else NeveError(f"the part {self.status.name} ended by itself")

    def _ran_seconds(self) -> float:
        """Return the seconds since the part was ready: a long start is no sign of health."""
        return 0.0 if self._running_since is None else time.monotonic() - self._running_since

    def _say(self, details: Mapping[str, object]) -> None:
        with self._changing:
            before = find_problem(self.status.state, self.status.details)
            self.status = replace(self.status, details=dict(details))
            if self.status.state == PartState.STARTED:
                self._running_since = time.monotonic()
                self._enter(PartState.RUNNING)
            elif find_problem(self.status.state, self.status.details) != before:
                self._notify()

    def _fail(self, error: Exception) -> None:
        with self._changing:
            self.status = replace(self.status, error=describe_error(error))
            self._enter(PartState.FAILED)
        log.error(
            "part failed",
            part=self.status.name,
            error=describe_error(error),
            hint=error.hint if isinstance(error, NeveError) else None,
            pause_seconds=self._pause(error),
            exc_info=None if isinstance(error, NeveError) else error,
        )

    def _pause(self, error: Exception) -> float:
        return self._backoff.most_seconds if isinstance(error, PERMANENT_ERRORS) else self._backoff.seconds

    def _enter(self, following: PartState) -> None:
        """Enter another state; the lock must be held."""
        before = PartState(self.status.state)
        restarts = self.status.restarts + (before is PartState.FAILED and following is PartState.STARTED)
        self.status = replace(
            self.status, state=check_transition(before, following), since=now_utc(), restarts=restarts
        )
        self._notify()


class Supervisor:
    """Supervisor of parts until it is stopped; reports to a status board if there is one."""

    def __init__(self, parts: Sequence[Part], config: ServeConfig, board: StatusBoard | None = None) -> None:
        self.config = config
        self._reporter = StatusReporter(board, self.statuses) if board else None
        self._runners = [PartRunner(part, config, self._notify) for part in parts]

    def start(self) -> None:
        """Start all parts, in no guaranteed order."""
        if self._reporter:
            self._reporter.start()
        for runner in self._runners:
            runner.start()

    def statuses(self) -> list[PartStatus]:
        """Return the status of each part."""
        return [runner.status for runner in self._runners]

    @property
    def is_running(self) -> bool:
        """True if every part is running."""
        return all(status.state == PartState.RUNNING for status in self.statuses())

    @property
    def is_empty(self) -> bool:
        """True if no part is working any more."""
        return all(runner.has_ended() for runner in self._runners)

    def stop(self, first: Collection[str] = (), within_seconds: float | None = None) -> bool:
        """Ask all parts to stop and wait for them; return whether all ended without a failure and in time.

        The parts named `first` end before the others are asked to stop, unless that takes half of the time. The others
        can then finish the work that those parts hand over.
        """
        began, seconds = time.monotonic(), self.config.drain_seconds if within_seconds is None else within_seconds
        early = [runner for runner in self._runners if runner.status.name in first]
        for wave, until in ((early, began + seconds / 2), (self._runners, began + seconds)):
            for runner in wave:
                runner.drain()
            left = [runner for runner in wave if not runner.has_ended(until - time.monotonic())]
        for runner in left:
            log.error("part did not end in time", part=runner.status.name, seconds=seconds)
        if self._reporter:
            self._reporter.close()
        return all(status.state == PartState.STOPPED for status in self.statuses())

    def _notify(self) -> None:
        if self._reporter:
            self._reporter.wake()
