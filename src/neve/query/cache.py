"""Results that were given before, for as long as the tables are the same.

A result is kept under the statement and the versions of all tables that it reads (which table, with which columns, at
which snapshot), so that a table that changed is another question: a stale answer can't be found.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

    from neve.query.statistics import Statistics

LARGEST_SHARE = 8  # of the whole cache; a larger result would push all others out


@dataclass(frozen=True)
class Asked:
    """What makes two questions the same."""

    organization: str
    normalised: str
    versions: tuple[tuple[str, str], ...]
    time: tuple[str, str]
    limit: int | None


@dataclass(frozen=True)
class Kept:
    """A result, and what it took to get it."""

    table: pa.Table
    statistics: Statistics
    until: float


class ResultCache:
    """Bounded by bytes and age; what was used longest ago goes first."""

    def __init__(self, most_bytes: int, seconds: float) -> None:
        self._most = most_bytes
        self._seconds = seconds
        self._kept: OrderedDict[Asked, Kept] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    @property
    def largest(self) -> int:
        """Bytes of the largest result that is kept."""
        return self._most // LARGEST_SHARE

    def get(self, asked: Asked) -> Kept | None:
        """A result that is still good."""
        with self._lock:
            kept = self._kept.get(asked)
            if kept is None:
                return None
            if kept.until < time.monotonic():
                self._drop(asked)
                return None
            self._kept.move_to_end(asked)
            return kept

    def put(self, asked: Asked, table: pa.Table, statistics: Statistics) -> None:
        """Keep a result, if it is small enough."""
        if table.nbytes > self.largest:
            return
        with self._lock:
            if asked in self._kept:
                self._drop(asked)
            self._kept[asked] = Kept(table, statistics, time.monotonic() + self._seconds)
            self._bytes += table.nbytes
            while self._bytes > self._most:
                self._drop(next(iter(self._kept)))

    def _drop(self, asked: Asked) -> None:
        self._bytes -= self._kept.pop(asked).table.nbytes
