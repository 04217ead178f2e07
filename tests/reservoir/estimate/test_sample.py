"""What a table must be like to be a sample, and what is said where it is not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from neve.errors import InputError
from neve.reservoir.estimate.estimators import estimate
from neve.reservoir.estimate.sample import Sample

MINUTE = 60_000_000_000


def table(**columns: Any) -> pa.Table:
    """Three kept items: two light, one heavy."""
    usual = {
        "window_start": [0, 0, MINUTE],
        "window_end": [MINUTE, MINUTE, 2 * MINUTE],
        "group": ["a", None, "a"],
        "weight": [1.0, 1.0, 9.0],
        "adjusted": [4.0, 1.0, 9.0],
        "tau": [4.0, 0.0, 4.0],
        "method": ["priority", "priority", "exact_total"],
        "duration": [5.0, None, 7.0],
    }
    return pa.table({name: column for name, column in (usual | columns).items() if column is not None})


def test_a_sample_is_read() -> None:
    """Weights, chances, strata, windows and values, with NaN where an item has none."""
    sample = Sample.of(table(count=pa.array([1, 2, 3]), id=["x", "y", "z"], part=["p", "p", "p"]))
    assert sample.items == 3
    assert sample.doubt.tolist() == [0.75, 0.0, 0.0]
    assert sample.exact.tolist() == [False, False, True]
    assert sample.domains.names == ("a", None)
    assert len(set(sample.strata.tolist())) == 3
    assert sample.windows is not None
    assert sample.windows.seconds == 120.0
    assert sorted(sample.values) == ["count", "duration"]
    assert np.isnan(sample.value("duration")).tolist() == [False, True, False]


@pytest.mark.parametrize("kind", [pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.timestamp("ns")])
def test_windows_may_be_timestamps(kind: pa.DataType) -> None:
    """Of any unit, with a zone or without."""
    start, end = (
        pa.array(edges, pa.int64()).cast(pa.timestamp("ns", kind.tz))
        for edges in ([0, 0, MINUTE], [MINUTE, MINUTE, 2 * MINUTE])
    )
    sample = Sample.of(table(window_start=start.cast(kind), window_end=end.cast(kind)))
    assert sample.windows is not None
    assert sample.windows.ends.tolist() == [MINUTE, 2 * MINUTE]
    assert [edge.isoformat() for edge in sample.windows.period] == [
        "1970-01-01T00:00:00+00:00",
        "1970-01-01T00:02:00+00:00",
    ]


def test_a_foreign_sample_has_adjusted_counts_alone() -> None:
    """Each item is one record that was kept with probability 1 / adjusted: its variance is a (a - 1)."""
    told = estimate(Sample.of(pa.table({"adjusted": [1.0, 10.0, 100.0]}))).overall.estimates
    assert list(told) == ["total", "share"]
    assert told["total"].value == 111.0
    assert told["total"].error == pytest.approx(np.sqrt(10 * 9 + 100 * 99))


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"adjusted": None}, "the sample has no column 'adjusted'"),
        ({"tau": None}, "the sample has no column 'tau'"),
        ({"window_end": None}, "has only the column 'window_start'"),
        ({"adjusted": [4.0, 1.0, 8.0]}, "adjusted weight below their own, the first in row 2: adjusted 8 < weight 9"),
        ({"adjusted": [5.0, 1.0, 9.0]}, "not the larger of weight and tau, the first in row 0: adjusted 5, weight 1"),
        ({"weight": [1.0, float("nan"), 9.0]}, "1 of 3 kept items have a bad weight, the first in row 1: nan"),
        ({"weight": [1.0, None, 9.0]}, "1 of 3 kept items have a bad weight, the first in row 1: None"),
        ({"weight": [1.0, 0.0, -1.0]}, "2 of 3 kept items have a bad weight, the first in row 1: 0.0"),
        ({"tau": [float("inf"), 0.0, 4.0]}, "1 of 3 kept items have a bad tau, the first in row 0: inf"),
        ({"adjusted": ["four", "1", "9"]}, "the column 'adjusted' of the sample has no numbers"),
        ({"method": ["priority", "a_res", "priority"]}, "the sampling method is 'a_res', expected priority or"),
        ({"method": ["priority", None, "priority"]}, "the sampling method is None"),
        ({"window_end": [MINUTE, MINUTE, 1]}, "the window of row 2 ends at 1970-01-01T00:00:00.000000Z, before"),
        ({"window_end": [2 * MINUTE, 2 * MINUTE, 3 * MINUTE]}, "the window from 1970-01-01T00:00:00"),
        ({"window_end": [MINUTE, MINUTE // 2, 2 * MINUTE]}, "overlaps with another"),
        ({"window_start": [0, None, MINUTE]}, "1 of 3 kept items have no window_start"),
        ({"window_start": ["0", "0", "1"]}, "is string, expected a timestamp or int64 nanoseconds"),
    ],
)
def test_what_is_no_sample_is_refused(columns: dict[str, Any], words: str) -> None:
    """With the column, the row, the value and what was expected."""
    with pytest.raises(InputError) as refused:
        Sample.of(table(**columns))
    assert words in refused.value.message


def test_an_unknown_value_is_named_with_those_that_there_are() -> None:
    """So that a typo is seen."""
    with pytest.raises(InputError, match="no numeric column 'durations'") as refused:
        Sample.of(table()).value("durations")
    assert refused.value.hint == "its numeric columns: duration"
