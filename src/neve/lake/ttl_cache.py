"""Cache of one value that is expensive to compute, with a time to live of a few seconds."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

Value = TypeVar("Value")


class TtlCache(Generic[Value]):
    """Cache of one value. Of several concurrent callers, one computes an expired value and the others wait for it."""

    def __init__(
        self, make: Callable[[], Value], seconds: float, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._make = make
        self._seconds = seconds
        self._monotonic = monotonic
        self._making = threading.Lock()
        self._made: tuple[float, Value] | None = None

    def get(self) -> Value:
        """Return the value. Errors of the computation are raised, and not cached."""
        with self._making:
            now = self._monotonic()
            if self._made is None or now - self._made[0] >= self._seconds:
                self._made = (now, self._make())
            return self._made[1]
