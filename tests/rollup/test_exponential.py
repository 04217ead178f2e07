"""Exponential histograms: every value in its bucket, merges in any order, quantiles as near as promised."""

from __future__ import annotations

import math
from collections import Counter
from functools import reduce
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neve.rollup.definition import scale_for
from neve.rollup.histograms import UNSET, ExponentialHistograms, begin_of, bucket_of

sizes = st.one_of(
    st.floats(min_value=5e-324, max_value=1.7976931348623157e308),
    st.floats(min_value=5e-324, max_value=2.2250738585072014e-308),
    st.integers(-1074, 1023).map(lambda power: math.ldexp(1.0, power)),
    st.sampled_from((1.0, 5e-324, 1.7976931348623157e308)),
)
ordinary = st.one_of(st.just(0.0), st.floats(1e-300, 1e300), st.floats(-1e300, -1e-300), st.integers(-5, 5).map(float))
ONE = np.zeros(1, dtype=np.int64)

Plain = tuple[int, int, float, dict[int, int], dict[int, int]]


@given(sizes, st.integers(0, 12))
def test_a_value_lies_in_its_bucket(value: float, scale: int) -> None:
    """Above the begin and not above the end, but for the rounding of a logarithm."""
    bucket = int(bucket_of(np.array([value]), scale)[0])
    place, rounding = math.log2(value) * 2**scale, 1e-12 * 2**scale
    assert bucket - rounding <= place <= bucket + 1 + rounding


@given(st.integers(-1021, 1022), st.integers(0, 20))
def test_powers_of_two_are_the_ends_of_buckets(power: int, scale: int) -> None:
    """They are in the bucket that they end, and what is a little larger is in the next."""
    value = math.ldexp(1.0, power)
    around = np.array([math.nextafter(value, 0), value, math.nextafter(value, math.inf)])
    first = power * 2**scale
    assert bucket_of(around, scale).tolist() == [first - 1, first - 1, first]


@given(st.floats(0.0001, 0.3))
def test_the_scale_is_the_coarsest_that_will_do(error: float) -> None:
    """The middle of a bucket is within the error of both its ends, and one scale less would not do."""

    def off(scale: int) -> float:
        base: float = 2.0 ** (2.0**-scale)
        return (base - 1) / (base + 1)

    scale = scale_for(error)
    assert off(scale) <= error * (1 + 1e-9)
    assert off(scale - 1) > error * (1 - 1e-9)


def plain(found: ExponentialHistograms, number: int = 0) -> Plain:
    """One histogram as numbers and dicts."""
    mine = found.owner == number
    sides = []
    for negative in (False, True):
        side = mine & (found.negative == negative)
        sides.append(dict(zip(found.index[side].tolist(), found.count[side].tolist(), strict=True)))
    return (
        int(found.scale[number]),
        int(found.zero_count[number]),
        float(found.zero_threshold[number]),
        *sides,
    )  # type: ignore[return-value]


def of(
    scale: int, zeros: int, threshold: float, positive: dict[int, int], negative: dict[int, int]
) -> ExponentialHistograms:
    """One histogram."""
    index, count = ([*getattr(positive, side)(), *getattr(negative, side)()] for side in ("keys", "values"))
    return ExponentialHistograms(
        np.array([scale]),
        np.array([zeros]),
        np.array([threshold]),
        np.zeros(len(index), dtype=np.int64),
        np.repeat([False, True], [len(positive), len(negative)]),
        np.array(index, dtype=np.int64),
        np.array(count, dtype=np.int64),
    )


def together(histograms: list[ExponentialHistograms]) -> ExponentialHistograms:
    """All of them beside each other."""
    return reduce(ExponentialHistograms.concatenate, histograms)


def merged(histograms: list[ExponentialHistograms]) -> ExponentialHistograms:
    """All of them as one."""
    return together(histograms).merge(np.zeros(len(histograms), dtype=np.int64), 1)


sides = st.dictionaries(st.integers(-40, 40), st.integers(1, 9), max_size=6)
shapes = st.builds(of, st.integers(-3, 8), st.integers(0, 3), st.just(0.0), sides, sides)
wide = st.builds(of, st.just(1), st.integers(0, 3), st.sampled_from((0.0, 0.3, 1.0, 1.1, 3.0, 100.0)), sides, sides)


@given(st.lists(shapes, min_size=1, max_size=6))
def test_merging_adds_up_at_the_smallest_scale(histograms: list[ExponentialHistograms]) -> None:
    """A step down in scale halves a bucket's number, rounding down."""
    found = plain(merged(histograms))
    scale = min(int(one.scale[0]) for one in histograms)
    expected = []
    for side in (3, 4):
        counts: Counter[int] = Counter()
        for one in map(plain, histograms):
            for index, count in one[side].items():  # type: ignore[union-attr]
                counts[math.floor(index / 2 ** (one[0] - scale))] += count
        expected.append(dict(counts))
    assert found == (scale, sum(int(one.zero_count[0]) for one in histograms), 0.0, *expected)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [shapes, wide], ids=["scales", "thresholds"])
