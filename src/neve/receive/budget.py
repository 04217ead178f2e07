"""How many bytes of requests may be worked on at a time; what does not fit is told to come back."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from neve.receive.refusal import Refusal, Verdict

if TYPE_CHECKING:
    from types import TracebackType


class Budget:
    """Bytes that all requests share; threads may use it."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._used = 0
        self._lock = threading.Lock()

    @property
    def used(self) -> int:
        """How many bytes are held now."""
        return self._used

    def hold(self) -> Hold:
        """The share of a new request: nothing yet."""
        return Hold(self)

    def check(self, size: int) -> None:
        """Raise `Refusal` where so many bytes would not fit now; nothing is taken."""
        if self._used + size > self.limit:
            raise self._busy(size)

    def take(self, size: int) -> None:
        """Take bytes, or raise `Refusal`."""
        with self._lock:
            if self._used + size > self.limit:
                raise self._busy(size)
            self._used += size

    def give(self, size: int) -> None:
        """Give bytes back."""
        with self._lock:
            self._used -= size

    def _busy(self, size: int) -> Refusal:
        words = f"{self._used} bytes are being worked on and {size} more do not fit into {self.limit}"
        return Refusal(Verdict.BUSY, "over_budget", f"{words} (receiver.max_inflight_bytes)")


class Hold:
    """One request's share of the budget. Bytes are counted as they arrive: a claim alone takes no room from others."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._size = 0

    def grow(self, size: int) -> None:
        """Take more bytes, or raise `Refusal`."""
        self._budget.take(size)
        self._size += size

    def shrink(self, size: int) -> None:
        """Give some bytes back."""
        self._size -= size
        self._budget.give(size)

    def release(self) -> None:
        """Give everything back."""
        self.shrink(self._size)

    def __enter__(self) -> Hold:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.release()
