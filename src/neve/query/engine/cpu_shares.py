"""Share the processor among organizations that query at the same time.

Each statement of an organization that has used more CPU time lately than another runs at a lower priority. With one
active organization, or where all use the same, nothing changes. Old usage is forgotten by half every few seconds.
"""

from __future__ import annotations

import math
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

HALF_LIFE_SECONDS = 10.0
LEAST_SECONDS = 0.5  # of CPU; lower usage counts as this much: the first statement after a pause changes no priority
ACTIVE_SECONDS = 0.01  # of CPU; an organization with less remaining usage is not active any more
STEP, MOST_NICENESS = 5, 15  # twice the usage is five steps of niceness, a third of the CPU under contention


class CpuShares:
    """CPU time of queries by organization. Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._used: dict[str, tuple[float, float]] = {}  # CPU seconds, and the time at which they were counted
        self._lock = threading.Lock()

    def charge(self, organization: str, cpu_seconds: float) -> None:
        """Add the CPU time of a statement."""
        with self._lock:
            now = self._clock()
            self._used[organization] = (self._decay_use(organization, now) + cpu_seconds, now)
            for other in [one for one in self._used if self._decay_use(one, now) < ACTIVE_SECONDS]:
                del self._used[other]

    def niceness(self, organization: str) -> int:
        """Return the niceness of the next statement: 0 unless another active organization has used less."""
        with self._lock:
            now = self._clock()
            own = self._decay_use(organization, now)
            others = [left for one in self._used if one != organization and (left := self._decay_use(one, now))]
        if not others:
            return 0
        ratio = max(own, LEAST_SECONDS) / max(min(others), LEAST_SECONDS)
        return max(0, min(MOST_NICENESS, round(STEP * math.log2(ratio))))

    def _decay_use(self, organization: str, now: float) -> float:
        used, at = self._used.get(organization, (0.0, now))
        left = used * 0.5 ** ((now - at) / HALF_LIFE_SECONDS)
        return left if left >= ACTIVE_SECONDS else 0.0
