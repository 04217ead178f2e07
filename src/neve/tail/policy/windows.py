"""Windows of time: which traces became ready in the same one, and sums over them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from neve.tail.policy.traces import Bools, Integers

SECOND_US = 1_000_000


@dataclass(frozen=True)
class Windows:
    """The windows of a batch, numbered from 0 in order of time."""

    seconds: int
    starts: Integers  # of each window, in seconds since 1970
    of: Integers  # for each trace the number of its window

    @classmethod
    def over(cls, ready_us: Integers, seconds: int) -> Windows:
        """The windows of so many seconds in which traces became ready."""
        indices = ready_us // (seconds * SECOND_US)
        if len(indices) and not (np.diff(indices) < 0).any():  # in order of time, as they mostly come: no sort
            of = np.concatenate([[0], np.cumsum(np.diff(indices) > 0)])
            firsts = np.concatenate([[True], np.diff(of) > 0])
            return cls(seconds, indices[firsts] * seconds, of)
        distinct, of = np.unique(indices, return_inverse=True)
        return cls(seconds, distinct * seconds, of.astype(np.int64))

    def __len__(self) -> int:
        return len(self.starts)

    def sums(self, sizes: Integers, of_these: Bools) -> Integers:
        """For each window the sum over some traces."""
        result = np.zeros(len(self), dtype=np.int64)
        np.add.at(result, self.of[of_these], sizes[of_these])
        return result

    def largest(self, sizes: Integers, of_these: Bools) -> Integers:
        """For each window the largest among some traces, 0 where there is none."""
        result = np.zeros(len(self), dtype=np.int64)
        np.maximum.at(result, self.of[of_these], sizes[of_these])
        return result

    @property
    def words(self) -> str:
        """What a window is called in a sentence."""
        return "minute" if self.seconds == 60 else f"{self.seconds} seconds"
