"""What waits to be sent: a bounded queue and a thread, so that whoever has something to say never waits.

What can't be sent stays and is tried again, a little later each time. When the queue is full what comes is dropped and
counted. A receiver that is away is said once in the log, and once when it is back: a line for each attempt would itself
have to be sent.
"""

from __future__ import annotations

import threading
from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Generic, TypeVar

import structlog

from neve.app.telemetry.metrics import DROPPED, FAILURES, QUEUE, SENT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from neve.app.telemetry.config import TelemetryConfig

Item = TypeVar("Item")

BATCH = 512  # most items in a message
LONGEST_PAUSE_SECONDS = 30.0

log = structlog.get_logger("neve.telemetry")


class Away(Exception):
    """Raised when a message was not taken and may be when it is sent again."""


class Refused(Exception):
    """Raised when a message is not taken, however often it is sent."""


class Outbox(Generic[Item]):
    """Items of one signal on their way out; `send` gives how many of a message's items were taken."""

    def __init__(self, signal: str, send: Callable[[Sequence[Item]], int], config: TelemetryConfig) -> None:
        self._signal, self._send = signal, send
        self._most, self._every = config.max_queue, config.interval_seconds
        self._queue: deque[Item] = deque()
        self._changed = threading.Condition()
        self._closing = False
        self._trouble = ""
        self._pause = 0.0
        QUEUE.labels(signal).set_function(lambda: len(self._queue))
        self._thread = threading.Thread(target=self._run, name=f"telemetry-{signal}", daemon=True)
        self._thread.start()

    def put(self, item: Item) -> None:
        """Leave something to be sent; never waits."""
        with self._changed:
            if self._closing or len(self._queue) >= self._most:
                DROPPED.labels(self._signal, "stopped" if self._closing else "full").inc()
                return
            self._queue.append(item)
            if len(self._queue) == BATCH and not self._trouble:
                self._changed.notify()

    def end(self) -> None:
        """Send what is there, and take nothing more."""
        with self._changed:
            self._closing = True
            self._changed.notify()

    def wait(self, seconds: float) -> None:
        """Wait for the end, for so long at most; what is left then is dropped and counted."""
        self._thread.join(seconds)
        with self._changed:
            left = len(self._queue)
            self._queue.clear()
        if left:
            DROPPED.labels(self._signal, "stopped").inc(left)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(self._is_due, timeout=self._pause or self._every)
                closing = self._closing
            self._empty()
            if closing:
                return

    def _is_due(self) -> bool:
        return self._closing or (len(self._queue) >= BATCH and not self._trouble)

    def _empty(self) -> None:
        """Send until nothing is left, or something is not taken that may be taken later."""
        while True:
            with self._changed:
                batch = list(islice(self._queue, BATCH))
            if not batch or not self._try(batch):
                return
            with self._changed:
                for _ in range(min(len(batch), len(self._queue))):
                    self._queue.popleft()

    def _try(self, batch: Sequence[Item]) -> bool:
        """Send a message; whether it is done with."""
        taken = 0
        try:
            taken = self._send(batch)
        except Away as error:
            FAILURES.labels(self._signal).inc()
            self._pause = min(max(2 * self._pause, self._every), LONGEST_PAUSE_SECONDS)
            self._say(str(error))
            return False
        except Exception as error:  # refused, or a bug: the next message may fare better
            FAILURES.labels(self._signal).inc()
            self._say(str(error) or type(error).__name__)
        else:
            self._say("")
        self._pause = 0.0
        SENT.labels(self._signal).inc(taken)
        DROPPED.labels(self._signal, "refused").inc(len(batch) - taken)
        return True

    def _say(self, trouble: str) -> None:
        """Log what has changed, and only that."""
        before, self._trouble = self._trouble, trouble
        if trouble and not before:
            log.warning("own telemetry is not taken", signal=self._signal, error=trouble)
        elif before and not trouble:
            log.info("own telemetry is taken again", signal=self._signal)
