"""Calls of storage, added up: how many of each kind, how long they took, how many bytes, how many failed.

A call is what this code asks for, not what goes over the wire: a file that is opened is one `get`, though reading it
may take several requests, and a large object that is written is one `put` in several parts. Spark's workers send what
they add up along with their results; what the JVM and DuckDB read by themselves is not in it.
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
    """What storage is asked for."""

    GET = "get"
    PUT = "put"
    LIST = "list"
    DELETE = "delete"
    HEAD = "head"


@dataclass
class Tally:
    """Calls of one kind."""

    calls: int = 0
    failures: int = 0
    seconds: float = 0.0
    bytes: int = 0
    by_bucket: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS) + 1))

    def add(self, other: Tally) -> None:
        """Take in others of the kind."""
        self.calls += other.calls
        self.failures += other.failures
        self.seconds += other.seconds
        self.bytes += other.bytes
        self.by_bucket = [one + more for one, more in zip(self.by_bucket, other.by_bucket, strict=True)]


Kind = tuple[Operation, str]  # with the scheme of the storage
Tallies = dict[Kind, Tally]


class StoreCalls:
    """What one process has asked of storage."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tallies: Tallies = {}

    def count(self, kind: Kind, seconds: float, size: int = 0, *, failed: bool = False) -> None:
        """Count a call."""
        with self._lock:
            tally = self._tallies.setdefault(kind, Tally())
            tally.calls += 1
            tally.failures += failed
            tally.seconds += seconds
            tally.bytes += size
            tally.by_bucket[bisect_left(BUCKETS, seconds)] += 1

    def add_bytes(self, kind: Kind, size: int) -> None:
        """Count bytes of a call that was counted when it began."""
        with self._lock:
            self._tallies.setdefault(kind, Tally()).bytes += size

    @contextmanager
    def timed(self, operation: Operation, scheme: str, size: int = 0) -> Iterator[None]:
        """Count what is done in the block as one call; that something is not there is an answer, not a failure."""
        started, failed = time.perf_counter(), False
        try:
            yield
        except Exception as error:
            failed = not isinstance(error, FileNotFoundError)
            raise
        finally:
            self.count((operation, scheme), time.perf_counter() - started, 0 if failed else size, failed=failed)

    def seen(self) -> Tallies:
        """All that was counted, as it is now."""
        with self._lock:
            return {kind: _copy(tally) for kind, tally in self._tallies.items()}

    def taken(self) -> Tallies:
        """All that was counted, which is forgotten here: whoever takes it counts it."""
        with self._lock:
            taken, self._tallies = self._tallies, {}
            return taken

    def add(self, others: Mapping[Kind, Tally]) -> None:
        """Take in what another process counted."""
        with self._lock:
            for kind, tally in others.items():
                self._tallies.setdefault(kind, Tally()).add(tally)


def _copy(tally: Tally) -> Tally:
    copied = Tally()
    copied.add(tally)
    return copied


CALLS = StoreCalls()


def packed(result: object) -> bytes:
    """A worker's result for the process that waits for it, with the calls that the worker made."""
    return pickle.dumps((result, CALLS.taken()))


def unpacked(data: bytes) -> Any:
    """The result of a worker, whose calls are counted here from now on."""
    result, calls = pickle.loads(data)  # noqa: S301 - our own
    CALLS.add(calls)
    return result
