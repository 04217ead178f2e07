"""Sums and means of a value over all records."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from neve.reservoir.estimate.intervals import leaning, normal_width, student_width
from neve.reservoir.estimate.result import Column
from neve.reservoir.estimate.spread import spread

if TYPE_CHECKING:
    import numpy.typing as npt

    from neve.reservoir.estimate.domains import Domains
    from neve.reservoir.estimate.sample import Sample

    Numbers = npt.NDArray[np.float64]

# With fewer the tail of a skewed value is too rarely seen: of ten items 95 % intervals of a mean cover 91 to 93 %. Of a
# hundred they cover 94 to 95 % over all populations that were tried, yet 90 % for the worst: where a single record far
# out is hardly ever kept, nothing in the sample tells of it.
ENOUGH = 50
MOST_PULL = 0.5


def sums(sample: Sample, values: Numbers, domains: Domains, level: float) -> Column:
    """The total of a value in each domain; items without a value add nothing."""
    there = ~np.isnan(values)
    value = np.where(there, values, 0.0)
    found = spread(sample, sample.adjusted * value, domains)
    estimate = domains.sums(sample.adjusted * value)
    low, high = leaning(estimate, found, normal_width(level))
    if not np.any(value < 0):
        low = np.maximum(low, domains.sums(sample.weight * value))  # what was kept was there
    return Column(estimate, low, high, np.sqrt(found.variance), domains.sums(there), notes(sample, values, domains))


def means(sample: Sample, values: Numbers, domains: Domains, level: float) -> Column:
    """The mean of a value over the records of each domain that have it: a ratio of two estimates, linearised."""
    there = ~np.isnan(values)
    count = domains.sums(sample.adjusted * there)
    known = count > 0
    scale = np.where(known, count, 1.0)
    estimate = np.where(known, domains.sums(np.where(there, sample.adjusted * values, 0.0)) / scale, np.nan)
    part = np.where(there, sample.adjusted, 0.0) / scale[domains.codes]
    away = np.where(there, values - estimate[domains.codes], 0.0)
    # The mean was fitted to the items, so that each lies closer to it than to the true one, by 1 - its part in it.
    shares = part * away / (1 - np.minimum(part, MOST_PULL))
    found = spread(sample, shares, domains)
    # Where the total is exact the count has next to no error of its own.
    with_count = domains.sums(sample.doubt * ~sample.exact * shares * part)
    low, high = leaning(
        estimate, found.as_ratio(with_count), student_width(level, effective_items(sample, there, domains) - 1)
    )
    items = domains.sums(there)
    alone = (items == 1) & (domains.sums(there & (sample.doubt > 0)) > 0)
    return Column(
        value=estimate,
        low=np.where(alone, -np.inf, low),
        high=np.where(alone, np.inf, high),
        error=np.where(alone | ~known, np.nan, np.sqrt(found.variance)),
        items=items,
        notes=notes(sample, values, domains),
    )


def effective_items(sample: Sample, there: npt.NDArray[np.bool_], domains: Domains) -> Numbers:
    """As many items of equal weight would tell as much (Kish)."""
    square = domains.sums(sample.adjusted**2 * there)
    return np.divide(domains.sums(sample.adjusted * there) ** 2, square, out=np.zeros_like(square), where=square > 0)


def notes(sample: Sample, values: Numbers, domains: Domains) -> tuple[str, ...]:
    """Why the interval of a domain can't be trusted; nothing where it can, or where everything was kept."""
    there = ~np.isnan(values)
    items, loose = domains.sums(there), domains.sums(there & (sample.doubt > 0))
    most, least = (np.full(domains.number, edge) for edge in (-np.inf, np.inf))
    np.maximum.at(most, domains.codes[there], values[there])
    np.minimum.at(least, domains.codes[there], values[there])
    return tuple(
        _note(int(count), int(open_), same=bool(same))
        for count, open_, same in zip(items, loose, most == least, strict=True)
    )


def _note(items: int, loose: int, *, same: bool) -> str:
    if not items:
        return "no kept item has a value"
    if not loose:
        return ""
    if items < ENOUGH:
        return f"rests on {items:,} item{'' if items == 1 else 's'} only"
    return "all kept items have the same value: others that may exist were not seen" if same else ""
