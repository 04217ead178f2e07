"""A template: an OTLP message whose times and ids are set in place, without encoding it anew."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

TIME_BYTES, ID_BYTES = 8, 4  # OTLP has times as fixed64; of an id the first bytes are set
FAR = 1 << 60  # added to every time of a draft, so that none is negative, or zero and left out
ALL_BITS = (1 << 64) - 1

Octets: TypeAlias = NDArray[np.uint8]
Places: TypeAlias = NDArray[np.int64]


class Ink(Enum):
    """What a draft is written with: times and ids as they are, or with every bit turned."""

    PLAIN = "plain"
    TURNED = "turned"

    def time(self, nanos: int) -> int:
        """A time that counts from the moment that is set later."""
        return nanos + FAR if self is Ink.PLAIN else (nanos + FAR) ^ ALL_BITS

    def identity(self, rest: bytes) -> bytes:
        """An id of which only the rest is known now."""
        return (b"\x00" if self is Ink.PLAIN else b"\xff") * ID_BYTES + rest


Draft: TypeAlias = Callable[[Ink], bytes]


@dataclass(frozen=True)
class Template:
    """A message, and the places in it that are set."""

    data: Octets
    times: Places
    time_places: Places
    id_places: Places

    @classmethod
    def of(cls, draft: Draft) -> Template:
        """Write a message in both inks: the bytes that differ are the times and ids, and no others."""
        plain, turned = (np.frombuffer(draft(ink), np.uint8) for ink in (Ink.PLAIN, Ink.TURNED))
        if len(plain) != len(turned):
            raise ValueError(f"the drafts have {len(plain)} and {len(turned)} bytes, expected the same number")
        starts, lengths = _runs(plain != turned)
        if odd := set(lengths.tolist()) - {TIME_BYTES, ID_BYTES}:
            raise ValueError(f"the drafts differ in runs of {sorted(odd)} bytes, expected {TIME_BYTES} and {ID_BYTES}")
        time_places = starts[lengths == TIME_BYTES, None] + np.arange(TIME_BYTES)
        id_places = starts[lengths == ID_BYTES, None] + np.arange(ID_BYTES)
        times = plain[time_places].reshape(-1).view("<i8").astype(np.int64) - FAR
        return cls(plain, times, time_places, id_places)

    def message(self, start: int, prefix: int) -> bytes:
        """The message of a moment, with the ids that a number tells apart from those of all other numbers."""
        filled = self.data.copy()
        filled[self.time_places] = (self.times + start).astype("<i8").view(np.uint8).reshape(-1, TIME_BYTES)
        filled[self.id_places] = np.frombuffer(prefix.to_bytes(ID_BYTES, "big"), np.uint8)
        return filled.tobytes()


def _runs(marked: NDArray[np.bool_]) -> tuple[Places, Places]:
    """Where stretches of marks begin, and how long they are."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], marked, [False])).astype(np.int8)))
    return edges[::2], edges[1::2] - edges[::2]
