"""Questions to a sample: what is exact, what is noted, and quantiles as their definition has them."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neve.errors import ConfigError, InputError
from neve.reservoir.estimate.estimators import Question, RankedValues, estimate
from neve.reservoir.estimate.sample import Sample
from tests.reservoir.estimate.draws import heavy_tails, priority

if TYPE_CHECKING:
    from neve.reservoir.estimate.result import Estimate

MINUTE = 60_000_000_000
numbers = st.floats(-1e6, 1e6, allow_subnormal=False)


def kept_all(values: list[float | None], group: list[str | None] | None = None, **columns: Any) -> Sample:
    """A sample for which nothing was left out."""
    ones = np.ones(len(values))
    design = {"weight": ones, "adjusted": ones, "tau": 0 * ones, "method": ["priority"] * len(values)}
    names = pa.array(group or ["a"] * len(values), pa.string())
    return Sample.of(pa.table({**design, "group": names, "value": pa.array(values, pa.float64()), **columns}))


def one_of(size: int, tau: float = 10.0) -> Sample:
    """A group of which `size` records were kept, each of which stands for `tau`."""
    ones, value = np.ones(size), np.arange(size, dtype=float)
    design = {"weight": ones, "adjusted": tau * ones, "tau": tau * ones, "method": ["priority"] * size}
    return Sample.of(pa.table({**design, "group": ["a"] * size, "value": value}))


@pytest.mark.slow
@given(st.lists(st.tuples(st.sampled_from(["a", "b", None]), numbers), min_size=1, max_size=40), st.floats(0.01, 0.99))
def test_where_everything_was_kept_all_is_exact(rows: list[tuple[str | None, float]], quantile: float) -> None:
    """Every number is the true one, its interval has no width, and nothing is noted."""
    sample = kept_all([value for _, value in rows], [group for group, _ in rows])
    told = estimate(sample, Question("value", (quantile,)))
    for line in told.groups:
        mine = sorted(value for group, value in rows if group == line.group)
        total, share, summed, mean, at = line.estimates.values()
        assert (total.value, share.value) == (len(mine), len(mine) / len(rows))
        assert summed.value == pytest.approx(math.fsum(mine), rel=1e-9, abs=1e-6)
        assert mean.value == pytest.approx(math.fsum(mine) / len(mine), rel=1e-9, abs=1e-6)
        assert at.value == mine[math.ceil(round(quantile * len(mine), 9)) - 1]
        for one in line.estimates.values():
            assert (one.low, one.high, one.error, one.note) == (one.value, one.value, 0.0, "")


@given(
    st.lists(st.tuples(st.integers(0, 3), numbers, st.floats(0.1, 10)), min_size=1, max_size=40),
    st.lists(st.floats(0.01, 0.99), min_size=4, max_size=4),
)
def test_weighted_quantiles_are_those_of_the_definition(
    rows: list[tuple[int, float, float]], parts: list[float]
) -> None:
    """The least value up to which at least so large a part of the weight lies, for each domain by itself."""
    codes, values, weights = (np.array(column) for column in zip(*rows, strict=True))
    found = RankedValues.of(values.astype(float), weights.astype(float), codes, 4).at(np.array(parts))
    for domain, part in enumerate(parts):
        mine = codes == domain
        if not mine.any():
            assert np.isnan(found[domain])
            continue
        up_to = weights[mine & (values <= found[domain])].sum() / weights[mine].sum()
        below = weights[mine & (values < found[domain])].sum() / weights[mine].sum()
        assert below - 1e-9 <= part <= up_to + 1e-9


def test_groups_come_with_the_largest_first() -> None:
    """And items without a group are one of their own."""
    told = estimate(kept_all([1.0] * 6, ["b", "a", None, "a", "b", None]))
    assert [line.group for line in told.groups] == ["a", "b", None]


def test_rates_are_over_all_windows() -> None:
    """A group that is in one window of two has its rate over both."""
    times = {"window_start": [0, 0, MINUTE], "window_end": [MINUTE, MINUTE, 2 * MINUTE]}
    told = estimate(kept_all([1.0] * 3, ["a", "a", "b"], **times))
    assert (told.windows, told.seconds) == (2, 120.0)
    assert [line.estimates["rate"].value for line in told.groups] == [2 / 120, 1 / 120]


def test_exact_totals_are_so_by_group_and_overall_but_not_for_other_groupings() -> None:
    """`by` cuts across what the sampler kept the totals of."""
    design = {"weight": [1.0] * 4, "adjusted": [5.0] * 4, "tau": [5.0] * 4, "method": ["exact_total"] * 4}
    by_group = estimate(Sample.of(pa.table({**design, "group": ["a", "a", "b", "b"]})))
    assert [line.estimates["total"].error for line in (by_group.overall, *by_group.groups)] == [0.0] * 3
    across = estimate(Sample.of(pa.table({**design, "group": ["a", "a", "b", "b"], "by": ["x", "y", "x", "y"]})))
    assert across.overall.estimates["total"].error == 0.0
    assert all(line.estimates["total"].error > 0 for line in across.groups)
    assert (by_group.unseen, across.unseen > 5) == (0.0, True)


@pytest.mark.parametrize(
    ("size", "notes"),
    [
        (1, ("based on only 1 sampled item", "based on only 1 item", "1 item is too few for p90")),
        (9, ("based on only 9 sampled items", "based on only 9 items", "9 items are too few for p90")),
        (20, ("", "based on only 20 items", "20 items are too few for p90")),
        (60, ("", "", "")),
    ],
)
def test_too_few_items_are_noted(size: int, notes: tuple[str, str, str]) -> None:
    """With how many there are."""
    told = estimate(one_of(size), Question("value", (0.9,))).overall.estimates
    assert (told["total"].note, told["mean"].note, told["p90"].note) == notes


def test_a_single_item_bounds_no_mean_and_few_bound_no_extreme_quantile() -> None:
    """Limits that the items don't give are infinite, and null in JSON."""
    mean = estimate(one_of(1), Question("value")).overall.estimates["mean"]
    assert (mean.low, mean.high) == (-math.inf, math.inf)
    extreme = estimate(one_of(60), Question("value", (0.999,))).overall.estimates["p99.9"]
    assert (extreme.value, extreme.high) == (59.0, math.inf)
    assert extreme.as_document() | {"low": 0} == {
        "estimate": 59.0,
        "low": 0,
        "high": None,
        "standard_error": None,
        "items": 60,
        "note": "60 items are too few for p99.9",
    }


