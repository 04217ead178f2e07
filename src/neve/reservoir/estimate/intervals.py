"""Variance and skew of an estimate from the kept items alone, and confidence intervals with the stated coverage.

The plain estimate ± z standard errors covers 83 to 93 % instead of 95 % if a few items carry most of the sum: an
estimate that came out too small has a standard error that is too small as well. Each interval takes that into
account in the way that fits its kind, for small numbers of items and heavy tails too. The tests simulate their
coverage.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from neve.reservoir.estimate.sample import sums_by

if TYPE_CHECKING:
    import numpy.typing as npt

    from neve.reservoir.estimate.sample import Domains, Sample

    Numbers = npt.NDArray[np.float64]
    Limits = tuple[Numbers, Numbers]

ROUNDING = 1e-12


@dataclass(frozen=True)
class Spread:
    """Variance of an estimate, its third central moment, and its covariance with its variance, for each domain.

    `bias` is by how much the estimate is too large on average: 0 except for ratios.
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
        """Return the spread of the estimate divided by an estimated count.

        `with_count` is the covariance of the two. A ratio is its linear part L times 1 - M, with M the relative error
        of the count. Its variance, estimated by the same count and around the same ratio, is proportional to 1 - 2M -
        2L cov(L, M) / variance.
        """
        bend = self.variance * with_count
        return Spread(self.variance, self.third - 6 * bend, self.with_variance - 4 * bend, -with_count)


def measure_spread(sample: Sample, shares: Numbers, domains: Domains) -> Spread:
    """Return the spread of the sum of `shares`, the contribution of each kept item to the estimate of its domain.

    With p = w / tau the probability of a light item, an item adds (1 - p) * share² to the variance, which for the share
    a = tau is tau * (tau - w). Items of priority sampling have no covariance (Duffield, Lund, Thorup), so that their
    variances add up, over windows too. Items that are heavier than the threshold have p = 1 and add nothing.
    """
    free = ~sample.exact
    return _independent_spread(sample.doubt * free, shares, domains) + _fixed_size_spread(sample, shares, domains)


def _independent_spread(doubt: Numbers, shares: Numbers, domains: Domains) -> Spread:
    square, cube = shares**2, shares**3
    return Spread(
        domains.sums(doubt * square),
        domains.sums(doubt * (2 * doubt - 1) * cube),
        domains.sums(doubt**2 * cube),
    )


def _fixed_size_spread(sample: Sample, shares: Numbers, domains: Domains) -> Spread:
    """Return the spread if strata keep their totals: only the difference from the stratum's mean share can vary.

    The sum over single items would be an upper bound, since covariances are not positive, and a loose one for large
    parts of a stratum. Measured from the mean that is weighted by 1 - p, as Hájek does for samples of a fixed size, it
    is 0 for the total of a whole stratum and right for its parts. A simulation in the tests verifies that.
    """
    mine = np.flatnonzero(sample.exact & (sample.doubt > 0))
    strata, doubt, share = sample.strata[mine], sample.doubt[mine], shares[mine]
    number = int(sample.strata.max(initial=-1)) + 1
    light = np.bincount(strata, minlength=number)
    cells, cell = np.unique(strata * domains.number + domains.codes[mine], return_inverse=True)
    home = cells // domains.number
    count = light[home]

    def central_moment(factor: Numbers, power: int, centre: Numbers) -> Numbers:
        # Items of the stratum in other domains have the share 0, and differ from the centre too.
        inside = sums_by(cell, factor * (share - centre[cell]) ** power, len(cells))
        outside = sums_by(strata, factor, number)[home] - sums_by(cell, factor, len(cells))
        around: Numbers = inside + outside * (-centre) ** power
        return around

    total = sums_by(strata, doubt, number)[home]
    # A single light item does not show how it differs from others: the upper bound remains.
    centre = np.where(count > 1, sums_by(cell, doubt * share, len(cells)) / total, 0.0)
    variance = central_moment(doubt, 2, centre) * np.where(count > 1, count / np.maximum(count - 1, 1), 1.0)
    variance[variance < ROUNDING * sums_by(cell, doubt * share**2, len(cells))] = 0.0
    parts = (variance, central_moment(doubt * (2 * doubt - 1), 3, centre), central_moment(doubt**2, 3, centre))
    owner = cells % domains.number
    return Spread(*(sums_by(owner, part, domains.number) for part in parts))


FLAT = 1e-9  # a skew that makes no difference
LEAST_FREEDOM = 2.0


def normal_width(level: float) -> float:
    """Return the number of standard errors that an interval extends to either side.

    >>> round(normal_width(0.95), 2)
    1.96
    """
    return NormalDist().inv_cdf(0.5 + level / 2)


def student_width(level: float, freedom: Numbers) -> Numbers:
    """Return the width if the standard error is based on few items: Student's t, by its expansion in 1 / freedom.

    >>> np.round(student_width(0.95, np.array([5.0, 30.0])), 2).tolist()
    [2.57, 2.04]
    """
    z, rest = normal_width(level), 1 / np.maximum(freedom, LEAST_FREEDOM)
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first * rest + second * rest**2 + third * rest**3


def total_limits(estimate: Numbers, variance: Numbers, level: float) -> Limits:
    """Return limits of totals of weights: all true totals from which this estimate is not too far, given its variance.

    The variance of a total is nearly proportional to the total, as that of a count is. The limits therefore solve
    (estimate - A)² = z² * A * variance / estimate. For equal weights that is the score interval of a Poisson count.
    """
    per_unit = np.divide(variance, estimate, out=np.zeros_like(variance), where=estimate > 0)
    z = normal_width(level)
    middle = estimate + z**2 * per_unit / 2
    half = z * np.sqrt(variance + (z * per_unit / 2) ** 2)
    return middle - half, middle + half


def skewed_limits(estimate: Numbers, spread: Spread, width: Numbers | float) -> Limits:
    """Return limits of sums and means by Hall's transformation, which removes the skew of the studentised estimate.

    Its distribution has the mean bias - c / 2 and the third cumulant m - 3c, with m the estimate's third moment and c
    its covariance with its variance, all in standard errors. The cubic that reverses these to first order is monotone,
    so that it can be inverted however strong the skew is.
    """
    scale = np.sqrt(spread.variance)
    unit = np.where(scale > 0, scale, 1.0)
    covariance = spread.with_variance / unit**3
    bend = (3 * covariance - spread.third / unit**3) / 6
    shift = covariance / 2 - spread.bias / unit - bend
    straight = np.abs(bend) < FLAT
    safe = np.where(straight, 1.0, bend)

    def invert(normal: Numbers | float) -> Numbers:
        bent: Numbers = (np.cbrt(1 + 3 * safe * (normal - shift)) - 1) / safe
        return np.where(straight, normal - shift, bent)

    return estimate - scale * invert(width), estimate - scale * invert(-np.asarray(width))


def share_limits(share: Numbers, variance: Numbers, level: float) -> Limits:
    """Return limits of shares: Wilson's interval of a proportion, with as many items as would give this variance."""
    z2 = normal_width(level) ** 2
    spare = share * (1 - share)
    weight = np.divide(variance, spare, out=np.zeros_like(variance), where=spare > 0)  # 1 / the number of items
    middle = (share + z2 * weight / 2) / (1 + z2 * weight)
    half = np.sqrt(z2 * variance + (z2 * weight / 2) ** 2) / (1 + z2 * weight)
    return np.maximum(middle - half, 0.0), np.minimum(middle + half, 1.0)
