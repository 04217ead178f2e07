"""Estimates beside the truth."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest

from neve.errors import InputError
from neve.reservoir.estimate.comparison import Truth, compare
from neve.reservoir.estimate.estimators import Question, estimate
from neve.reservoir.estimate.sample import Sample

DESIGN = {"weight": [1.0] * 4, "adjusted": [5.0] * 4, "tau": [5.0] * 4, "method": ["priority"] * 4}
TIMES = {"window_start": [0] * 4, "window_end": [10_000_000_000] * 4}
FULL = pa.table(
    {
        "group": ["a", "a", "a", "b", "gone", None],
        "count": [8.0, 3.0, 1.0, 90.0, 7.0, 1.0],
        "value": [1.0, 2.0, None, 4.0, 5.0, 6.0],
    }
)


def sample(**columns: list[str]) -> Sample:
    """Three kept items of a, one of b."""
    return Sample.of(pa.table({**DESIGN, **TIMES, "value": [1.0, 1.0, 2.0, 4.0], **columns}))


def test_every_estimate_stands_beside_the_truth() -> None:
    """Totals, rates, shares, sums, means and quantiles, with the error in percent and whether the interval holds it."""
    told = compare(estimate(sample(group=["a", "a", "a", "b"]), Question("value", (0.5,))), Truth.of(FULL))
    first, second = told.groups
    true = {"total": 12.0, "rate": 1.2, "share": 12 / 110, "sum": 14.0, "mean": 14 / 11, "p50": 1.0}
    assert {kind: one.truth for kind, one in first.items()} == pytest.approx(true)
    assert first["total"].off == pytest.approx(25.0)
    assert first["total"].inside
    assert (second["total"].truth, second["total"].inside) == (90.0, False)
    assert told.overall["total"].truth == 110.0
    assert told.overall["p50"].truth == 4.0


def test_intervals_that_hold_the_truth_are_counted() -> None:
    """By kind; a group of which nothing was kept counts as one that the sampler must not lose."""
    told = compare(estimate(sample(group=["a", "a", "a", "b"])), Truth.of(FULL))
    assert told.missing == {"gone": 7.0, None: 1.0}
    assert (told.count_covered()["total"].covered, told.count_covered()["total"].intervals) == (1, 4)


def test_a_small_group_may_be_missing_where_groups_were_not_sampled_by_themselves() -> None:
    """From nothing kept follows: at most so many records as go unseen at this level."""
    told = compare(estimate(sample(group=["x"] * 4, by=["a", "a", "a", "b"])), Truth.of(FULL))
    assert told.estimates.unseen == pytest.approx(1.96**2 * 5, rel=1e-3)
    assert told.count_covered()["total"].covered == 3


def test_a_group_that_the_truth_does_not_know_has_none() -> None:
    """Its true total is 0, of which there is no error in percent."""
    told = compare(estimate(sample(group=["a", "a", "a", "new"])), Truth.of(FULL))
    assert set(told.groups[1]) == {"total"}
    assert (told.groups[1]["total"].truth, told.groups[1]["total"].off, told.groups[1]["total"].inside) == (
        0,
        None,
        False,
    )


def test_the_document_has_the_truth_in_it() -> None:
    """Beside each estimate, as valid JSON."""
    told = compare(
        estimate(sample(group=["a", "a", "a", "b"]), Question("value", (0.5,))), Truth.of(FULL)
    ).as_document()
    assert json.loads(json.dumps(told, allow_nan=False)) == told
    assert told["groups"][0]["total"]["truth"] == 12.0
    assert told["covering"]["total"] == {"covered": 1, "intervals": 4}
    assert told["missing"] == [{"group": "gone", "truth": 7.0}, {"group": None, "truth": 1.0}]


def test_values_by_the_row_and_by_the_count_are_the_same_truth() -> None:
    """A row for each record, or one for each distinct value."""
    rng = np.random.default_rng(1)
    values = rng.integers(0, 20, 500)
    rows = pa.table({"group": ["a"] * 500, "count": np.ones(500), "value": values.astype(float)})
    found, count = np.unique(values, return_counts=True)
    counted = pa.table({"group": ["a"] * len(found), "count": count.astype(float), "value": found.astype(float)})
    told = estimate(sample(group=["a"] * 4), Question("value", (0.25, 0.5, 0.9)))
    assert Truth.of(rows).overall(told) == pytest.approx(Truth.of(counted).overall(told))
    assert Truth.of(rows).overall(told)["p90"] == np.quantile(values, 0.9, method="inverted_cdf")


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (FULL.drop(["group"]), "the truth has no column 'group'"),
        (FULL.drop(["count"]), "has no column 'count'"),
        (FULL.set_column(1, "count", [[-1.0] * 6]), "bad count, the first in row 0: -1.0"),
    ],
)
def test_what_is_no_truth_is_refused(table: pa.Table, words: str) -> None:
    """By name."""
    with pytest.raises(InputError, match=words):
        Truth.of(table)
