"""Laws that hold for any series."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neve.promql.evaluator import Options
from neve.promql.histograms.arithmetic import add, combine_all, has_reset, subtract
from neve.promql.histograms.native import Histogram, make_buckets
from neve.promql.histograms.quantiles import histogram_fraction, histogram_quantile
from neve.promql.quantile import quantile_of_columns
from neve.promql.series import Samples
from neve.promql.windows import Windows, find_windows, reduce_extreme, sum_windows
from tests.promql.examples import MINUTE, as_dict, as_points, make_engine

VALUES = st.floats(-1e9, 1e9)
ANY_VALUES = st.floats(width=64)


@pytest.mark.slow
@given(st.floats(0.001, 1e6), st.integers(3, 20), st.integers(2, 60))
def test_rate_of_a_line(slope: float, count: int, gap_seconds: int) -> None:
    """A counter that grows steadily has its slope as rate, at every step and range with samples."""
    gap = gap_seconds * 1000
    values = [1e6 + slope * gap_seconds * index for index in range(count)]
    engine = make_engine({"x_total": values}, gap)
    result = engine.query_range(f"rate(x_total[{2 * gap_seconds + 1}s])", 2 * gap, (count - 1) * gap, gap)
    for _, value in as_points(result)[""]:
        assert value == pytest.approx(slope, rel=1e-6)


@given(st.lists(VALUES, min_size=1, max_size=30), st.integers(1, 4))
def test_sum_of_parts(values: list[float], groups: int) -> None:
    """The sum of the sums by a label is the sum of all."""
    engine = make_engine({f"x l={index} g={index % groups}": [value] for index, value in enumerate(values)})
    whole = as_dict(engine.query("sum(x)", 0))[""]
    assert as_dict(engine.query("sum(sum by (g) (x))", 0))[""] == pytest.approx(whole, rel=1e-9, abs=1e-3)
    assert whole == pytest.approx(math.fsum(values), rel=1e-15, abs=1e-12)


@given(st.lists(ANY_VALUES, min_size=1, max_size=12))
def test_aggregation_of_one(values: list[float]) -> None:
    """Groups of one series give the series itself."""
    engine = make_engine({f"x l={index}": [value] for index, value in enumerate(values)})
    plain = [one.floats[0][1] for one in engine.query("x", 0).series]
    for text in ("sum by (l) (x)", "avg by (l) (x)", "min without () (x)", "max by (l) (x)"):
        found = [one.floats[0][1] for one in engine.query(text, 0).series]
        assert np.array_equal(found, plain, equal_nan=True), text


@pytest.mark.slow
@given(st.lists(st.none() | VALUES, min_size=1, max_size=12), st.integers(1, 5), st.integers(0, 3))
def test_instant_and_range(values: list[float | None], step: int, start: int) -> None:
    """Each step of a range query equals an instant query at its time."""
    engine = make_engine({"x_total": values, "x_total l=1": values[::-1]})
    for text in ("x_total", "rate(x_total[3m])", "sum(x_total) / 2", "max_over_time(x_total[4m:30s])", "-x_total > 1"):
        times = range(start * MINUTE, 10 * MINUTE, step * MINUTE)
        whole = engine.query_range(text, times[0], times[-1], step * MINUTE)
        for at in times:
            cut = {one.labels: value for one in whole.series for moment, value in one.floats if moment == at}
            assert cut == {one.labels: one.floats[0][1] for one in engine.query(text, at).series}, (text, at)


def list_windows(times: list[int], values: list[float], ends: list[int], length: int) -> Windows:
    """Return the windows of one series."""
    samples = Samples(np.array([0, len(times)]), np.array(times, np.int64), np.array(values))
    edges = np.array(ends, np.int64)
    return find_windows(samples, edges - length, edges, Options().make_budget())


@given(
    st.lists(st.tuples(st.integers(0, 500), ANY_VALUES), max_size=40, unique_by=lambda one: one[0]), st.integers(1, 300)
)
def test_windows(points: list[tuple[int, float]], length: int) -> None:
    """Sums and extremes of windows equal those of the samples in (t - range, t]."""
    points.sort()
    times, values = [time for time, _ in points], [value for _, value in points]
    ends = list(range(-50, 600, 50))
    windows = list_windows(times, values, ends, length)
    with np.errstate(all="ignore"):
        sums, highest = sum_windows(windows)[0], reduce_extreme(windows, np.fmax)[0]
    for column, end in enumerate(ends):
        inside = [value for time, value in points if end - length < time <= end]
        assert windows.counts[0, column] == len(inside)
        known = [value for value in inside if not math.isnan(value)]
        assert inside == [] or (known and highest[column] == max(known)) or math.isnan(highest[column])
        if all(math.isfinite(value) and abs(value) < 1e300 for value in inside):
            assert sums[column] == pytest.approx(math.fsum(inside), rel=1e-12, abs=1e-290)


@given(
    st.lists(st.lists(st.integers(-200, 500), max_size=20, unique=True), max_size=4),
    st.integers(-100, 400),
    st.integers(1, 120),
    st.integers(1, 12),
    st.integers(1, 400),
)
def test_windows_on_a_grid(series: list[list[int]], first: int, step: int, count: int, length: int) -> None:
    """Steps of equal distance have the windows that each step has alone, for many series."""
    times = np.array([time for one in series for time in sorted(one)], np.int64)
    bounds = np.cumsum([0, *map(len, series)])
    samples = Samples(bounds, times, np.zeros(len(times)))
    ends = first + np.arange(count, dtype=np.int64) * step
    found = find_windows(samples, ends - length, ends, Options().make_budget())
    for column, end in enumerate(ends.tolist()):
        for row, one in enumerate(series):
            inside = times[found.low[row, column] : found.high[row, column]].tolist()
            assert inside == sorted(time for time in one if end - length < time <= end)


@given(st.lists(VALUES, min_size=1, max_size=20), st.floats(0, 1))
def test_quantile(values: list[float], quantile: float) -> None:
    """A quantile without NaN is numpy's linear one."""
    column = np.array(values)[:, None]
    found = quantile_of_columns(column, np.ones(column.shape, np.bool_), np.array([quantile]))[0]
    assert found == pytest.approx(np.quantile(values, quantile), rel=1e-9, abs=1e-9)


