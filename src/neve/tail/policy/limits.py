"""Limits that are deterministic and unbiased: the documented reading of rates, bytes and shares.

All traces that reach a limit within a window of time (by when they became ready) compete for the window's budget. They
are taken in the order of their random number R, largest first, until one does not fit; T is one more than that one's R.
So R >= T says who is kept, whatever the order of arrival and however many selectors there are, and 1 / (1 - T / 2^56)
is an unbiased weight: had a kept trace drawn any other R that is not under T, the same traces would have been kept.

A trace that is larger than the whole budget never passes and takes no place. A burst means nothing for a window, which
is itself what evens bursts out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from neve.tail.policy.traces import MAX_THRESHOLD

if TYPE_CHECKING:
    from neve.tail.policy.traces import Bools, Integers, Unsigned
    from neve.tail.policy.windows import Windows

_RADIX_WINDOWS = 1 << 16  # numbers of windows that fit 16 bits are sorted by radix


@dataclass(frozen=True)
class Settled:
    """A limit's answer to the traces of a batch."""

    asked: Bools
    passed: Bools
    thresholds: Unsigned  # for each trace, asked or not, the T that its own R would have to reach
    too_large: Bools  # alone more than all that there is
    reached: Integers  # for each window: spans or bytes of those that asked and are not too large
    fitted: Integers  # and of those that passed


def settle(budget: int, asked: Bools, sizes: Integers, randomness: Unsigned, windows: Windows) -> Settled:
    """Share out a budget for each window."""
    too_large = sizes > budget
    candidates = asked & ~too_large
    reached = windows.sums(sizes, candidates)
    tight = reached + windows.largest(sizes, ~too_large) > budget
    room = _Room(candidates & tight[windows.of], sizes, randomness, windows)
    common = room.thresholds(np.arange(len(windows)), np.full(len(windows), budget))
    thresholds = common[windows.of]
    passed = candidates & (randomness >= thresholds)
    # a trace that was not taken has its own T: as if it were first in line, and the others had the room that it leaves
    others = np.flatnonzero(~passed & ~too_large & tight[windows.of])
    thresholds[others] = room.thresholds(windows.of[others], budget - sizes[others])
    thresholds[too_large] = MAX_THRESHOLD
    return Settled(asked, passed, thresholds, too_large, reached, windows.sums(sizes, passed))


class _Room:
    """The traces that compete, in order within each window, and how much they take up to each."""

    def __init__(self, competing: Bools, sizes: Integers, randomness: Unsigned, windows: Windows) -> None:
        rows = np.flatnonzero(competing)
        order = rows[np.argsort(np.uint64(MAX_THRESHOLD) - randomness[rows])]
        if len(windows) > 1:
            numbers = windows.of[order]
            small = numbers.astype(np.uint16) if len(windows) <= _RADIX_WINDOWS else numbers
            order = order[np.argsort(small, kind="stable")]
        places = np.arange(len(windows))
        self.ends = np.searchsorted(windows.of[order], places, side="right")
        self.taken = np.concatenate([[0], np.cumsum(sizes[order])])  # by all before each place
        self.before = self.taken[np.concatenate([[0], self.ends[:-1]]).astype(np.int64)]
        self.next = np.append(randomness[order] + np.uint64(1), np.uint64(0))  # T where each place is the first without

    def thresholds(self, of: Integers, room: Integers) -> Unsigned:
        """T where the traces of a window have this much room: 0 where they all fit."""
        first_without = np.searchsorted(self.taken[1:], self.before[of] + room, side="right")
        fits = first_without >= self.ends[of]
        return self.next[np.where(fits, -1, first_without)]
