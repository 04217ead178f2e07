"""The timeline: the instants at which processes export their metrics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from neve.demo.interval import SECOND, Interval

PERIOD = 15 * SECOND

Ints: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Exports:
    """The exports of one process: the instant of each, and of the one before it."""

    process: Interval
    times: Ints
    previous: Ints

    def slots(self, instants: Ints) -> Ints:
        """Return for each instant the number of the export that first reports it."""
        return np.searchsorted(self.times, instants, side="left").astype(np.int64)

    def starts(self, *, cumulative: bool) -> Ints:
        """Return since when each export counts: the start of the process, or the export before."""
        return np.full_like(self.times, self.process.start) if cumulative else self.previous


@dataclass(frozen=True, slots=True)
class Timeline:
    """Exports every 15 seconds from the start of the run until all that happened has been reported."""

    start: int
    end: int

    def exports(self, process: Interval) -> Exports:
        """Return a process's exports; one that ends early flushes what it has as it stops."""
        first = (process.start - self.start) // PERIOD + 1
        stop = min(process.end, self.end + 1)
        times = np.arange(self.start + first * PERIOD, stop, PERIOD, dtype=np.int64)
        if process.end <= self.end:
            times = np.append(times, np.int64(process.end))
        previous = np.concatenate((np.array([process.start], dtype=np.int64), times[:-1]))
        return Exports(process, times, previous[: len(times)])


def plan_timeline(run: Interval, latest: int) -> Timeline:
    """Return a timeline whose last export comes after the latest thing that must be reported."""
    periods = -(-(max(run.end, latest) - run.start) // PERIOD)
    return Timeline(run.start, run.start + periods * PERIOD)