def test_items_without_a_value_are_counted_and_said() -> None:
    """Nulls, NaN and infinite values are in no sum, mean or quantile, and a group of them has none."""
    values = [1.0, None, float("nan"), float("inf"), 5.0, None]
    told = estimate(kept_all(values, ["a", "a", "a", "a", "a", "b"]), Question("value", (0.5,)))
    assert told.overall.without_value == 4
    assert "4 of 6 kept items have no value (none, NaN or infinite)" in told.remarks[0]
    first, second = told.groups
    assert [first.estimates[kind].value for kind in ("total", "sum", "mean", "p50")] == [5.0, 6.0, 3.0, 1.0]
    assert second.estimates["mean"].note == "no kept item has a value"
    assert json.dumps(told.as_document(), allow_nan=False)


def test_equal_values_are_said_to_tell_little() -> None:
    """An interval without width would be too sure."""
    ones = np.ones(80)
    design = {"weight": ones, "adjusted": 9 * ones, "tau": 9 * ones, "method": ["priority"] * 80, "value": ones}
    mean = estimate(Sample.of(pa.table(design)), Question("value")).overall.estimates["mean"]
    assert "all kept items have the same value" in mean.note


def test_an_earlier_sampling_is_remarked() -> None:
    """Its error can't be seen here."""
    told = estimate(Sample.of(priority(heavy_tails(1), 1, 1).table()))
    assert "a weight other than 1" in told.remarks[0]
    assert estimate(one_of(3)).remarks == ()


def inside(one: Estimate) -> bool:
    """Whether an estimate is within its own limits."""
    return one.low <= one.value <= one.high


@pytest.mark.slow
@given(st.integers(1, 30), st.floats(1.01, 1e6), st.floats(0.5, 0.999))
def test_totals_lie_within_their_limits_and_never_below_what_was_kept(size: int, tau: float, level: float) -> None:
    """Whatever the number of items, the threshold and the level."""
    told = estimate(one_of(size, tau), Question("value", (0.5,), level)).overall.estimates
    assert inside(told["total"])
    assert inside(told["p50"])
    assert told["total"].low >= size


def test_an_empty_sample_is_refused() -> None:
    """There is nothing to estimate from."""
    with pytest.raises(InputError, match="the sample is empty"):
        estimate(kept_all([]))


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"level": 1.0}, "level is 1, expected a number between 0 and 1"),
        ({"of": "value", "quantiles": (0.0,)}, "quantile is 0, expected a number between 0 and 1"),
        ({"quantiles": (0.5,)}, "quantiles need a column of values"),
    ],
)
def test_wrong_questions_are_refused(wrong: dict[str, Any], words: str) -> None:
    """With the value and what was expected."""
    with pytest.raises(ConfigError, match=words):
        Question(**wrong)
