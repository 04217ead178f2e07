"""Windows over samples: which samples of each series lie in the range of each step, and reductions over them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from neve.promql.budget import Budget
    from neve.promql.series import Bools, Floats, Integers, Samples

__all__ = ["Windows", "find_windows", "iterate_positions", "latest_index", "reduce_extreme", "sum_windows", "two_sum"]

_MAX_KEY = 1 << 62


@dataclass(frozen=True, slots=True)
class Windows:
    """Samples from `low` to `high` (exclusive) for each series and step. Functions that visit each charge `budget`."""

    samples: Samples
    low: Integers
    high: Integers
    budget: Budget

    @property
    def counts(self) -> Integers:
        """Return the number of samples in each window."""
        counts: Integers = self.high - self.low
        return counts


def find_windows(samples: Samples, starts: Integers, ends: Integers, budget: Budget) -> Windows:
    """Return the windows (start, end]: open on the left."""
    shift = _find_shift(starts, ends)
    if shift:  # both edges are steps of one grid
        found = latest_index(samples, np.concatenate((starts[:shift], ends))) + 1
        return Windows(samples, found[:, : len(starts)], found[:, shift:], budget)
    return Windows(samples, latest_index(samples, starts) + 1, latest_index(samples, ends) + 1, budget)


def _find_shift(starts: Integers, ends: Integers) -> int:
    """Return by how many steps the ends come after the starts, or 0 if there is no such number below theirs."""
    step = _find_step(ends)
    shift, rest = divmod(int(ends[0] - starts[0]), step) if step and len(ends) > 1 else (0, 1)
    return shift if not rest and shift < len(ends) else 0


def _find_step(edges: Integers) -> int:
    """Return the milliseconds between two edges, 1 for a single edge, or 0 if they differ or do not ascend."""
    if len(edges) < 2:
        return len(edges)
    step = int(edges[1] - edges[0])
    return step if step > 0 and (np.diff(edges) == step).all() else 0


def latest_index(samples: Samples, edges: Integers) -> Integers:
    """Return the index of each series' latest sample at or before each edge, or one less than the series' first."""
    series = len(samples.bounds) - 1
    shape = (series, len(edges))
    if not len(samples.times):
        return np.full(shape, -1, np.int64)
    if step := _find_step(edges):
        return _latest_on_grid(samples, edges, step)
    first, last = int(samples.times.min()), int(samples.times.max())
    span = last - first + 2
    if series * span >= _MAX_KEY:
        return _latest_by_series(samples, edges)
    owners = np.repeat(np.arange(series, dtype=np.int64), np.diff(samples.bounds))
    keys = owners * span + (samples.times - first)
    needles = np.arange(series, dtype=np.int64)[:, None] * span + (np.clip(edges, first - 1, last) - first)[None, :]
    found: Integers = np.searchsorted(keys, needles.ravel(), side="right").reshape(shape) - 1
    return found


def _latest_on_grid(samples: Samples, edges: Integers, step: int) -> Integers:
    """Do the same by counting the samples between two edges, if all edges have the same distance."""
    series, count = len(samples.bounds) - 1, len(edges)
    place = np.clip(-((edges[0] - samples.times) // step), 0, count)  # of the first edge that is not before the sample
    place += np.repeat(np.arange(series, dtype=np.int64) * (count + 1), np.diff(samples.bounds))
    counts = np.bincount(place, minlength=series * (count + 1)).reshape(series, count + 1)
    found: Integers = np.cumsum(counts[:, :count], axis=1)
    found += samples.bounds[:-1, None] - 1
    return found


def _latest_by_series(samples: Samples, edges: Integers) -> Integers:
    """Do the same series by series: times are too far apart for one common key."""
    found = np.empty((len(samples.bounds) - 1, len(edges)), np.int64)
    for row, (low, high) in enumerate(zip(samples.bounds[:-1], samples.bounds[1:], strict=True)):
        found[row] = low + np.searchsorted(samples.times[low:high], edges, side="right") - 1
    return found


def two_sum(left: Floats, right: Floats) -> tuple[Floats, Floats]:
    """Return sums and what was lost by rounding them (Neumaier)."""
    total = left + right
    lost = np.where(np.abs(left) >= np.abs(right), (left - total) + right, (right - total) + left)
    return total, np.where(np.isinf(total), 0.0, lost)


def sum_windows(windows: Windows, values: Floats | None = None) -> Floats:
    """Return the sums, with the precision of twice the digits.

    A window is split into blocks whose sizes are powers of two. Sums of blocks are shared by all windows.
    """
    low, counts = windows.low.ravel().copy(), windows.counts.ravel()
    block = (windows.samples.values if values is None else values).astype(np.float64)
    block_lost = np.zeros(len(block))
    totals, lost = np.zeros(len(low)), np.zeros(len(low))
    size = 1
    while len(block) and (counts >= size).any():
        chosen = np.flatnonzero(counts & size)
        at = low[chosen]
        totals[chosen], rounding = two_sum(totals[chosen], block[at])
        lost[chosen] += block_lost[at] + rounding
        low[chosen] += size
        upper, lower = block[size:], block[:-size]
        block, rounding = two_sum(lower, upper)
        block_lost = block_lost[:-size] + block_lost[size:] + rounding
        size *= 2
    result: Floats = np.where(np.isfinite(totals), totals + lost, totals).reshape(windows.low.shape)
    return result


def reduce_extreme(windows: Windows, better: Callable[[Floats, Floats], Floats]) -> Floats:
    """Return the extreme of each window, by `np.fmax` or `np.fmin`: NaN only where all values are NaN."""
    low, high, counts = windows.low.ravel(), windows.high.ravel(), windows.counts.ravel()
    block = windows.samples.values.astype(np.float64)
    result = np.full(len(low), np.nan)
    levels = np.zeros(len(counts), np.int64)
    filled = counts > 0
    levels[filled] = np.floor(np.log2(counts[filled])).astype(np.int64)
    for level in range(int(levels.max()) + 1 if filled.any() else 0):
        chosen = np.flatnonzero(filled & (levels == level))
        result[chosen] = better(block[low[chosen]], block[high[chosen] - (1 << level)])
        size = 1 << level
        block = better(block[:-size], block[size:])
    return result.reshape(windows.low.shape)


def iterate_positions(windows: Windows, wanted: Bools) -> Iterator[tuple[Integers, Integers]]:
    """Yield the windows (flat indexes) that have a first, second, third … sample, and the index of that sample."""
    chosen = np.flatnonzero(wanted)
    counts = windows.counts.ravel()[chosen]
    order = np.argsort(-counts, kind="stable")
    chosen, counts = chosen[order], counts[order]
    low = windows.low.ravel()[chosen]
    longest = int(counts[0]) if len(counts) else 0
    for position in range(longest):
        active = int(np.searchsorted(-counts, -position, side="left"))
        windows.budget.visit(active)
        yield chosen[:active], low[:active] + position
