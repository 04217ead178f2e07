"""HyperLogLog with 4096 registers, as maps that any engine can merge: how many series there are, to about 1.6 %."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from neve.rollup.groups import groups_of, order_by

if TYPE_CHECKING:
    import numpy.typing as npt

BITS = 12
NUMBER = 1 << BITS
REST = 64 - BITS
ALPHA = 0.7213 / (1 + 1.079 / NUMBER)


@dataclass(frozen=True)
class Registers:
    """Registers that lie flat: whose each is, its number and its value. What is not there is zero."""

    owner: npt.NDArray[np.int64]
    number: npt.NDArray[np.int64]
    value: npt.NDArray[np.int64]

    @classmethod
    def of_names(cls, names: npt.NDArray[np.uint64]) -> Registers:
        """Those of one series for each owner, by the first word of its name."""
        rest = (names & np.uint64((1 << REST) - 1)).astype(np.float64)  # exact: it has no more than 52 bits
        length = np.frexp(rest)[1]
        number = (names >> np.uint64(REST)).astype(np.int64)
        return cls(np.arange(len(names)), number, (REST + 1 - length).astype(np.int64))

    def chosen(self, owners: npt.NDArray[np.int64], of: int) -> Registers:
        """Those of some of the owners, each at most once, numbered anew in the given order."""
        place = np.full(of, -1, dtype=np.int64)
        place[owners] = np.arange(len(owners))
        mine = place[self.owner] >= 0
        return Registers(place[self.owner[mine]], self.number[mine], self.value[mine])

    def merged(self, group: npt.NDArray[np.int64]) -> Registers:
        """The largest value of each register, for each group of owners."""
        of_group = group[self.owner]
        order = order_by((of_group, self.number))
        of_group, number = of_group[order], self.number[order]
        same = groups_of((of_group, number))
        return Registers(of_group[same.starts], number[same.starts], same.reduce(np.maximum, self.value[order]))

    def estimates(self, owners: int) -> npt.NDArray[np.int64]:
        """How many series each owner has, about."""
        there = np.bincount(self.owner, minlength=owners)
        harmonic = np.bincount(self.owner, np.exp2(-self.value.astype(np.float64)), owners) + (NUMBER - there)
        estimate = ALPHA * NUMBER * NUMBER / harmonic
        zeros = NUMBER - there
        few = (estimate <= 2.5 * NUMBER) & (zeros > 0)
        counted = NUMBER * np.log(NUMBER / np.maximum(zeros, 1))
        return np.rint(np.where(few, counted, estimate)).astype(np.int64)
