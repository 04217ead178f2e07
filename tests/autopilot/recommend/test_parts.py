"""The parts of the estimate: literals, samples, curves, intervals."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.types import DateType, DecimalType, LongType, StringType, TimestamptzType

from neve.autopilot.estimate.columns import find_bound_lengths
from neve.autopilot.estimate.confidence_interval import build_interval, resample_weights
from neve.autopilot.estimate.sample import Sample, SampleSize, take_sample
from neve.autopilot.estimate.simulator import BITS, assign_ranges
from neve.autopilot.estimate.table_files import read_table_files
from neve.compact.execution import spark_rewriter as compaction
from neve.predicate.comparable import to_comparable
from neve.predicate.compiled_filters import SortedLiterals
from tests.autopilot.recommend.made import catalog_in, table_of

if TYPE_CHECKING:
    from pathlib import Path

    from pyiceberg.table import Table


@given(st.lists(st.integers(-20, 20)), st.lists(st.integers(-25, 25), min_size=1))
def test_places_compare_as_the_values_do(literals: list[int], values: list[int]) -> None:
    """Of any value and literal: below, equal or above, by their places alone."""
    cuts = SortedLiterals(literals)
    many = cuts.places(np.array(values))
    for value, place in zip(values, many.tolist(), strict=True):
        assert place == cuts.place(value)
        for literal in literals:
            other = cuts.place(literal)
            assert (place < other, place == other) == (value < literal, value == literal)
            assert (place <= cuts.below(literal)) == (value < literal)


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (DateType(), "1970-01-02", 1),
        (DateType(), datetime(1970, 1, 2, 12, tzinfo=UTC), 1.5),
        (TimestamptzType(), "1970-01-01T00:00:01+00:00", 1_000_000),
        (DecimalType(9, 2), Decimal("1.005"), 100.5),
        (LongType(), 2.5, 2.5),
        (LongType(), "x", None),
        (LongType(), True, None),
        (StringType(), 5, None),
    ],
)
def test_literals_become_what_the_column_compares(kind: Any, value: object, expected: float | None) -> None:
    """Whatever type a log gives a literal; what is no value of the column is none."""
    found = to_comparable(kind, value)
    assert found == expected if expected is not None else found is None


@given(st.lists(st.integers(0, 300), min_size=1, max_size=300))
def test_ranges_of_a_curve_are_those_of_compaction(values: list[int]) -> None:
    """The same boundaries, so that what is simulated is what compaction makes of the same rows."""
    cuts = compaction.find_boundaries(values)
    expected = [sum(cut <= value for cut in cuts) for value in values]  # type: ignore[operator]
    _distinct, ranks = np.unique(values, return_inverse=True)
    groups = np.zeros(len(values), dtype=np.int64)
    assert assign_ranges(ranks.astype(np.int64), groups, np.ones(len(values))).tolist() == expected
    assert BITS == compaction.BITS


def test_ranges_are_of_each_partition_and_null_is_first() -> None:
    """Each partition has boundaries of its own; a null has passed none."""
    ranks = np.array([0, 1, 2, 3, 100, 101, 102, 103, -1])
    groups = np.array([0] * 4 + [1] * 4 + [1])
    numbers = assign_ranges(ranks, groups, np.ones(9))
    assert numbers[:4].tolist() == numbers[4:8].tolist()
    assert numbers[8] == 0


ROWS = 4000


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Table:
    """A table with a struct, a map and a column that was added later."""
    rows = pa.table(
        {
            "number": pa.array(range(ROWS), pa.int64()),
            "resource": pa.array([{"id": f"r{place % 5}"} for place in range(ROWS)]),
            "attributes": pa.array(
                [[("route", f"/{place % 3}")] if place % 2 else [] for place in range(ROWS)],
                pa.map_(pa.string(), pa.string()),
            ),
        }
    )
    made = table_of(catalog_in(tmp_path_factory.mktemp("sample")), "sampled", rows, rows_per_file=500)
    with made.update_schema() as update:
        update.add_column("later", LongType())
        update.rename_column("number", "renamed")
    return made.refresh()


def sample_of(table: Table, rows: int) -> Sample:
    """A sample of all kinds of columns."""
    names = ["renamed", "resource.id", "attributes['route']", "later", "unknown"]
    return take_sample(table, read_table_files(table, names), names, SampleSize(rows, 100, seed=1))


def test_a_sample_has_rows_of_every_file(table: Table) -> None:
    """Weights add up to the rows of the table; fields, keys, new and renamed columns are found."""
    sample = sample_of(table, 800)
    assert sample.rows == 800
    assert sample.weights.sum() == pytest.approx(ROWS)
    assert set(sample.files.tolist()) == set(range(8))
    assert "unknown" not in sample.columns
    numbers = sample.columns["renamed"].to_pylist()
    assert len(set(numbers)) == 800
    routes = sample.columns["attributes['route']"].to_pylist()
    assert routes == [f"/{number % 3}" if number % 2 else None for number in numbers]
    assert sample.columns["resource.id"].to_pylist() == [f"r{number % 5}" for number in numbers]
    assert sample.columns["later"].null_count == 800
    assert sample.key_shares["attributes['route']"] == pytest.approx(1.0)


def test_a_sample_repeats(table: Table) -> None:
    """The same seed and files give the same rows; a thinner one still stands for the whole table."""
    one, other = sample_of(table, 200), sample_of(table, 200)
    assert one.columns["renamed"].equals(other.columns["renamed"])
    thin = one.thin(50, seed=2)
    assert thin.rows == 50
    assert thin.weights.sum() == pytest.approx(ROWS)


def test_an_interval_holds_its_estimate(table: Table) -> None:
    """Drawn samples spread around it, never more narrowly than the model's own error."""
    drawn = [weights.sum() / ROWS for weights in resample_weights(sample_of(table, 400), 20, seed=3)]
    found = build_interval(1.0, np.array(drawn), 0.9, 0.01)
    assert found.low < 1.0 - 0.01
    assert found.high > 1.0 + 0.01
    narrow = build_interval(0.5, np.full(9, 0.4), 0.9, 0.02)
    assert (narrow.low, narrow.high) == pytest.approx((0.48, 0.52))


def test_columns_past_the_hundredth_have_no_bounds(tmp_path: Path) -> None:
    """Unless a property names them; text is cut to sixteen characters, or as the property says."""
    rows = pa.table({f"c{number:03d}": pa.array(["x"]) for number in range(103)})
    named = {"write.metadata.metrics.column.c102": "truncate(4)", "write.metadata.metrics.column.c001": "none"}
    made = table_of(catalog_in(tmp_path), "wide", rows, rows_per_file=1, properties=named)
    lengths = find_bound_lengths(made.schema(), dict(made.properties))
    assert lengths["c000"] == 16
    assert lengths["c102"] == 4
    assert not {"c001", "c100", "c101"} & set(lengths)
