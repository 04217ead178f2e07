"""Histograms with bounds: merged on those in common, where every count is exact."""

from __future__ import annotations

import math
from bisect import bisect_left
from functools import reduce

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neve.rollup.histograms import ExplicitHistograms

BOUNDS = (-2.0, 0.0, 1.0, 2.5, 5.0, 10.0)
values = st.lists(st.integers(-5, 15).map(lambda half: half / 1.25), max_size=12)
bounds = st.sets(st.sampled_from(BOUNDS)).map(sorted)
UNKNOWN = np.array([math.nan])


def counted(some: list[float], ends: list[float]) -> list[int]:
    """How many values lie in each bucket; a bucket's end is in it."""
    counts = [0] * (len(ends) + 1)
    for value in some:
        counts[bisect_left(ends, value)] += 1
    return counts


def of(some: list[float], ends: list[float]) -> ExplicitHistograms:
    """One histogram of some values."""
    return ExplicitHistograms(
        1,
        np.zeros(len(ends) + 1, dtype=np.int64),
        np.array([*ends, math.inf]),
        np.array(counted(some, ends), dtype=np.int64),
    )


def plain(found: ExplicitHistograms, number: int = 0) -> tuple[list[float], list[int]]:
    """One histogram's ends and counts."""
    mine = found.owner == number
    return found.end[mine].tolist(), found.count[mine].tolist()


def merged(histograms: list[ExplicitHistograms]) -> ExplicitHistograms:
    """All of them as one."""
    return reduce(ExplicitHistograms.concatenate, histograms).merge(np.zeros(len(histograms), dtype=np.int64), 1)


def common(all_bounds: list[list[float]]) -> list[float]:
    """The bounds that all have."""
    return sorted(set.intersection(*map(set, all_bounds)))


@given(st.lists(values, min_size=1, max_size=5), bounds)
def test_the_same_bounds_count_exactly(parts: list[list[float]], ends: list[float]) -> None:
    """A merged histogram is that of all values."""
    everything = [value for part in parts for value in part]
    assert plain(merged([of(part, ends) for part in parts])) == ([*ends, math.inf], counted(everything, ends))


@pytest.mark.slow
@given(st.lists(st.tuples(values, bounds), min_size=1, max_size=5))
def test_other_bounds_count_exactly_on_those_in_common(parts: list[tuple[list[float], list[float]]]) -> None:
    """No count is guessed, and the order of merges is no matter."""
    everything = [value for part, _ in parts for value in part]
    shared = common([ends for _, ends in parts])
    histograms = [of(part, ends) for part, ends in parts]
    expected = ([*shared, math.inf], counted(everything, shared))
    assert plain(merged(histograms)) == expected
    assert plain(reduce(lambda sofar, one: merged([sofar, one]), histograms)) == expected


@pytest.mark.slow
@given(st.lists(st.tuples(values, bounds, st.integers(0, 2)), min_size=1, max_size=6))
def test_groups_are_merged_apart(parts: list[tuple[list[float], list[float], int]]) -> None:
    """Bounds of one group say nothing of another's; a group without a histogram has none afterwards."""
    flat = reduce(ExplicitHistograms.concatenate, [of(part, ends) for part, ends, _ in parts])
    found = flat.merge(np.array([group for *_, group in parts]), 3)
    for group in range(3):
        mine = [(part, ends) for part, ends, of_group in parts if of_group == group]
        if not mine:
            assert plain(found, group) == ([], [])
            continue
        shared = common([ends for _, ends in mine])
        assert plain(found, group) == ([*shared, math.inf], counted([v for part, _ in mine for v in part], shared))


@given(st.tuples(values, bounds), values)
def test_what_was_added_can_be_taken_away(before: tuple[list[float], list[float]], more: list[float]) -> None:
    """On the same bounds the rest is what came; the other way round, more is taken than there was."""
    some, ends = before
    now, then = of([*some, *more], ends), of(some, ends)
    rest = merged([now, then.multiply(-1)])
    assert plain(rest) == ([*ends, math.inf], counted(more, ends))
    assert not rest.has_negative_count.any()
    assert merged([then, now.multiply(-1)]).has_negative_count.any() == bool(more)


@given(st.lists(values, min_size=1, max_size=4), bounds.filter(bool), st.floats(0, 1))
def test_a_quantile_lies_in_the_bucket_of_its_rank(parts: list[list[float]], ends: list[float], place: float) -> None:
    """Between the ends of the bucket that holds the value at that rank, for each histogram apart."""
    flat = reduce(ExplicitHistograms.concatenate, [of(part, ends) for part in parts])
    found = flat.merge(np.arange(len(parts)), len(parts))
    least, most = (np.array([edge(part) if part else math.nan for part in parts]) for edge in (min, max))
    quantiles = found.quantiles(np.full(len(parts), place), least, most).tolist()
    for part, quantile in zip(parts, quantiles, strict=True):
        if not part:
            assert math.isnan(quantile)
            continue
        rank = max(1, math.ceil(place * len(part) - 1e-9))
        bucket = bisect_left(ends, sorted(part)[rank - 1])
        filled = [number for number, count in enumerate(counted(part, ends)) if count]
        lower = ends[bucket - 1] if bucket else min(part)
        upper = ends[bucket] if bucket < len(ends) else max(part)
        assert bucket in filled
        assert lower - 1e-9 <= quantile <= upper + 1e-9


def test_values_lie_evenly_in_a_bucket() -> None:
    """As Prometheus has it: from zero or the smallest value up; above the last bound no more is known than that."""

    def quantile(place: float, least: float = math.nan, most: float = math.nan) -> float:
        found = of([1.0, 1.0, 4.0, 4.0, 99.0], [2.0, 5.0])
        return float(found.quantiles(np.array([place]), np.array([least]), np.array([most]))[0])

    assert [quantile(place) for place in (0.2, 0.4, 0.6, 0.8, 1.0)] == [1.0, 2.0, 3.5, 5.0, 5.0]
    assert (quantile(0.2, least=1.0), quantile(1.0, most=99.0)) == (1.5, 99.0)


def test_a_histogram_without_bounds_knows_no_quantile() -> None:
    """Unless the smallest and the largest value are known."""
    found = of([1.0, 2.0], [])
    assert math.isnan(found.quantiles(np.array([0.5]), UNKNOWN, UNKNOWN)[0])
    assert found.quantiles(np.array([0.5]), np.array([1.0]), np.array([2.0]))[0] == 1.5


def test_a_quantile_is_the_same_alone_and_beside_others() -> None:
    """Where a rank falls on the edge of a bucket, the least rounding would choose another."""
    ends, counts = np.array([1.0, 2, 100, 1000, np.inf]), np.array([0, 7, 0, 193, 0])
    alone = ExplicitHistograms(1, np.zeros(5, dtype=np.int64), ends, counts)
    both = alone.concatenate(alone)
    for place in np.arange(0, 1001) / 1000:
        [one] = alone.quantiles(np.full(1, place), np.full(1, np.nan), np.full(1, np.nan))
        found = both.quantiles(np.full(2, place), np.full(2, np.nan), np.full(2, np.nan))
        assert found.tolist() == [one, one]
