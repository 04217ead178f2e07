"""OTLP messages whose times and ids are patched in place, without encoding them again, and the rate of records."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from neve.demo.spans import SECOND
from neve.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


GRAIN = 1 << 20  # nanoseconds, about a millisecond: the bits below hold the number of the record
MESSAGES_PER_SECOND = 4
SMALLEST, LARGEST = 50, 500  # records in a message


@dataclass(frozen=True)
class Pace:
    """A rate of records of each signal per second."""

    rate: float

    def __post_init__(self) -> None:
        if not self.rate > 0:
            raise ConfigError(f"the rate is {self.rate:g} records a second, expected more than 0")

    @property
    def size(self) -> int:
        """Return the records in a message: a few messages a second, none of them large."""
        return min(LARGEST, max(SMALLEST, round(self.rate / MESSAGES_PER_SECOND)))

    def at(self, number: int) -> int:
        """Return the send time of a record, in nanoseconds after the first one."""
        return int(number * SECOND / self.rate)

    def whole(self, count: int) -> int:
        """Return the duration of a number of records, as a multiple of the grain."""
        return -(-self.at(count) // GRAIN) * GRAIN


def make_unique_time(nanos: int, number: int) -> int:
    """Return a time that no other record of a lap has: the bits below the grain hold the record's number."""
    return nanos // GRAIN * GRAIN + number


TIME_BYTES, ID_BYTES = 8, 4  # OTLP times are fixed64; of an id the first bytes are patched
TIME_BIAS = 1 << 60  # added to every time of a draft, so that none is negative, or zero and omitted
ALL_BITS = (1 << 64) - 1

ByteArray: TypeAlias = NDArray[np.uint8]
IntArray: TypeAlias = NDArray[np.int64]


class DraftMode(Enum):
    """A mode of writing a draft: times and ids as they are, or with every bit inverted."""

    PLAIN = "plain"
    INVERTED = "inverted"

    def time(self, nanos: int) -> int:
        """Return a time relative to a start that is patched in later."""
        return nanos + TIME_BIAS if self is DraftMode.PLAIN else (nanos + TIME_BIAS) ^ ALL_BITS

    def identity(self, rest: bytes) -> bytes:
        """Return an id whose first bytes are patched in later."""
        return (b"\x00" if self is DraftMode.PLAIN else b"\xff") * ID_BYTES + rest


DraftEncoder: TypeAlias = Callable[[DraftMode], bytes]


@dataclass(frozen=True)
class MessageTemplate:
    """A message, and the positions in it that are patched."""

    data: ByteArray
    times: IntArray
    time_places: IntArray
    id_places: IntArray

    @classmethod
    def of(cls, draft: DraftEncoder) -> MessageTemplate:
        """Encode a message in both modes: the bytes that differ are exactly the times and ids."""
        plain, inverted = (np.frombuffer(draft(mode), np.uint8) for mode in (DraftMode.PLAIN, DraftMode.INVERTED))
        if len(plain) != len(inverted):
            raise ValueError(f"the drafts have {len(plain)} and {len(inverted)} bytes, expected the same number")
        starts, lengths = _runs(plain != inverted)
        if odd := set(lengths.tolist()) - {TIME_BYTES, ID_BYTES}:
            raise ValueError(f"the drafts differ in runs of {sorted(odd)} bytes, expected {TIME_BYTES} and {ID_BYTES}")
        time_places = starts[lengths == TIME_BYTES, None] + np.arange(TIME_BYTES)
        id_places = starts[lengths == ID_BYTES, None] + np.arange(ID_BYTES)
        times = plain[time_places].reshape(-1).view("<i8").astype(np.int64) - TIME_BIAS
        return cls(plain, times, time_places, id_places)

    def message(self, start: int, prefix: int) -> bytes:
        """Return the message at a time, with ids that are unique to the prefix."""
        filled = self.data.copy()
        filled[self.time_places] = (self.times + start).astype("<i8").view(np.uint8).reshape(-1, TIME_BYTES)
        filled[self.id_places] = np.frombuffer(prefix.to_bytes(ID_BYTES, "big"), np.uint8)
        return filled.tobytes()


def _runs(marked: NDArray[np.bool_]) -> tuple[IntArray, IntArray]:
    """Return the starts and lengths of consecutive marks."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], marked, [False])).astype(np.int8)))
    return edges[::2], edges[1::2] - edges[::2]


@dataclass(frozen=True)
class LapMessage:
    """A message that repeats in every lap; `due` and `keys` are relative to the start of the lap."""

    template: MessageTemplate
    due: int
    keys: IntArray

    @property
    def records(self) -> int:
        """Return the number of records in the message."""
        return len(self.keys)


def split_into_messages(
    keys: Sequence[int], times: Sequence[int], pace: Pace, draft: Callable[[slice], DraftEncoder]
) -> Iterator[LapMessage]:
    """Split records into messages, each due with its last record and not before the latest of its times."""
    for start in range(0, len(keys), pace.size):
        part = slice(start, min(len(keys), start + pace.size))
        due = max(pace.at(part.stop), *times[part])
        yield LapMessage(MessageTemplate.of(draft(part)), due, np.array(keys[part], np.int64))
