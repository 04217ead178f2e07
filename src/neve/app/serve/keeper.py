"""One part, kept running: started in a thread, started again after a failure, drained at the end."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import structlog

from neve.app.serve.backoff import Backoff
from neve.app.serve.lifecycle import enter
from neve.app.serve.part import PartState
from neve.app.serve.sight import ailment
from neve.app.serve.words import words_of
from neve.errors import ConfigError, NeveError, TableMissing
from neve.lake.calendar import now_utc
from neve.work.board import PartStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from neve.app.serve.config import ServeConfig
    from neve.app.serve.part import Part

# What another attempt does not mend: someone has to do something, which may take a while.
HOPELESS = (ConfigError, TableMissing)

log = structlog.get_logger("neve.serve")


class Keeper:
    """Keeps a part running until it is drained; `changed` is called whenever its state is another one."""

    def __init__(self, part: Part, config: ServeConfig, changed: Callable[[], None]) -> None:
        self.status = PartStatus(name=part.name, state=PartState.CREATED, since=now_utc())
        self._part = part
        self._stop = threading.Event()
        self._changed = changed
        self._changing = threading.Lock()
        self._backoff = Backoff(config.restart_first_seconds, config.restart_most_seconds)
        self._running_since: float | None = None
        # A daemon, so that a part that does not end can't keep the process from ending.
        self._thread = threading.Thread(target=self._keep, name=f"part {part.name}", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def drain(self) -> None:
        """Tell the part to stop; told again, nothing changes."""
        if self._stop.is_set():
            return
        self._stop.set()
        with self._changing:
            if PartState(self.status.state).is_active:
                self._enter(PartState.DRAINING)

    def has_ended(self, within_seconds: float = 0.0) -> bool:
        """Whether it ends within some time."""
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
                self._backoff = self._backoff.failed(self._ran_seconds())
                told_to_stop = self._stop.is_set()
                self._fail(error)
                if told_to_stop:
                    return  # it did not end well, and that stays to be seen
                self._stop.wait(self._pause(error))
        self._end()

    def _end(self) -> None:
        """It ended well; who was told to stop just before it was started has not been seen to drain."""
        with self._changing:
            if PartState(self.status.state).is_active:
                self._enter(PartState.DRAINING)
            self._enter(PartState.STOPPED)

    def _run(self) -> Exception | None:
        """Run the part once; why it failed, none where it ended because it was told to."""
        try:
            self._part.run(self._stop, self._say)
        except Exception as error:
            # Whatever it is, of the engine, the storage or the network: the other parts go on, and so will this one.
            return error
        return None if self._stop.is_set() else NeveError(f"the part {self.status.name} ended by itself")

    def _ran_seconds(self) -> float:
        """How long it has run since it was ready: to take long to get there is no sign of health."""
        return 0.0 if self._running_since is None else time.monotonic() - self._running_since

    def _say(self, details: Mapping[str, object]) -> None:
        with self._changing:
            before = ailment(self.status.state, self.status.details)
            self.status = replace(self.status, details=dict(details))
            if self.status.state == PartState.STARTED:
                self._running_since = time.monotonic()
                self._enter(PartState.RUNNING)
            elif ailment(self.status.state, self.status.details) != before:
                self._changed()

    def _fail(self, error: Exception) -> None:
        with self._changing:
            self.status = replace(self.status, error=words_of(error))
            self._enter(PartState.FAILED)
        log.error(
            "part failed",
            part=self.status.name,
            error=words_of(error),
            hint=error.hint if isinstance(error, NeveError) else None,
            pause_seconds=self._pause(error),
            exc_info=None if isinstance(error, NeveError) else error,
        )

    def _pause(self, error: Exception) -> float:
        return self._backoff.most_seconds if isinstance(error, HOPELESS) else self._backoff.seconds

    def _enter(self, following: PartState) -> None:
        """To another state; only with the lock held."""
        before = PartState(self.status.state)
        restarts = self.status.restarts + (before is PartState.FAILED and following is PartState.STARTED)
        self.status = replace(self.status, state=enter(before, following), since=now_utc(), restarts=restarts)
        self._changed()
