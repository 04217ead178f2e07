"""Intervals that cover what they promise, for small numbers of items and heavy tails too.

The plain estimate ± z standard errors covers 83 to 93 % instead of 95 % where a few items carry most of the sum: an
estimate that came out too small has a standard error that is too small as well. Each of these takes that into account
in the way that fits its kind; the tests simulate what they cover.
"""

from __future__ import annotations

from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from neve.reservoir.estimate.spread import Spread

    Numbers = npt.NDArray[np.float64]
    Limits = tuple[Numbers, Numbers]

FLAT = 1e-9  # a lean that makes no difference
LEAST_FREEDOM = 2.0


def normal_width(level: float) -> float:
    """How many standard errors an interval reaches to either side.

    >>> round(normal_width(0.95), 2)
    1.96
    """
    return NormalDist().inv_cdf(0.5 + level / 2)


def student_width(level: float, freedom: Numbers) -> Numbers:
    """The same where the standard error rests on few items: Student's t, by its expansion in 1 / freedom.

    >>> np.round(student_width(0.95, np.array([5.0, 30.0])), 2).tolist()
    [2.57, 2.04]
    """
    z, rest = normal_width(level), 1 / np.maximum(freedom, LEAST_FREEDOM)
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first * rest + second * rest**2 + third * rest**3


def counted(estimate: Numbers, variance: Numbers, level: float) -> Limits:
    """For totals of weights: every true total from which this estimate is not too far, by the variance that it had.

    The variance of a total is nearly proportional to the total, as that of a count is; so the limits solve
    (estimate - A)² = z² * A * variance / estimate. For equal weights that is the score interval of a Poisson count.
    """
    per_unit = np.divide(variance, estimate, out=np.zeros_like(variance), where=estimate > 0)
    z = normal_width(level)
    middle = estimate + z**2 * per_unit / 2
    half = z * np.sqrt(variance + (z * per_unit / 2) ** 2)
    return middle - half, middle + half


def leaning(estimate: Numbers, spread: Spread, width: Numbers | float) -> Limits:
    """For sums and means of values: Hall's transformation, which takes the lean out of the studentised estimate.

    Its distribution has the mean bias - c / 2 and the third cumulant m - 3c, with m the estimate's third moment and c
    its covariance with its variance, all in standard errors. The cubic that undoes these to first order is monotone, so
    that it can be inverted however strong the lean is.
    """
    scale = np.sqrt(spread.variance)
    unit = np.where(scale > 0, scale, 1.0)
    covariance = spread.with_variance / unit**3
    bend = (3 * covariance - spread.third / unit**3) / 6
    shift = covariance / 2 - spread.bias / unit - bend
    straight = np.abs(bend) < FLAT
    safe = np.where(straight, 1.0, bend)

    def studentised(normal: Numbers | float) -> Numbers:
        bent: Numbers = (np.cbrt(1 + 3 * safe * (normal - shift)) - 1) / safe
        return np.where(straight, normal - shift, bent)

    return estimate - scale * studentised(width), estimate - scale * studentised(-np.asarray(width))


def part(share: Numbers, variance: Numbers, level: float) -> Limits:
    """For shares: Wilson's interval of a proportion, with as many items as would give this variance."""
    z2 = normal_width(level) ** 2
    spare = share * (1 - share)
    weight = np.divide(variance, spare, out=np.zeros_like(variance), where=spare > 0)  # 1 / the number of items
    middle = (share + z2 * weight / 2) / (1 + z2 * weight)
    half = np.sqrt(z2 * variance + (z2 * weight / 2) ** 2) / (1 + z2 * weight)
    return np.maximum(middle - half, 0.0), np.minimum(middle + half, 1.0)
