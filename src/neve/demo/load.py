"""The load: when visitors come. A gentle curve over the run, noise from minute to minute, chance within it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from neve.demo.interval import MINUTE

if TYPE_CHECKING:
    import random

SWING = 0.22  # the busiest and the quietest minute differ from the mean by so much
NOISE = 0.06  # of one minute against the curve


def curve(share: float) -> float:
    """Return the load at a share of the run against its mean: it rises to the middle and falls again."""
    return 1.0 + SWING * math.sin(2.0 * math.pi * (share - 0.22))


def arrivals(rng: random.Random, start: int, minutes: int, per_minute: int) -> list[int]:
    """Return the instants at which visitors come, in order."""
    instants: list[int] = []
    for minute in range(minutes):
        expected = per_minute * curve((minute + 0.5) / minutes) * (1.0 + NOISE * rng.gauss(0.0, 1.0))
        count = max(1, round(rng.gauss(expected, math.sqrt(expected))))
        instants += (start + minute * MINUTE + int(rng.random() * MINUTE) for _ in range(count))
    return sorted(instants)
