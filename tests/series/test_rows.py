"""Rows of series: merging in any order and any number of times gives the same."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neve.model.tables import METRICS as METRICS_TABLE
from neve.series.rows import METRICS, join_lists, make_rows, merge_rows

BEGIN = datetime(2026, 1, 1, 22, tzinfo=UTC)


def make_point(minutes: int, owner: str, path: str, bounds: list[float] | None) -> dict[str, Any]:
    """Return a point, with an id if its path is short."""
    return {
        "organization_id": owner,
        "timestamp": BEGIN + timedelta(minutes=minutes),
        "metric_name": "latency",
        "metric_type": "histogram",
        "attributes": [("path", path)],
        "resource_attrs": [],
        "explicit_bounds": bounds,
        "description": f"at {minutes}",
    }


points = st.builds(
    make_point,
    st.integers(0, 240),
    st.sampled_from(["acme", "globex"]),
    st.sampled_from(["/a", "/b"]),
    st.sampled_from([None, [], [1.0, 5.0], [1.0, 2.0, 5.0]]),
)


def to_batch(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    """Return the columns that the job reads."""
    schema = pa.schema([METRICS_TABLE.schema.field(name).with_nullable(True) for name in METRICS.columns])
    return pa.Table.from_pylist(rows, schema=schema).combine_chunks().to_batches()[0]


def simplify(rows: pa.Table) -> list[Any]:
    """Return rows in one order."""
    return sorted((repr(row) for row in rows.to_pylist()), key=str)


@pytest.mark.slow
@settings(deadline=None, max_examples=30)
@given(st.lists(points, min_size=1, max_size=12, unique_by=lambda one: one["timestamp"]), st.data())
def test_merging_is_idempotent(rows: list[dict[str, Any]], data: st.DataObject) -> None:
    """Points that are read in parts, in another order or twice, have the rows of all points read at once."""
    whole = make_rows(METRICS, to_batch(rows))
    shuffled = data.draw(st.permutations(rows))
    cut = data.draw(st.integers(1, len(rows)))
    parts = [make_rows(METRICS, to_batch(part)) for part in (shuffled[:cut], shuffled[cut:], rows[:1]) if part]
    assert simplify(merge_rows(METRICS, pa.concat_tables(parts))) == simplify(whole)
    assert simplify(merge_rows(METRICS, pa.concat_tables([whole, whole]))) == simplify(whole)
    series = {(one["organization_id"], repr(one["attributes"]), one["timestamp"].date()) for one in rows}
    assert whole.num_rows == len(series)


def test_lists_are_joined() -> None:
    """A group has each value of its lists once, in order, and null without any."""
    lists = pa.array([[5.0, 1.0], None, [1.0, 2.0], []], pa.list_(pa.float64()))
    assert join_lists(lists, np.array([0, 1, 0, 2]), 3).to_pylist() == [[1.0, 2.0, 5.0], None, None]
