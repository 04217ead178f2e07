"""What applies now: the policies as they are in the state store, and what is paused."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from neve.work.job import Job
    from neve.work.pauses import Pauses
    from neve.work.policies import Policies
    from neve.work.policy_store import PolicyStore

FRESH_SECONDS = 5.0


@dataclass
class Rules:
    """Looked up every few seconds, not for each question: whoever changes a policy waits for that long."""

    store: PolicyStore
    pauses: Pauses
    monotonic: Callable[[], float] = time.monotonic
    _loaded: tuple[Policies, datetime] | None = field(default=None, init=False)
    _until: float = field(default=0.0, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def policies(self) -> Policies:
        """The policies that hold."""
        return self._fresh()[0]

    def against(self, job: Job) -> str | None:
        """Why a job may not begin now; none where it may."""
        pause = self.pauses.found(job.task, job.table)
        if pause is not None:
            return f"paused by {pause.by}: {pause.reason}"
        policies, now = self._fresh()
        return policies.quiet(job.task, job.table, now)

    def _fresh(self) -> tuple[Policies, datetime]:
        """The policies, and the time at which they were looked up: quiet hours begin and end by the minute."""
        with self._lock:
            if self._loaded is None or self.monotonic() >= self._until:
                self._loaded = self.store.load(), self.store.now()
                self._until = self.monotonic() + FRESH_SECONDS
            return self._loaded
