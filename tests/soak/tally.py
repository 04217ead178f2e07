"""Whether each record that was acknowledged is there once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Iterable

Keys: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True)
class Tally:
    """Records of one signal: how many were acknowledged, and what the table has too little or too much of."""

    acknowledged: int
    lost: int
    duplicated: int  # rows beyond the first of each record
    strangers: int  # rows of records that were never acknowledged

    @property
    def good(self) -> bool:
        """Whether each record is there once, and nothing else."""
        return not (self.lost or self.duplicated or self.strangers)


def tally(acknowledged: Iterable[Keys], found: Keys) -> Tally:
    """Compare the keys of the messages that were acknowledged with those of all rows."""
    expected = np.unique(np.concatenate([np.empty(0, np.int64), *acknowledged]))
    there = np.unique(found)
    return Tally(
        acknowledged=len(expected),
        lost=len(np.setdiff1d(expected, there, assume_unique=True)),
        duplicated=len(found) - len(there),
        strangers=len(np.setdiff1d(there, expected, assume_unique=True)),
    )
