"""Rows that belong together: sorted so that they lie beside each other, and added up in one pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt


@dataclass(frozen=True)
class Groups:
    """Where groups begin among sorted rows."""

    starts: npt.NDArray[np.int64]
    rows: int

    @property
    def number(self) -> npt.NDArray[np.int64]:
        """The group of each row."""
        return np.repeat(np.arange(len(self.starts)), np.diff(np.append(self.starts, self.rows)))

    @property
    def lasts(self) -> npt.NDArray[np.int64]:
        """The last row of each group."""
        return np.append(self.starts[1:], self.rows) - 1

    def reduce(self, how: np.ufunc, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """One value for each group; the same rows in the same order give the same bits, wherever they lie."""
        return how.reduceat(values, self.starts) if len(self.starts) else values[:0]


def order_by(keys: Sequence[npt.NDArray[Any]]) -> npt.NDArray[np.int64]:
    """The order that sorts rows by these keys, the first first; equal rows stay as they lie."""
    return np.lexsort(tuple(reversed(keys)))


def groups_of(keys: Sequence[npt.NDArray[Any]]) -> Groups:
    """The groups of rows that are sorted by these keys."""
    rows = len(keys[0])
    if not rows:
        return Groups(np.zeros(0, dtype=np.int64), 0)
    new = np.zeros(rows, dtype=bool)
    new[0] = True
    for key in keys:
        new[1:] |= key[1:] != key[:-1]
    return Groups(np.flatnonzero(new), rows)
