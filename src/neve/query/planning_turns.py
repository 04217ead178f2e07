"""Share the planning of statements among organizations.

Parsing a long statement takes a second of CPU, and all threads of a server share one interpreter. One statement of each
organization is planned at a time, and an organization pauses in proportion to the CPU time of its planning: it can use
a small part of a core, regardless of the number of long statements that it sends. Short statements are not slowed down.
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

FREE_SECONDS = 0.1  # of CPU; a statement that takes less to plan costs no pause
PAUSE_FACTOR = 9.0  # seconds of pause for each CPU second: a tenth of a core
LONGEST_PAUSE_SECONDS = 10.0
CHECK_SECONDS = 0.05  # between two checks of a statement that waits for another one of its organization

Pause = Callable[[float], None]


@dataclass
class _Turn:
    lock: threading.Lock = field(default_factory=threading.Lock)
    resume: float = 0.0


class PlanningTurns:
    """Turns of organizations: one statement of each is planned at a time."""

    def __init__(
        self,
        pause_factor: float = PAUSE_FACTOR,
        clock: Callable[[], float] = time.monotonic,
        sleep: Pause = time.sleep,
    ) -> None:
        self._pause_factor, self._clock, self._sleep = pause_factor, clock, sleep
        self._turns: dict[str, _Turn] = {}
        self._lock = threading.Lock()

    @contextmanager
    def take(self, organization: str, pause: Pause | None = None) -> Iterator[None]:
        """Wait until no other statement of the organization is being planned, and until its pause is over.

        `pause` waits for a number of seconds. It raises as soon as the statement is cancelled or out of time.
        """
        turn, pause = self._turn(organization), pause or self._sleep
        while not turn.lock.acquire(timeout=CHECK_SECONDS):
            pause(0.0)
        try:
            seconds = turn.resume - self._clock()
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
        if cpu_seconds <= FREE_SECONDS:
            return
        turn, now = self._turn(organization), self._clock()
        resume = max(turn.resume, now) + self._pause_factor * cpu_seconds
        turn.resume = min(resume, now + LONGEST_PAUSE_SECONDS)

    def _turn(self, organization: str) -> _Turn:
        with self._lock:
            return self._turns.setdefault(organization, _Turn())
