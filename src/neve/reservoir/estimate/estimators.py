"""Estimators: totals, rates, shares, sums, means and quantiles (Woodruff's intervals) of the full data.

`estimate` computes everything that a `Question` requests, for all records and for each group.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from neve.errors import ConfigError, InputError
from neve.reservoir.estimate.intervals import (
    measure_spread,
    normal_width,
    share_limits,
    skewed_limits,
    student_width,
    total_limits,
)
from neve.reservoir.estimate.result import MEAN, RATE, SHARE, SUM, TOTAL, Column, Estimates, Line
from neve.reservoir.estimate.sample import Domains

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from neve.reservoir.estimate.sample import Sample

    Numbers = npt.NDArray[np.float64]

# Score intervals cover 93 to 97 % from about five items on. Below ten they are so wide that the user needs a note.
ENOUGH_FOR_TOTAL = 10


def estimate_totals(sample: Sample, domains: Domains, level: float) -> Column:
    """Estimate the number of original records of each domain: the sum of adjusted weights."""
    loose = _is_uncertain(sample, domains)
    fixed = domains.sums(sample.adjusted * ~loose)
    variance = _variance(sample, domains, loose)
    low, high = total_limits(domains.sums(sample.adjusted * loose), variance, level)
    least = domains.sums(sample.weight)  # a total is at least the weight of the kept items
    return Column(
        value=domains.sums(sample.adjusted),
        low=np.maximum(low + fixed, least),
        high=high + fixed,
        error=np.sqrt(variance),
        items=domains.counts(),
        notes=_total_notes(domains.sums(loose)),
    )


def estimate_rates(total: Column, seconds: float) -> Column:
    """Return totals per second."""
    return Column(
        total.value / seconds,
        total.low / seconds,
        total.high / seconds,
        total.error / seconds,
        total.items,
        total.notes,
    )


def estimate_shares(sample: Sample, domains: Domains, level: float) -> Column:
    """Estimate the share of all records that belongs to each domain.

    By linearisation the error of a share R is that of the sum of (1 - R) over the domain and -R over the rest, which
    for independent items is V (1 - 2R) + R² times the variance of all.
    """
    loose, all_weight = _is_uncertain(sample, domains), float(sample.adjusted.sum())
    share = np.minimum(domains.sums(sample.adjusted) / all_weight, 1.0)
    own = domains.sums(sample.doubt * ~sample.exact * sample.adjusted**2)
    variance = _variance(sample, domains, loose) - 2 * share * own + share**2 * own.sum()
    variance = np.where(share < 1, np.maximum(variance, 0.0) / all_weight**2, 0.0)
    low, high = share_limits(share, variance, level)
    items = domains.counts()
    return Column(share, low, high, np.sqrt(variance), items, _total_notes(domains.sums(loose)))


def unseen_limit(sample: Sample, level: float) -> float:
    """Return the most records that a group without kept records may have.

    It is the upper limit of `total_limits` for no items.
    """
    return float(normal_width(level) ** 2 * np.max(sample.tau * (sample.doubt > 0), initial=0.0))


def _is_uncertain(sample: Sample, domains: Domains) -> npt.NDArray[np.bool_]:
    """Return a mask of the items whose part in a total is uncertain.

    If the sampler kept exact totals by group, the totals of its groups have no error. Only those of other groupings do.
    """
    whole = sample.nested or domains.number == 1
    return (sample.doubt > 0) & ~(sample.exact & whole)


def _variance(sample: Sample, domains: Domains, loose: npt.NDArray[np.bool_]) -> Numbers:
    return measure_spread(sample, sample.adjusted * loose, domains).variance


def _total_notes(items: Numbers) -> tuple[str, ...]:
    """Return a note for each domain with few kept items that are uncertain."""
    return tuple(
        f"based on only {_format_items(int(count))}" if 0 < count < ENOUGH_FOR_TOTAL else "" for count in items
    )


def _format_items(count: int) -> str:
    return f"{count:,} sampled item{'' if count == 1 else 's'}"


# With fewer items the tail of a skewed value is rarely seen: with ten items, 95 % intervals of a mean cover 91 to 93 %.
# With a hundred they cover 94 to 95 % over all populations that were tried, yet 90 % for the worst: if a single record
# far out is hardly ever kept, nothing in the sample reveals it.
ENOUGH_FOR_MEAN = 50
MOST_PULL = 0.5


def estimate_sums(sample: Sample, values: Numbers, domains: Domains, level: float) -> Column:
    """Estimate the sum of a value in each domain; items without a value add nothing."""
    there = ~np.isnan(values)
    value = np.where(there, values, 0.0)
    found = measure_spread(sample, sample.adjusted * value, domains)
    estimate = domains.sums(sample.adjusted * value)
    low, high = skewed_limits(estimate, found, normal_width(level))
    if not np.any(value < 0):
        low = np.maximum(low, domains.sums(sample.weight * value))  # a sum is at least that of the kept items
    return Column(
        estimate, low, high, np.sqrt(found.variance), domains.sums(there), mean_notes(sample, values, domains)
    )


def estimate_means(sample: Sample, values: Numbers, domains: Domains, level: float) -> Column:
    """Estimate the mean of a value over the records of each domain that have it.

    It is a linearised ratio of two estimates.
    """
    there = ~np.isnan(values)
    count = domains.sums(sample.adjusted * there)
    known = count > 0
    scale = np.where(known, count, 1.0)
    estimate = np.where(known, domains.sums(np.where(there, sample.adjusted * values, 0.0)) / scale, np.nan)
    part = np.where(there, sample.adjusted, 0.0) / scale[domains.codes]
    away = np.where(there, values - estimate[domains.codes], 0.0)
    # The mean was fitted to the items, so each is closer to it than to the true mean, by 1 - its part in it.
    shares = part * away / (1 - np.minimum(part, MOST_PULL))
    found = measure_spread(sample, shares, domains)
    # If the total is exact, the count has almost no error of its own.
    with_count = domains.sums(sample.doubt * ~sample.exact * shares * part)
    low, high = skewed_limits(
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
        notes=mean_notes(sample, values, domains),
    )


def effective_items(sample: Sample, there: npt.NDArray[np.bool_], domains: Domains) -> Numbers:
    """Return the number of items of equal weight that would carry as much information (Kish)."""
    square = domains.sums(sample.adjusted**2 * there)
    return np.divide(domains.sums(sample.adjusted * there) ** 2, square, out=np.zeros_like(square), where=square > 0)


def mean_notes(sample: Sample, values: Numbers, domains: Domains) -> tuple[str, ...]:
    """Return why the interval of each domain is unreliable; empty if it is reliable, or if all items were kept."""
    there = ~np.isnan(values)
    items, loose = domains.sums(there), domains.sums(there & (sample.doubt > 0))
    most, least = (np.full(domains.number, edge) for edge in (-np.inf, np.inf))
    np.maximum.at(most, domains.codes[there], values[there])
    np.minimum.at(least, domains.codes[there], values[there])
    return tuple(
        _mean_note(int(count), int(open_), same=bool(same))
        for count, open_, same in zip(items, loose, most == least, strict=True)
    )


def _mean_note(items: int, loose: int, *, same: bool) -> str:
    if not items:
        return "no kept item has a value"
    if not loose:
        return ""
    if items < ENOUGH_FOR_MEAN:
        return f"based on only {items:,} item{'' if items == 1 else 's'}"
    return "all kept items have the same value; other values may exist" if same else ""


ENOUGH_FOR_QUANTILE = 5  # items on the thinner side of the quantile
ROUNDING = 1e-12


def quantile_name(quantile: float) -> str:
    """Return the name of a quantile.

    >>> quantile_name(0.5), quantile_name(0.999), quantile_name(0.07)
    ('p50', 'p99.9', 'p7')
    """
    return f"p{round(quantile * 100, 10):g}"


@dataclass(frozen=True)
class RankedValues:
    """Values sorted within each domain, with the cumulative part of the domain's weight up to each."""

    values: Numbers
    keys: Numbers
    first: npt.NDArray[np.int64]
    last: npt.NDArray[np.int64]

    @classmethod
    def of(cls, values: Numbers, weights: Numbers, codes: npt.NDArray[np.int64], number: int) -> RankedValues:
        """Sort values, without those that are NaN."""
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
        """Return the smallest value of each domain at which its cumulative part is reached; NaN without values."""
        if not len(self.values):
            return np.full(len(parts), np.nan)
        place = np.searchsorted(self.keys, np.arange(len(parts)) + parts - ROUNDING * (1 + np.arange(len(parts))))
        place = np.clip(place, self.first, np.maximum(self.last, 0))
        return np.where(self.last >= self.first, self.values[np.minimum(place, len(self.values) - 1)], np.nan)


