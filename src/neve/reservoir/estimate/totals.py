"""How many records there were: totals, and the share of each group."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from neve.reservoir.estimate.intervals import counted, normal_width, part
from neve.reservoir.estimate.result import Column
from neve.reservoir.estimate.spread import spread

if TYPE_CHECKING:
    import numpy.typing as npt

    from neve.reservoir.estimate.domains import Domains
    from neve.reservoir.estimate.sample import Sample

    Numbers = npt.NDArray[np.float64]

# Score intervals cover 93 to 97 % from about five items on; below ten they are so wide that a person should know why.
ENOUGH = 10


def totals(sample: Sample, domains: Domains, level: float) -> Column:
    """The number of original records of each domain: the sum of adjusted weights."""
    loose = _loose(sample, domains)
    fixed = domains.sums(sample.adjusted * ~loose)
    variance = _variance(sample, domains, loose)
    low, high = counted(domains.sums(sample.adjusted * loose), variance, level)
    least = domains.sums(sample.weight)  # what was kept was there
    return Column(
        value=domains.sums(sample.adjusted),
        low=np.maximum(low + fixed, least),
        high=high + fixed,
        error=np.sqrt(variance),
        items=domains.counts(),
        notes=_notes(domains.sums(loose)),
    )


def rates(total: Column, seconds: float) -> Column:
    """Totals by second."""
    return Column(
        total.value / seconds,
        total.low / seconds,
        total.high / seconds,
        total.error / seconds,
        total.items,
        total.notes,
    )


def shares(sample: Sample, domains: Domains, level: float) -> Column:
    """The part of all records that is each domain's.

    By linearisation the error of a share R is that of the sum of (1 - R) over the domain and -R over the rest, which
    for independent items is V (1 - 2R) + R² times the variance of all.
    """
    loose, all_weight = _loose(sample, domains), float(sample.adjusted.sum())
    share = np.minimum(domains.sums(sample.adjusted) / all_weight, 1.0)
    own = domains.sums(sample.doubt * ~sample.exact * sample.adjusted**2)
    variance = _variance(sample, domains, loose) - 2 * share * own + share**2 * own.sum()
    variance = np.where(share < 1, np.maximum(variance, 0.0) / all_weight**2, 0.0)
    low, high = part(share, variance, level)
    items = domains.counts()
    return Column(share, low, high, np.sqrt(variance), items, _notes(domains.sums(loose)))


def unseen(sample: Sample, level: float) -> float:
    """How many records a group may have of which nothing was kept: the upper limit of `counted` for no items."""
    return float(normal_width(level) ** 2 * np.max(sample.tau * (sample.doubt > 0), initial=0.0))


def _loose(sample: Sample, domains: Domains) -> npt.NDArray[np.bool_]:
    """The items whose part in a total is not certain.

    Where the sampler kept exact totals by group, those of its groups have no error, only those of other groupings.
    """
    whole = sample.nested or domains.number == 1
    return (sample.doubt > 0) & ~(sample.exact & whole)


def _variance(sample: Sample, domains: Domains, loose: npt.NDArray[np.bool_]) -> Numbers:
    return spread(sample, sample.adjusted * loose, domains).variance


def _notes(items: Numbers) -> tuple[str, ...]:
    """A note where only a few of the items that are not certain were kept."""
    return tuple(f"rests on {_many(int(count))} only" if 0 < count < ENOUGH else "" for count in items)


def _many(count: int) -> str:
    return f"{count:,} sampled item{'' if count == 1 else 's'}"
