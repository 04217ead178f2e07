"""Runs of messages that are decoded together: cut so that no run takes much memory, whatever its messages hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from neve.otlp import Rejected
from neve.otlp.bounds import TooMany, check_bounds, count_groups

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from neve.model.signals import Signal
    from neve.otlp.bounds import Bounds

OWN_BYTES = 32 * 1024 * 1024  # of messages that Neve made itself, of generic records and of OTAP
FOREIGN_BYTES = 4 * 1024 * 1024  # an empty record takes two bytes of these, and some hundred when it is decoded
GROUP_BYTES = 80  # that a group counts for: a run has about as many of them as one message may have


@dataclass(frozen=True)
class Chunk:
    """Neighbouring messages, and where the first of them stands; or one message that is refused undecoded."""

    start: int
    messages: pa.BinaryArray
    rejected: tuple[Rejected, ...] = ()


def cut(signal: Signal, messages: pa.BinaryArray, bounds: Bounds | None) -> Iterator[Chunk]:
    """Cut messages into runs; a single large message stays whole, and one over its bounds is refused alone.

    Messages without bounds are those of Neve's own making, whose size says what they hold.
    """
    limit = OWN_BYTES if bounds is None else FOREIGN_BYTES
    start, size = 0, 0
    for index, length in enumerate(pc.binary_length(messages).to_pylist()):
        weight = length if bounds is None else _weigh(signal, messages[index].as_py(), bounds)
        if index > start and (isinstance(weight, Rejected) or size + weight > limit):
            yield Chunk(start, messages.slice(start, index - start))
            start, size = index, 0
        if isinstance(weight, Rejected):
            yield Chunk(index, messages.slice(index, 0), (weight,))
            start = index + 1
        else:
            size += weight
    if len(messages) > start:
        yield Chunk(start, messages.slice(start))


def _weigh(signal: Signal, message: bytes, bounds: Bounds) -> int | Rejected:
    """How much of a run a message takes, or why it is not decoded."""
    try:
        groups = count_groups(signal, message, bounds)
        check_bounds(signal, message, bounds)
    except TooMany as error:
        return Rejected("overgrown_message", f"{error.message} (ingest.{error.setting})", 0, message)
    return max(len(message), groups * GROUP_BYTES)