def estimate_quantiles(
    sample: Sample, values: Numbers, domains: Domains, wanted: Sequence[float], level: float
) -> dict[str, Column]:
    """Estimate quantiles of each domain, by their names.

    The part F of the records up to a value is a mean of zeros and ones, and has the error of one. The interval consists
    of the values at which F is the quantile ± that error (Woodruff). It needs no density and preserves the skew of the
    values.
    """
    ranked = RankedValues.of(values, sample.adjusted, domains.codes, domains.number)
    there = ~np.isnan(values)
    whole = domains.sums(sample.adjusted * there)
    shares = np.where(there, sample.adjusted, 0.0) / np.where(whole > 0, whole, 1.0)[domains.codes]
    width = normal_width(level)
    items, loose = domains.sums(there), domains.sums(there & (sample.doubt > 0))
    found = {}
    for quantile in wanted:
        estimate = ranked.at(np.full(domains.number, quantile))
        below = np.less_equal(values, estimate[domains.codes], where=there, out=np.zeros(len(values), dtype=np.bool_))
        variance = measure_spread(sample, shares * (below - quantile), domains).variance
        few = items * min(quantile, 1 - quantile) < ENOUGH_FOR_QUANTILE
        # With hardly an item beyond the quantile the items look alike, and their variance is far too small (p99 of 30
        # items: covers 3 %). The variance of a part of this size replaces it.
        expected = quantile * (1 - quantile) * domains.sums(sample.doubt * shares**2)
        error = np.sqrt(np.where(few, np.maximum(variance, expected), variance))
        low, high = _quantile_limits(ranked, quantile, error * width)
        notes = tuple(
            _quantile_note(int(count), quantile_name(quantile), few=bool(scarce and open_))
            for count, open_, scarce in zip(items, loose, few, strict=True)
        )
        # The error in the unit of the value, as far as an asymmetric interval has one.
        in_unit = np.where(np.isfinite(high - low), (high - low) / (2 * width), np.nan)
        found[quantile_name(quantile)] = Column(estimate, low, high, in_unit, items, notes)
    return found


