"""A hash of rows that does not depend on their order."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neve.compact.execution.rewritten_group import Fingerprint
from neve.compact.execution.verification import choose_hashed_columns, fingerprint_rows, sum_fingerprints
from neve.lake.tables import iceberg_schema, sort_order
from neve.model.tables import SPANS

COLUMNS = ("id", "name", "tags")
RECORD = st.tuples(st.integers(0, 3), st.one_of(st.none(), st.text("xy", max_size=2)))


def table(records: list[tuple[int, str | None]]) -> pa.Table:
    """Rows of the three kinds that matter: fixed, variable, nested."""
    return pa.table(
        {
            "id": pa.array([number for number, _ in records], pa.int64()),
            "name": pa.array([name for _, name in records], pa.string()),
            "tags": pa.array([[("k", name)] for _, name in records], pa.map_(pa.string(), pa.string())),
        }
    )


@pytest.mark.slow
@settings(deadline=None)
@given(records=st.lists(RECORD, max_size=30), cut=st.integers(0, 30), seed=st.integers(0, 99))
def test_order_and_pieces_make_no_difference(records: list[tuple[int, str | None]], cut: int, seed: int) -> None:
    """Shuffled and cut into pieces, rows have the same fingerprint."""
    shuffled = random.Random(seed).sample(records, len(records))
    pieces = [table(shuffled[:cut]), table(shuffled[cut:])]
    assert sum_fingerprints(fingerprint_rows(piece, COLUMNS) for piece in pieces) == fingerprint_rows(
        table(records), COLUMNS
    )


@pytest.mark.slow
@settings(deadline=None)
@given(records=st.lists(RECORD, min_size=1, max_size=20), data=st.data())
def test_another_row_is_another_fingerprint(records: list[tuple[int, str | None]], data: st.DataObject) -> None:
    """One row lost, doubled or changed does not go unnoticed."""
    whole = fingerprint_rows(table(records), COLUMNS)
    place = data.draw(st.integers(0, len(records) - 1))
    changed = [*records]
    changed[place] = (7, "other")
    assert fingerprint_rows(table(records[:place] + records[place + 1 :]), COLUMNS) != whole
    assert fingerprint_rows(table([*records, records[place]]), COLUMNS) != whole
    assert fingerprint_rows(table(changed), COLUMNS) != whole


def test_the_sample_is_the_records_own_hash() -> None:
    """Where a table has `record_id`, a sample covers whole records."""
    schema = iceberg_schema(SPANS)
    order = sort_order(SPANS, schema)
    sample = choose_hashed_columns(schema, order, "sample")
    assert sample[:3] == ("record_id", "service_name", "timestamp")
    assert choose_hashed_columns(schema, order, "full") == tuple(column.name for column in SPANS.columns)
    assert choose_hashed_columns(schema, order, "count") == ()


def test_only_counted() -> None:
    """Without columns, rows are counted."""
    assert fingerprint_rows(table([(1, "a"), (2, "b")]), ()) == Fingerprint(2, 0)
