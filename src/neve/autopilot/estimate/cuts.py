"""The literals of a column's tests, and where values lie between them.

A value's place is twice the number of literals below it, and one more where it is a literal itself. Every comparison of
a value with a literal is then one of whole numbers, whatever the type, and as exact.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from neve.autopilot.estimate.plain import Plain

Places = npt.NDArray[np.int64]
WIDEST = 2**63 - 1


class Cuts:
    """Sorted literals of one column."""

    def __init__(self, literals: Iterable[Plain]) -> None:
        self._literals: list[Any] = sorted(set(literals))
        self._numbers: npt.NDArray[Any] | None = None
        if all(isinstance(one, float) or (isinstance(one, int) and abs(one) <= WIDEST) for one in self._literals):
            is_real = any(isinstance(one, float) for one in self._literals)
            self._numbers = np.array(self._literals, dtype=np.float64 if is_real else np.int64)

    @property
    def lowest(self) -> int:
        """A place that no value lies below."""
        return 0

    @property
    def highest(self) -> int:
        """A place that no value lies above."""
        return 2 * len(self._literals)

    def place(self, value: Plain) -> int:
        """Where one value lies."""
        return bisect_left(self._literals, value) + bisect_right(self._literals, value)

    def below(self, value: Plain) -> int:
        """Where the values lie that come just before one."""
        return 2 * bisect_left(self._literals, value)

    def places(self, values: Sequence[Plain] | npt.NDArray[Any]) -> Places:
        """Where many values lie."""
        if isinstance(values, np.ndarray) and self._numbers is not None:
            left = np.searchsorted(self._numbers, values, side="left")
            return (left + np.searchsorted(self._numbers, values, side="right")).astype(np.int64)
        return np.fromiter(map(self.place, values), dtype=np.int64, count=len(values))
