"""Traces to be judged, as arrays of a few numbers each, and the time windows in which they became ready."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Sequence


Bools = npt.NDArray[np.bool_]
Integers = npt.NDArray[np.int64]
Unsigned = npt.NDArray[np.uint64]
Doubles = npt.NDArray[np.float64]

MAX_THRESHOLD = 1 << 56  # of OpenTelemetry's consistent probability sampling


@dataclass(frozen=True)
class Traces:
    """Ready traces as arrays with one place for each trace, ordered by the time when they became ready, then by id."""

    ids: npt.NDArray[np.uint8]  # n x 16, the bytes of the ids
    span_count: Integers
    bytes: Integers  # of all spans as received, 0 if no policy needs it
    duration_ms: Integers  # last end minus first start in whole milliseconds, truncated
    running_latency: Bools  # n x number of `Latency` with `running`, in the order of the tree: true after some span
    facts: Bools  # n x number of facts
    ready_us: Integers  # time at which it became ready, in microseconds since 1970, for limits
    keys: tuple[pa.Array | Sequence[str | None], ...]  # for each key of the policies, one text for each trace
    head_threshold: Unsigned  # T of the sender's `ot=th`, 0 if absent
    randomness: Unsigned  # R: `ot=rv`, otherwise the low 56 bits of the id
    unordered: Bools | None = None  # true if a policy depends on an order of spans that is not known

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def everywhere(self) -> Bools:
        """True for each trace."""
        return np.ones(len(self), dtype=np.bool_)

    def sizes(self, unit: str) -> Integers:
        """Return the size of each trace in the unit of a limit, spans or bytes."""
        return self.bytes if unit == "bytes" else self.span_count

    def texts(self, key: int) -> pa.Array:
        """Return one text for each trace by the place of the key, with nulls as empty texts."""
        keys = self.keys[key]
        return (keys if isinstance(keys, pa.Array) else pa.array(keys, pa.string())).fill_null("")

    def take(self, places: Integers | slice) -> Traces:
        """Return some of the traces, where a slice copies no numbers."""
        indices = np.arange(len(self), dtype=np.int64)[places]
        return Traces(
            ids=self.ids[places],
            span_count=self.span_count[places],
            bytes=self.bytes[places],
            duration_ms=self.duration_ms[places],
            running_latency=self.running_latency[places],
            facts=self.facts[places],
            ready_us=self.ready_us[places],
            keys=tuple(self.texts(place).take(pa.array(indices)) for place in range(len(self.keys))),
            head_threshold=self.head_threshold[places],
            randomness=self.randomness[places],
            unordered=None if self.unordered is None else self.unordered[places],
        )


def derive_randomness(ids: npt.NDArray[np.uint8]) -> Unsigned:
    """Return R of traces without `ot=rv`: the low 56 bits of their ids."""
    low = np.ascontiguousarray(ids[:, 8:]).view(">u8").astype(np.uint64).reshape(len(ids))
    return low & np.uint64(MAX_THRESHOLD - 1)


SECOND_US = 1_000_000


@dataclass(frozen=True)
class Windows:
    """Time windows of a batch, numbered from 0 in order of time."""

    seconds: int
    starts: Integers  # of each window, in seconds since 1970
    of: Integers  # for each trace, the number of its window

    @classmethod
    def over(cls, ready_us: Integers, seconds: int) -> Windows:
        """Return the windows of a length in seconds in which traces became ready."""
        indices = ready_us // (seconds * SECOND_US)
        if len(indices) and not (np.diff(indices) < 0).any():  # usually already in order of time: no sort
            of = np.concatenate([[0], np.cumsum(np.diff(indices) > 0)])
            firsts = np.concatenate([[True], np.diff(of) > 0])
            return cls(seconds, indices[firsts] * seconds, of)
        distinct, of = np.unique(indices, return_inverse=True)
        return cls(seconds, distinct * seconds, of.astype(np.int64))

    def __len__(self) -> int:
        return len(self.starts)

    def sums(self, sizes: Integers, of_these: Bools) -> Integers:
        """Return the sum over some traces for each window."""
        result = np.zeros(len(self), dtype=np.int64)
        np.add.at(result, self.of[of_these], sizes[of_these])
        return result

    def largest(self, sizes: Integers, of_these: Bools) -> Integers:
        """Return the maximum over some traces for each window, or 0 without any."""
        result = np.zeros(len(self), dtype=np.int64)
        np.maximum.at(result, self.of[of_these], sizes[of_these])
        return result

    @property
    def words(self) -> str:
        """Name of a window in a sentence."""
        return "minute" if self.seconds == 60 else f"{self.seconds} seconds"
