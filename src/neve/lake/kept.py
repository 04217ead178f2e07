"""A value that is dear to make, kept for a few seconds."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

Value = TypeVar("Value")


class Kept(Generic[Value]):
    """Made when it is asked for and too old; of many who ask at once, one makes it and the others wait for it."""

    def __init__(
        self, make: Callable[[], Value], seconds: float, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._make = make
        self._seconds = seconds
        self._monotonic = monotonic
        self._making = threading.Lock()
        self._made: tuple[float, Value] | None = None

    def get(self) -> Value:
        """The value; what making it raises is raised, and not kept."""
        with self._making:
            now = self._monotonic()
            if self._made is None or now - self._made[0] >= self._seconds:
                self._made = (now, self._make())
            return self._made[1]