@given(data=st.data())
def test_the_order_of_merges_is_no_matter(kind: st.SearchStrategy[ExponentialHistograms], data: st.DataObject) -> None:
    """One by one or all at once, whichever comes first."""
    histograms = data.draw(st.lists(kind, min_size=1, max_size=6))
    at_once = plain(merged(histograms))
    one_by_one = reduce(lambda sofar, one: merged([sofar, one]), histograms[1:], merged(histograms[:1]))
    assert plain(one_by_one) == at_once
    assert plain(merged(data.draw(st.permutations(histograms)))) == at_once


@pytest.mark.slow
@given(st.lists(wide, min_size=1, max_size=5))
def test_a_threshold_takes_in_what_lies_below(histograms: list[ExponentialHistograms]) -> None:
    """No value is lost; no bucket begins below the threshold; it is a bucket's end or one of those given."""
    found = merged(histograms)
    total = sum(int(one.zero_count[0] + one.count.sum()) for one in histograms)
    assert int(found.zero_count[0] + found.count.sum()) == total
    threshold = float(found.zero_threshold[0])
    assert (begin_of(found.index, found.scale[found.owner]) >= threshold).all()
    given_ones = {float(one.zero_threshold[0]) for one in histograms}
    ends = {2.0 ** ((index + 1) / 2) for one in histograms for index in one.index.tolist()}
    assert threshold >= max(given_ones)
    assert threshold in given_ones or any(math.isclose(threshold, end) for end in ends)


@pytest.mark.slow
@given(st.lists(shapes, min_size=1, max_size=4), st.lists(shapes, min_size=1, max_size=4))
def test_what_was_added_can_be_taken_away(some: list[ExponentialHistograms], more: list[ExponentialHistograms]) -> None:
    """What is left is the rest at the smaller scale; the other way round, more is taken than there was."""
    before, rest = merged(some), merged(more)
    now = merged([before, rest])
    left = merged([now, before.multiply(-1)])
    assert plain(left)[1:] == plain(rest.at_most(int(now.scale[0])).merge(ONE, 1))[1:]
    assert not left.has_negative_count.any()
    has_more = bool(rest.count.sum() + rest.zero_count.sum())
    assert merged([before, now.multiply(-1)]).has_negative_count.any() == has_more


@given(
    st.lists(st.lists(ordinary, max_size=30), min_size=1, max_size=4),
    st.sampled_from((0.0, 0.01, 0.25, 0.5, 0.9, 0.95, 0.99, 1.0)) | st.floats(0, 1),
    st.sampled_from((0.001, 0.01, 0.05, 0.3)),
)
def test_quantiles_are_within_the_relative_error(groups: list[list[float]], place: float, error: float) -> None:
    """Of the value at place floor(q * (n - 1)), for each histogram apart; none where there is no value."""
    values = np.array([value for group in groups for value in group])
    group = np.repeat(np.arange(len(groups)), [len(one) for one in groups])
    found = ExponentialHistograms.of_values(values, scale_for(error)).merge(group, len(groups))
    quantiles = found.quantiles(np.full(len(groups), place)).tolist()
    for one, quantile in zip(groups, quantiles, strict=True):
        if one:
            exact = sorted(one)[math.floor(place * (len(one) - 1))]
            assert quantile == pytest.approx(exact, rel=error * (1 + 1e-6), abs=0)
        else:
            assert math.isnan(quantile)


@pytest.mark.slow
@given(st.lists(shapes, min_size=1, max_size=5), st.data())
def test_chosen_and_placed(histograms: list[ExponentialHistograms], data: st.DataObject) -> None:
    """Some of them in another order are the same histograms; placed among others, they are at their places."""
    chosen = data.draw(st.permutations(range(len(histograms))))[: data.draw(st.integers(0, len(histograms)))]
    all_of = together(histograms)
    some = all_of.select(np.array(chosen, dtype=np.int64))
    assert [plain(some, number) for number in range(len(chosen))] == [plain(histograms[number]) for number in chosen]
    placed = ExponentialHistograms.from_parts([(np.array(chosen, dtype=np.int64), some)], len(histograms))
    for number, one in enumerate(histograms):
        empty: Any = (UNSET, 0, 0.0, {}, {})
        assert plain(placed, number) == (plain(one) if number in chosen else empty)


@pytest.mark.parametrize("scale", [-8, -9, -10, -11])
def test_quantiles_of_the_coarsest_scales(scale: int) -> None:
    """The first bucket ends beyond what a number can be: its quantile is a number all the same, and in it."""
    found = merged([of(scale, 0, 0.0, {0: 3}, {0: 1})]).quantiles(np.array([1.0]))
    assert 1.0 < found[0] <= np.finfo(np.float64).max


@pytest.mark.parametrize(("scale", "index"), [(6, 65_535), (0, 1023), (-10, 0), (-11, 0)])
def test_a_bucket_that_no_number_ends_beside_a_threshold(scale: int, index: int) -> None:
    """It lies above the threshold and stays."""
    found = merged([of(scale, 1, 0.5, {index: 3}, {}), of(scale, 1, 0.25, {}, {index: 2})])
    assert plain(found) == (scale, 2, 0.5, {index: 3}, {index: 2})
