"""How far an estimate may be off: its variance and its lean, from the kept items alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from neve.reservoir.estimate.domains import sums_by

if TYPE_CHECKING:
    import numpy.typing as npt

    from neve.reservoir.estimate.domains import Domains
    from neve.reservoir.estimate.sample import Sample

    Numbers = npt.NDArray[np.float64]

ROUNDING = 1e-12


@dataclass(frozen=True)
class Spread:
    """For each domain: the variance of an estimate, its third central moment, and its covariance with its variance.

    `bias` is by how much the estimate is too large on average: 0 but for ratios.
    """

    variance: Numbers
    third: Numbers
    with_variance: Numbers
    bias: Numbers | float = 0.0

    def __add__(self, other: Spread) -> Spread:
        return Spread(
            self.variance + other.variance, self.third + other.third, self.with_variance + other.with_variance
        )

    def as_ratio(self, with_count: Numbers) -> Spread:
        """The same where the estimate was divided by one of the count; `with_count`: its covariance with that.

        A ratio is its linear part L times 1 - M, with M the relative error of the count; and its variance, estimated by
        the same count and around the same ratio, goes with 1 - 2M - 2L cov(L, M) / variance.
        """
        bend = self.variance * with_count
        return Spread(self.variance, self.third - 6 * bend, self.with_variance - 4 * bend, -with_count)


def spread(sample: Sample, shares: Numbers, domains: Domains) -> Spread:
    """The spread of the sum of `shares`, which is what each kept item adds to the estimate of its domain.

    With p = w / tau the chance of a light item, an item adds (1 - p) * share² to the variance, which for the share
    a = tau is tau * (tau - w). Items of priority sampling have no covariance (Duffield, Lund, Thorup), so that theirs
    just add up, over windows too; items that are heavier than the threshold have p = 1 and add nothing.
    """
    free = ~sample.exact
    return _independent(sample.doubt * free, shares, domains) + _fixed_size(sample, shares, domains)


def _independent(doubt: Numbers, shares: Numbers, domains: Domains) -> Spread:
    square, cube = shares**2, shares**3
    return Spread(
        domains.sums(doubt * square),
        domains.sums(doubt * (2 * doubt - 1) * cube),
        domains.sums(doubt**2 * cube),
    )


def _fixed_size(sample: Sample, shares: Numbers, domains: Domains) -> Spread:
    """The same where a stratum keeps its total: only what differs from the stratum's mean share can vary.

    The sum over single items would be an upper bound, since covariances are not positive, and a loose one for large
    parts of a stratum. Measured from the mean that the chances 1 - p give, as Hájek does for samples of a fixed size,
    it is 0 for the total of a whole stratum and right for its parts; a simulation in the tests holds it to that.
    """
    mine = np.flatnonzero(sample.exact & (sample.doubt > 0))
    strata, doubt, share = sample.strata[mine], sample.doubt[mine], shares[mine]
    number = int(sample.strata.max(initial=-1)) + 1
    light = np.bincount(strata, minlength=number)
    cells, cell = np.unique(strata * domains.number + domains.codes[mine], return_inverse=True)
    home = cells // domains.number
    count = light[home]

    def centred(factor: Numbers, power: int, centre: Numbers) -> Numbers:
        # Items of the stratum in other domains have the share 0, and differ from the centre too.
        inside = sums_by(cell, factor * (share - centre[cell]) ** power, len(cells))
        outside = sums_by(strata, factor, number)[home] - sums_by(cell, factor, len(cells))
        around: Numbers = inside + outside * (-centre) ** power
        return around

    total = sums_by(strata, doubt, number)[home]
    # One light item alone tells nothing of how it differs from others: the upper bound remains.
    centre = np.where(count > 1, sums_by(cell, doubt * share, len(cells)) / total, 0.0)
    variance = centred(doubt, 2, centre) * np.where(count > 1, count / np.maximum(count - 1, 1), 1.0)
    variance[variance < ROUNDING * sums_by(cell, doubt * share**2, len(cells))] = 0.0
    parts = (variance, centred(doubt * (2 * doubt - 1), 3, centre), centred(doubt**2, 3, centre))
    owner = cells % domains.number
    return Spread(*(sums_by(owner, part, domains.number) for part in parts))
