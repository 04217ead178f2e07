"""Quantiles of a value over all records, with Woodruff's intervals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from neve.reservoir.estimate.intervals import normal_width
from neve.reservoir.estimate.result import Column
from neve.reservoir.estimate.spread import spread

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from neve.reservoir.estimate.domains import Domains
    from neve.reservoir.estimate.sample import Sample

    Numbers = npt.NDArray[np.float64]

ENOUGH = 5  # items on the thinner side of the quantile
ROUNDING = 1e-12


def quantile_name(quantile: float) -> str:
    """How a quantile is called.

    >>> quantile_name(0.5), quantile_name(0.999), quantile_name(0.07)
    ('p50', 'p99.9', 'p7')
    """
    return f"p{round(quantile * 100, 10):g}"


@dataclass(frozen=True)
class Ranked:
    """Values in order within each domain, with how much of the domain's weight is up to each."""

    values: Numbers
    keys: Numbers
    first: npt.NDArray[np.int64]
    last: npt.NDArray[np.int64]

    @classmethod
    def of(cls, values: Numbers, weights: Numbers, codes: npt.NDArray[np.int64], number: int) -> Ranked:
        """Put values in order; those that are NaN are left out."""
        there = np.flatnonzero(~np.isnan(values))
        order = there[np.lexsort((values[there], codes[there]))]
        code, running = codes[order], np.cumsum(weights[order])
        counts = np.bincount(code, minlength=number)
        last = np.cumsum(counts) - 1
        before = np.concatenate(([0.0], running))[last + 1 - counts]
        whole = np.concatenate((running, [0.0]))[last] - before
        up_to = (running - before[code]) / whole[code]
        return cls(values[order], code + np.minimum(up_to, 1.0), last + 1 - counts, last)

    def at(self, parts: Numbers) -> Numbers:
        """The least value of each domain up to which so large a part of it lies; NaN where it has no values."""
        if not len(self.values):
            return np.full(len(parts), np.nan)
        place = np.searchsorted(self.keys, np.arange(len(parts)) + parts - ROUNDING * (1 + np.arange(len(parts))))
        place = np.clip(place, self.first, np.maximum(self.last, 0))
        return np.where(self.last >= self.first, self.values[np.minimum(place, len(self.values) - 1)], np.nan)


def quantiles(
    sample: Sample, values: Numbers, domains: Domains, wanted: Sequence[float], level: float
) -> dict[str, Column]:
    """Quantiles of each domain, by their names.

    The part F of the records up to a value is a mean of zeros and ones, with the error of one; the interval is made of
    the values at which F is the quantile ± that error (Woodruff). It needs no density and keeps the lean of the values.
    """
    ranked = Ranked.of(values, sample.adjusted, domains.codes, domains.number)
    there = ~np.isnan(values)
    whole = domains.sums(sample.adjusted * there)
    shares = np.where(there, sample.adjusted, 0.0) / np.where(whole > 0, whole, 1.0)[domains.codes]
    width = normal_width(level)
    items, loose = domains.sums(there), domains.sums(there & (sample.doubt > 0))
    found = {}
    for quantile in wanted:
        estimate = ranked.at(np.full(domains.number, quantile))
        below = np.less_equal(values, estimate[domains.codes], where=there, out=np.zeros(len(values), dtype=np.bool_))
        variance = spread(sample, shares * (below - quantile), domains).variance
        few = items * min(quantile, 1 - quantile) < ENOUGH
        # With hardly an item beyond the quantile the items look alike, and the variance that they show is far too
        # small (p99 of 30 items: covers 3 %); that of a part of this size takes its place.
        expected = quantile * (1 - quantile) * domains.sums(sample.doubt * shares**2)
        error = np.sqrt(np.where(few, np.maximum(variance, expected), variance))
        low, high = _limits(ranked, quantile, error * width)
        notes = tuple(
            _note(int(count), quantile_name(quantile), few=bool(scarce and open_))
            for count, open_, scarce in zip(items, loose, few, strict=True)
        )
        # The error in the unit of the value, as far as an interval that is not symmetric has one.
        in_unit = np.where(np.isfinite(high - low), (high - low) / (2 * width), np.nan)
        found[quantile_name(quantile)] = Column(estimate, low, high, in_unit, items, notes)
    return found


def _limits(ranked: Ranked, quantile: float, reach: Numbers) -> tuple[Numbers, Numbers]:
    """The values at both ends; a side on which the items end before the interval does has no limit."""
    below, above = quantile - reach, quantile + reach
    low = np.where(below > 0, ranked.at(np.maximum(below, 0.0)), -np.inf)
    return low, np.where(above < 1, ranked.at(np.minimum(above, 1.0)), np.inf)


def _note(items: int, name: str, *, few: bool) -> str:
    if not items:
        return "no kept item has a value"
    return f"{items:,} item{' is' if items == 1 else 's are'} few for {name}" if few else ""
