"""Which feeds are still in memory: whoever fed rows is told when all of them are decided, and delivered where kept.

So a feed that can be read again (a topic of Kafka) knows until where it need not be.
"""

from __future__ import annotations

import itertools
import threading
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    Receipts = npt.NDArray[np.int64]

NOBODY = -1  # the receipt of rows that nobody asks about


class Ledger:
    """Counts the rows of each feed that are not done yet; threads may use it."""

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self._left: dict[int, tuple[int, Callable[[], None]]] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._left)

    def open(self, rows: int, done: Callable[[], None] | None) -> int:
        """The receipt of so many rows; `done` is called when all of them are settled, at once where there are none."""
        if done is None:
            return NOBODY
        if not rows:
            done()
            return NOBODY
        with self._lock:
            receipt = next(self._numbers)
            self._left[receipt] = rows, done
        return receipt

    def settle(self, receipts: Receipts) -> None:
        """Some rows are done: the receipt of each."""
        finished = []
        known, counts = np.unique(receipts[receipts != NOBODY], return_counts=True)
        with self._lock:
            for receipt, count in zip(known.tolist(), counts.tolist(), strict=True):
                left, done = self._left[receipt]
                self._left[receipt] = left - count, done
                if left == count:
                    del self._left[receipt]
                    finished.append(done)
        for done in finished:
            done()
