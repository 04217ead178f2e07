"""What is sent: numbered records, in exports that go over gRPC and HTTP in turns."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from itertools import cycle
from typing import TYPE_CHECKING

from neve.model.signals import Signal

if TYPE_CHECKING:
    import random

SMALLEST, LARGEST = 100, 400  # records in an export
DEAF_SHARE = 0.1  # of exports whose first answer does not reach the sender, as when a network breaks


class Door(StrEnum):
    """How an export is sent."""

    GRPC = "gRPC"
    HTTP = "HTTP"
    HTTP_JSON = "HTTP with JSON"


DOORS = (Door.GRPC, Door.HTTP, Door.GRPC, Door.HTTP_JSON)


@dataclass(frozen=True)
class Export:
    """Some records of a signal, by number, and how they are sent."""

    signal: Signal
    numbers: range
    door: Door
    gzip: bool
    deaf: bool = False


def plan_exports(records: int, rng: random.Random) -> list[Export]:
    """As many records of each signal, numbered from 0, in an order that mixes signals; the same for the same seed."""
    parts = [(signal, numbers) for signal in Signal for numbers in _parts(records, rng)]
    rng.shuffle(parts)
    return [
        Export(signal, numbers, door, gzip=rng.random() < 0.5, deaf=rng.random() < DEAF_SHARE)
        for (signal, numbers), door in zip(parts, cycle(DOORS), strict=False)
    ]


def _parts(records: int, rng: random.Random) -> list[range]:
    parts, first = [], 0
    while first < records:
        after = min(records, first + rng.randint(SMALLEST, LARGEST))
        parts.append(range(first, after))
        first = after
    return parts
