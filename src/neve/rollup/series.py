"""HyperLogLog estimates of the number of series, from the names of raw series (`model/series_identity.py`).

There are 4096 registers, stored as maps that any engine can merge: the estimate is within about 1.6 %.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from neve.rollup.arrays import groups_of, order_by

if TYPE_CHECKING:
    import numpy.typing as npt


BITS = 12
NUMBER = 1 << BITS
REST = 64 - BITS
ALPHA = 0.7213 / (1 + 1.079 / NUMBER)


@dataclass(frozen=True)
class HyperLogLog:
    """Registers as a flat array: the owner, number and value of each. Missing registers are zero."""

    owner: npt.NDArray[np.int64]
    number: npt.NDArray[np.int64]
    value: npt.NDArray[np.int64]

    @classmethod
    def of_names(cls, names: npt.NDArray[np.uint64]) -> HyperLogLog:
        """Return the registers of one series for each owner, by the first word of its name."""
        rest = (names & np.uint64((1 << REST) - 1)).astype(np.float64)  # exact: it has at most 52 bits
        length = np.frexp(rest)[1]
        number = (names >> np.uint64(REST)).astype(np.int64)
        return cls(np.arange(len(names)), number, (REST + 1 - length).astype(np.int64))

    def select(self, owners: npt.NDArray[np.int64], of: int) -> HyperLogLog:
        """Return the registers of some of the owners, each at most once, renumbered in the given order."""
        place = np.full(of, -1, dtype=np.int64)
        place[owners] = np.arange(len(owners))
        mine = place[self.owner] >= 0
        return HyperLogLog(place[self.owner[mine]], self.number[mine], self.value[mine])

    def merge(self, group: npt.NDArray[np.int64]) -> HyperLogLog:
        """Return the largest value of each register, for each group of owners."""
        of_group = group[self.owner]
        order = order_by((of_group, self.number))
        of_group, number = of_group[order], self.number[order]
        same = groups_of((of_group, number))
        return HyperLogLog(of_group[same.starts], number[same.starts], same.reduce(np.maximum, self.value[order]))

    def estimates(self, owners: int) -> npt.NDArray[np.int64]:
        """Return the estimated number of series of each owner."""
        there = np.bincount(self.owner, minlength=owners)
        harmonic = np.bincount(self.owner, np.exp2(-self.value.astype(np.float64)), owners) + (NUMBER - there)
        estimate = ALPHA * NUMBER * NUMBER / harmonic
        zeros = NUMBER - there
        few = (estimate <= 2.5 * NUMBER) & (zeros > 0)
        counted = NUMBER * np.log(NUMBER / np.maximum(zeros, 1))
        return np.rint(np.where(few, counted, estimate)).astype(np.int64)
