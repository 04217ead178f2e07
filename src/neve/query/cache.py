"""Cache of query results.

The key holds the statement and the version of each table that it reads (identity, schema and snapshot). A table that
changed gives another key, so a stale result can't be found.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

    from neve.query.request import Statistics

LARGEST_SHARE = 8  # of the whole cache; a larger result would evict all others


@dataclass(frozen=True)
class CacheKey:
    """Key of a cached result: equal keys identify the same query on the same data."""

    organization: str
    normalised: str
    versions: tuple[tuple[str, str], ...]
    time: tuple[str, str]
    limit: int | None


@dataclass(frozen=True)
class CachedResult:
    """A result and the statistics of its execution."""

    table: pa.Table
    statistics: Statistics
    until: float


class ResultCache:
    """Cache that is bounded by bytes and age, with eviction of the least recently used result."""

    def __init__(self, most_bytes: int, seconds: float) -> None:
        self._most = most_bytes
        self._seconds = seconds
        self._kept: OrderedDict[CacheKey, CachedResult] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    @property
    def largest(self) -> int:
        """Return the maximum size in bytes of a result that is cached."""
        return self._most // LARGEST_SHARE

    def get(self, asked: CacheKey) -> CachedResult | None:
        """Return a result that has not expired."""
        with self._lock:
            kept = self._kept.get(asked)
            if kept is None:
                return None
            if kept.until < time.monotonic():
                self._drop(asked)
                return None
            self._kept.move_to_end(asked)
            return kept

    def put(self, asked: CacheKey, table: pa.Table, statistics: Statistics) -> None:
        """Cache a result if it is small enough."""
        if table.nbytes > self.largest:
            return
        with self._lock:
            if asked in self._kept:
                self._drop(asked)
            self._kept[asked] = CachedResult(table, statistics, time.monotonic() + self._seconds)
            self._bytes += table.nbytes
            while self._bytes > self._most:
                self._drop(next(iter(self._kept)))

    def _drop(self, asked: CacheKey) -> None:
        self._bytes -= self._kept.pop(asked).table.nbytes