def _quantile_limits(ranked: RankedValues, quantile: float, reach: Numbers) -> tuple[Numbers, Numbers]:
    """Return the values at both ends; a side on which the items end before the interval does has no limit."""
    below, above = quantile - reach, quantile + reach
    low = np.where(below > 0, ranked.at(np.maximum(below, 0.0)), -np.inf)
    return low, np.where(above < 1, ranked.at(np.minimum(above, 1.0)), np.inf)


def _quantile_note(items: int, name: str, *, few: bool) -> str:
    if not items:
        return "no kept item has a value"
    return f"{items:,} item{' is' if items == 1 else 's are'} too few for {name}" if few else ""


LEVEL_DEFAULT = 0.95


@dataclass(frozen=True)
class Question:
    """Requested estimates beside totals: the sum, the mean and quantiles of a value."""

    of: str | None = None
    quantiles: tuple[float, ...] = ()
    level: float = LEVEL_DEFAULT

    def __post_init__(self) -> None:
        if not 0 < self.level < 1:
            raise ConfigError(f"level is {self.level:g}, expected a number between 0 and 1", hint="0.95 is usual")
        for quantile in self.quantiles:
            if not 0 < quantile < 1:
                raise ConfigError(
                    f"quantile is {quantile:g}, expected a number between 0 and 1", hint="0.5 is the median"
                )
        if self.quantiles and self.of is None:
            raise ConfigError("quantiles need a column of values", hint="name it, e.g. --of value")


def estimate(sample: Sample, question: Question = Question()) -> Estimates:  # noqa: B008  frozen: never changed
    """Compute all requested estimates, for all records and for each group, those with the most records first."""
    if not sample.items:
        raise InputError("the sample is empty: there is nothing to estimate from", hint="see --since and --until")
    values = None if question.of is None else sample.value(question.of)
    (overall,) = _lines(sample, values, Domains.everything(sample.items), question)
    lines = _lines(sample, values, sample.domains, question)
    lines.sort(key=lambda line: (-line.estimates[TOTAL].value, line.group is None, line.group))
    return Estimates(
        level=question.level,
        of=question.of,
        items=sample.items,
        windows=0 if sample.windows is None else len(sample.windows.starts),
        seconds=None if sample.windows is None else sample.windows.seconds,
        overall=overall,
        groups=tuple(lines),
        quantiles=question.quantiles,
        unseen=0.0 if sample.nested else unseen_limit(sample, question.level),
        remarks=tuple(_list_remarks(sample, overall)),
    )


def _lines(sample: Sample, values: Numbers | None, domains: Domains, question: Question) -> list[Line]:
    columns = {kind: column.estimates() for kind, column in _columns(sample, values, domains, question).items()}
    items = domains.counts().tolist()
    lacking = [0.0] * domains.number if values is None else domains.sums(np.isnan(values)).tolist()
    return [
        Line(name, int(items[place]), int(lacking[place]), {kind: column[place] for kind, column in columns.items()})
        for place, name in enumerate(domains.names)
    ]


def _columns(sample: Sample, values: Numbers | None, domains: Domains, question: Question) -> dict[str, Column]:
    columns = {TOTAL: estimate_totals(sample, domains, question.level)}
    if sample.windows is not None:
        columns[RATE] = estimate_rates(columns[TOTAL], sample.windows.seconds)
    columns[SHARE] = estimate_shares(sample, domains, question.level)
    if values is not None:
        columns[SUM] = estimate_sums(sample, values, domains, question.level)
        columns[MEAN] = estimate_means(sample, values, domains, question.level)
        columns |= estimate_quantiles(sample, values, domains, question.quantiles, question.level)
    return columns


def _list_remarks(sample: Sample, overall: Line) -> list[str]:
    remarks = []
    if sample.already_sampled:
        remarks.append(
            "some items had a weight other than 1: the intervals don't include the error of that earlier sampling"
        )
    if overall.without_value:
        remarks.append(
            f"{overall.without_value:,} of {overall.items:,} kept items have no value (none, NaN or infinite): sums, "
            "means and quantiles exclude them"
        )
    return remarks
