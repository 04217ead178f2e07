"""Places of sampled rows along a z-order curve, as compaction lays rows along it.

Each column is cut into ranges of as many rows, inside each partition, and the bits of the range numbers are woven.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Sequence

Numbers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
BITS = 6  # of a column, as in compaction
RANGES = 1 << BITS
ROUNDING = 1e-9


def curve(ranks: Sequence[Numbers], groups: Numbers, weights: Floats) -> Numbers:
    """Where rows lie, given each one's ranks in the columns (below 0: null), partition and weight."""
    return interleave([range_numbers(one, groups, weights) for one in ranks])


def interleave(numbers: Sequence[Numbers]) -> Numbers:
    """The bits of range numbers, woven: the highest of each first.

    >>> interleave([np.array([1]), np.array([2])]).tolist()
    [6]
    """
    woven = np.zeros(len(numbers[0]), dtype=np.int64)
    for bit in range(BITS):
        for position, number in enumerate(numbers):
            woven |= ((number >> bit) & 1) << (bit * len(numbers) + (len(numbers) - 1 - position))
    return woven


def range_numbers(ranks: Numbers, groups: Numbers, weights: Floats) -> Numbers:
    """How many boundaries each value has passed among those of its group; null comes before all."""
    filled = np.flatnonzero(ranks >= 0)
    result = np.zeros(len(ranks), dtype=np.int64)
    if not len(filled):
        return result
    order = filled[np.lexsort((ranks[filled], groups[filled]))]
    group, rank = groups[order], ranks[order]
    begins = np.concatenate(([True], group[1:] != group[:-1]))
    sizes = np.diff(np.append(np.flatnonzero(begins), len(order)))
    passed = _boundaries_passed(group, rank, weights[order], begins)
    # Boundaries of equal values are one: numbers that no row has are closed up, as in compaction.
    steps = np.concatenate(([1], np.where(begins[1:], 1, passed[1:] != passed[:-1]))).cumsum()
    first = np.repeat(steps[begins], sizes)
    result[order] = steps - first + np.repeat((passed[begins] > 0).astype(np.int64), sizes)
    return result


def _boundaries_passed(group: Numbers, rank: Numbers, weight: Floats, begins: npt.NDArray[np.bool_]) -> Numbers:
    """Which of the equally heavy ranges of its group each value ends in; boundaries of equal values counted each."""
    sums = weight.cumsum()
    starts = np.flatnonzero(begins)
    sizes = np.diff(np.append(starts, len(group)))
    before = np.repeat(sums[starts] - weight[starts], sizes)
    whole = np.repeat(sums[starts + sizes - 1], sizes) - before
    ends = np.flatnonzero(np.concatenate(((group[1:] != group[:-1]) | (rank[1:] != rank[:-1]), [True])))
    upto = np.repeat(sums[ends], np.diff(np.concatenate(([-1], ends)))) - before
    # A boundary that lies just at the end of a value is the next one's; what adding up loses must not move it.
    passed: Numbers = np.ceil(upto / whole * RANGES - ROUNDING).astype(np.int64) - 1
    return np.clip(passed, 0, RANGES - 1)
