"""Points in flat columns: order, series, samples."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from neve.promql.series import is_stale
from neve.promql.storage.point_rows import INTEGERS, NANOS, NO_VALUE, PointRows, read_floats
from neve.promql.storage.points import Points, build_set, expand

if TYPE_CHECKING:
    from collections.abc import Sequence

LABELS = [(("pod", "b"),), (("pod", "a"),), (("pod", "c"),)]
ROWS = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.integers(0, 40).map(lambda half: half * NANOS // 2),
        st.sampled_from([0, 0, 0, NO_VALUE]),
        st.none() | st.floats(-1e9, 1e9),
    ),
    max_size=40,
)


def make_table(rows: Sequence[tuple[int, int, int, float | None]]) -> pa.Table:
    """Return rows as SQL returns them, with ids 10, 20 and 30."""
    columns = [[row[place] for row in rows] for place in range(4)]
    return pa.table(
        {
            "series_id": pa.array([10 + 10 * row[0] for row in rows], pa.int64()),
            "time_unix_nano": pa.array(columns[1], pa.int64()),
            "start_time_unix_nano": pa.nulls(len(columns[0]), pa.int64()),
            "flags": pa.array(columns[2], pa.int64()),
            "value": pa.array(columns[3], pa.float64()),
        }
    )


@given(ROWS, st.booleans(), st.integers(0, 10), st.integers(10, 20))
def test_all_at_once(
    rows: list[tuple[int, int, int, float | None]], is_sorted: bool, start_ms: int, end_ms: int
) -> None:
    """Reading all series at once gives the samples that reading each alone gives."""
    table = make_table(sorted(rows, key=lambda row: row[:2]) if is_sorted else rows)
    points = PointRows.of_ids(table, np.array([10, 20]), np.array([1, 0]))
    found = read_floats(points, LABELS[:2], start_ms, end_ms)
    columns = []
    for labels, one in zip(LABELS, points.split(2), strict=False):
        times, starts, flags = (one[name] for name in INTEGERS)
        alone = Points(times // NANOS, starts // NANOS, flags, False, {"value": one["value"]})
        [column] = expand(alone, "gauge", "", labels)
        inside = (column.times_ms >= start_ms) & (column.times_ms <= end_ms)
        columns.append(type(column)(labels, column.times_ms[inside], column.values[inside], column.starts_ms[inside]))
    expected = build_set(columns)
    assert found.labels == expected.labels
    assert found.floats.bounds.tolist() == expected.floats.bounds.tolist()
    assert found.floats.times.tolist() == expected.floats.times.tolist()
    assert np.array_equal(found.floats.values, expected.floats.values, equal_nan=True)
    assert is_stale(found.floats.values).tolist() == is_stale(expected.floats.values).tolist()


def test_files_in_turn() -> None:
    """Sorted files that follow each other are merged by their runs, those that overlap point by point."""
    first = [(series, time * NANOS, 0, 1.0 * time) for series in (0, 1) for time in range(5)]
    later = [(series, time * NANOS, 0, 1.0 * time) for series in (0, 1) for time in range(5, 10)]
    between = [(series, time * NANOS + 1, 0, 1.0 * time) for series in (0, 1) for time in range(5)]
    for rows in (first + later, later + first, first + between):
        points = PointRows.of_ids(make_table(rows), np.array([10, 20]), np.array([0, 1]))
        for columns in points.split(2):
            assert columns["time_unix_nano"].tolist() == sorted(columns["time_unix_nano"].tolist())
            assert len(columns["time_unix_nano"]) == len(rows) // 2


def test_left_out_series() -> None:
    """Series without labels are left out, and rows of unknown ids are dropped."""
    points = PointRows.of_ids(
        make_table([(0, 0, 0, 1.0), (1, 0, 0, 2.0), (2, 0, 0, 3.0)]), np.array([10, 20]), np.arange(2)
    )
    found = read_floats(points, [None, LABELS[0]], 0, 10)
    assert found.labels == [LABELS[0]]
    assert found.floats.values.tolist() == [2.0]