HISTOGRAMS = st.builds(
    lambda schema, zero, offset, counts: Histogram(
        schema, zero + sum(counts), 1.0, 1e-9, zero, make_buckets(offset, counts), make_buckets(-2, counts[:2])
    ),
    st.integers(-2, 4),
    st.integers(0, 9).map(float),
    st.integers(-8, 8),
    st.lists(st.integers(0, 50).map(float), max_size=8),
)


@given(HISTOGRAMS, HISTOGRAMS)
def test_histogram_sums(left: Histogram, right: Histogram) -> None:
    """Adding and subtracting again gives the first histogram, in the lower schema."""
    total = add(left, right).histogram
    assert total.count == left.count + right.count
    assert total.schema == min(left.schema, right.schema)
    back = subtract(total, right).histogram.compact()
    zero = Histogram(total.schema, zero_threshold=total.zero_threshold)
    assert back.equals(add(left, zero).histogram.compact())
    assert combine_all([left, right]).histogram.equals(total)
    assert not has_reset(total, left)


@given(HISTOGRAMS, st.floats(0.01, 0.99))
def test_fraction_inverts_quantile(histogram: Histogram, quantile: float) -> None:
    """The fraction below a quantile is the quantile's rank, where the buckets hold all observations."""
    total = sum(one.count for one in histogram.all_buckets())
    if not total:
        return
    complete = Histogram(
        histogram.schema,
        total,
        1.0,
        histogram.zero_threshold,
        histogram.zero_count,
        histogram.positive.compact(),
        histogram.negative.compact(),
    )
    value, _ = histogram_quantile(quantile, complete)
    fraction, _ = histogram_fraction(-math.inf, value, complete)
    assert fraction == pytest.approx(quantile, abs=1e-6)
