"""Counters of storage calls by kind: calls, seconds, bytes and failures.

A call is a call of this code, not a request on the network: an opened file is one `get`, though reading it may take
several requests, and a large written object is one `put` in several parts. Spark's workers send their counters along
with their results. Reads by the JVM and by DuckDB are not counted.
"""

from __future__ import annotations

import pickle
import threading
import time
from bisect import bisect_left
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

BUCKETS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)  # seconds


class Operation(StrEnum):
    """Kind of a storage call."""

    GET = "get"
    PUT = "put"
    LIST = "list"
    DELETE = "delete"
    HEAD = "head"


@dataclass
class CallCounts:
    """Counters of one kind of call."""

    calls: int = 0
    failures: int = 0
    seconds: float = 0.0
    bytes: int = 0
    by_bucket: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS) + 1))

    def add(self, other: CallCounts) -> None:
        """Add the counters of another object of the same kind."""
        self.calls += other.calls
        self.failures += other.failures
        self.seconds += other.seconds
        self.bytes += other.bytes
        self.by_bucket = [one + more for one, more in zip(self.by_bucket, other.by_bucket, strict=True)]


CallKind = tuple[Operation, str]  # with the scheme of the storage
CountsByKind = dict[CallKind, CallCounts]


class CallCounters:
    """Counters of the storage calls of one process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tallies: CountsByKind = {}

    def count(self, kind: CallKind, seconds: float, size: int = 0, *, failed: bool = False) -> None:
        """Count a call."""
        with self._lock:
            tally = self._tallies.setdefault(kind, CallCounts())
            tally.calls += 1
            tally.failures += failed
            tally.seconds += seconds
            tally.bytes += size
            tally.by_bucket[bisect_left(BUCKETS, seconds)] += 1

    def add_bytes(self, kind: CallKind, size: int) -> None:
        """Add bytes to a call that was counted when it started."""
        with self._lock:
            self._tallies.setdefault(kind, CallCounts()).bytes += size

    @contextmanager
    def time_call(self, operation: Operation, scheme: str, size: int = 0) -> Iterator[None]:
        """Count the block as one call. A missing file is a result, not a failure."""
        started, failed = time.perf_counter(), False
        try:
            yield
        except Exception as error:
            failed = not isinstance(error, FileNotFoundError)
            raise
        finally:
            self.count((operation, scheme), time.perf_counter() - started, 0 if failed else size, failed=failed)

    def read(self) -> CountsByKind:
        """Return the current counters."""
        with self._lock:
            return {kind: _copy_counts(tally) for kind, tally in self._tallies.items()}

    def drain(self) -> CountsByKind:
        """Return the counters and reset them. The receiver adds them to its own."""
        with self._lock:
            drained, self._tallies = self._tallies, {}
            return drained

    def add(self, others: Mapping[CallKind, CallCounts]) -> None:
        """Add the counters of another process."""
        with self._lock:
            for kind, tally in others.items():
                self._tallies.setdefault(kind, CallCounts()).add(tally)


def _copy_counts(tally: CallCounts) -> CallCounts:
    copied = CallCounts()
    copied.add(tally)
    return copied


CALLS = CallCounters()


def pack_result(result: object) -> bytes:
    """Serialize a worker's result, with the counters of its calls."""
    return pickle.dumps((result, CALLS.drain()))


def unpack_result(data: bytes) -> Any:
    """Deserialize the result of a worker, and add its counters to this process."""
    result, calls = pickle.loads(data)  # noqa: S301 - our own
    CALLS.add(calls)
    return result
