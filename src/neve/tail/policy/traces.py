"""What is known of traces when they are judged: a few numbers each, as arrays."""

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
    """Traces that are ready, one place of each array for each; in the order in which they became ready, then by id."""

    ids: npt.NDArray[np.uint8]  # n x 16, the bytes of the ids
    span_count: Integers
    bytes: Integers  # of all spans as they came, 0 where no policy asks
    duration_ms: Integers  # last end minus first start in whole milliseconds, cut
    running_latency: Bools  # n x number of `Latency` with `running`, in the order of the tree: met after some span
    facts: Bools  # n x number of facts
    ready_us: Integers  # when it became ready, in microseconds since 1970: the time that limits go by
    keys: tuple[pa.Array | Sequence[str | None], ...]  # for each key of the policies one text for each trace
    head_threshold: Unsigned  # T of `ot=th` that the sender wrote, 0 without one
    randomness: Unsigned  # R: `ot=rv`, else the low 56 bits of the id

    def __len__(self) -> int:
        return len(self.ids)

    def texts(self, key: int) -> pa.Array:
        """One text for each trace, by the key's place; a null is an empty text."""
        keys = self.keys[key]
        return (keys if isinstance(keys, pa.Array) else pa.array(keys, pa.string())).fill_null("")

    def take(self, places: Integers | slice) -> Traces:
        """Some of the traces; a slice copies no numbers."""
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
        )


def randomness_of(ids: npt.NDArray[np.uint8]) -> Unsigned:
    """R of traces without `ot=rv`: the low 56 bits of their ids."""
    low = np.ascontiguousarray(ids[:, 8:]).view(">u8").astype(np.uint64).reshape(len(ids))
    return low & np.uint64(MAX_THRESHOLD - 1)
