"""Share the planning of statements among organizations.

Parsing a long statement takes a second of CPU, and all threads of a server share one interpreter. One statement of each
organization is planned at a time. An organization has an allowance of CPU time for planning, which refills at a small
part of a core. Where it is used up, the next statement waits, regardless of the number of long statements that wait.
Short statements cost nothing. The allowance lets an organization plan a few expensive ones without a wait: the first
statement after a commit reads new metadata.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

FREE_SECONDS = 0.1  # of CPU; a statement that takes less to plan costs nothing
CORE_SHARE = 0.1  # CPU seconds by which the allowance grows each second
ALLOWANCE_SECONDS = 2.0  # of CPU, at most
LONGEST_PAUSE_SECONDS = 10.0
CHECK_SECONDS = 0.05  # between two checks of a statement that waits for another one of its organization

Pause = Callable[[float], None]


@dataclass
class _Turn:
    full: float  # time at which the allowance is full again; later than that, it stays full
    lock: threading.Lock = field(default_factory=threading.Lock)


class PlanningTurns:
    """Turns of organizations: one statement of each is planned at a time."""

    def __init__(
        self,
        core_share: float | None = CORE_SHARE,
        clock: Callable[[], float] = time.monotonic,
        sleep: Pause = time.sleep,
    ) -> None:
        self._core_share, self._clock, self._sleep = core_share, clock, sleep
        self._turns: dict[str, _Turn] = {}
        self._lock = threading.Lock()

    @contextmanager
    def take(self, organization: str, pause: Pause | None = None) -> Iterator[None]:
        """Wait until no other statement of the organization is being planned, and until it has an allowance.

        `pause` waits for a number of seconds. It raises as soon as the statement is cancelled or out of time.
        """
        turn, pause = self._turn(organization), pause or self._sleep
        while not turn.lock.acquire(timeout=CHECK_SECONDS):
            pause(0.0)
        try:
            seconds = self._pause_seconds(turn)
            if seconds > 0:
                pause(seconds)
            yield
        finally:
            turn.lock.release()

    @contextmanager
    def measure(self, organization: str) -> Iterator[None]:
        """Charge the CPU time that this thread uses in the block."""
        began = time.thread_time()
        try:
            yield
        finally:
            self.charge(organization, time.thread_time() - began)

    def charge(self, organization: str, cpu_seconds: float) -> None:
        """Charge CPU time of planning to the organization."""
        if cpu_seconds <= FREE_SECONDS or self._core_share is None:
            return
        turn, now = self._turn(organization), self._clock()
        full = max(turn.full, now) + cpu_seconds / self._core_share
        turn.full = min(full, now + ALLOWANCE_SECONDS / self._core_share + LONGEST_PAUSE_SECONDS)

    def _pause_seconds(self, turn: _Turn) -> float:
        """Return the time until some of the allowance is left: until it is full, less the time to fill it."""
        if self._core_share is None:
            return 0.0
        return turn.full - self._clock() - ALLOWANCE_SECONDS / self._core_share

    def _turn(self, organization: str) -> _Turn:
        with self._lock:
            return self._turns.setdefault(organization, _Turn(full=self._clock()))
