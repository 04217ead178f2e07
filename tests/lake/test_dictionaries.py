"""Slices of rows with dictionaries: written with the entries that they use, whatever they were cut from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neve.lake.write.data_file_writer import DataFileOptions, DataFileWriter
from neve.lake.write.encoding import shrink_dictionaries
from neve.lake.write.table_writer import Target
from tests.autopilot.recommend.made import catalog_in

if TYPE_CHECKING:
    from pathlib import Path

TEXTS = pa.dictionary(pa.int32(), pa.string())
ROWS = 600


def encoded(rows: int) -> pa.Table:
    """Rows with dictionaries at the top, in a map and in a list of structs."""
    texts = [f"text {number}" if number % 7 else None for number in range(rows)]
    tags = [[("key", text)] if number % 3 else None for number, text in enumerate(texts)]
    events = [[{"name": text}] * (number % 3) for number, text in enumerate(texts)]
    plain = pa.table(
        {
            "text": pa.array(texts, pa.string()),
            "tags": pa.array(tags, pa.map_(pa.string(), pa.string())),
            "events": pa.array(events, pa.list_(pa.struct([("name", pa.string())]))),
            "number": pa.array(range(rows), pa.int64()),
        }
    )
    kinds = {"text": TEXTS, "tags": pa.map_(TEXTS, TEXTS), "events": pa.list_(pa.struct([("name", TEXTS)]))}
    return plain.cast(pa.schema([field.with_type(kinds.get(field.name, field.type)) for field in plain.schema]))


WHOLE = encoded(ROWS)


@given(st.integers(0, ROWS), st.integers(0, 40), st.integers(0, 40))
def test_rows_and_types_stay(first: int, count: int, more: int) -> None:
    """Whatever is cut out, in one piece or two, and a dictionary is no longer than its values."""
    rows = pa.concat_tables([WHOLE.slice(first, count), WHOLE.slice(first // 2, more)])
    found = shrink_dictionaries(rows)
    assert found.schema.equals(rows.schema)
    assert found.to_pylist() == rows.to_pylist()
    for chunk in found.column("text").chunks:
        assert len(chunk.dictionary) <= max(count + more, 1)
    if count + more:
        items = found.column("tags").combine_chunks().items
        assert len(items.dictionary) <= max(len(items), 1)


def test_dictionaries_that_fit_are_not_touched() -> None:
    """Most rows are written as they were read."""
    assert shrink_dictionaries(WHOLE) is WHOLE


@pytest.mark.lake
def test_many_small_files_are_no_larger_than_one(tmp_path: Path) -> None:
    """Each file has the texts of its own rows, not those of all."""
    rows = pa.table({"text": pa.array([f"a text of some length {number}" for number in range(ROWS)]).cast(TEXTS)})
    table = catalog_in(tmp_path).create_table("t.texts", pa.schema([pa.field("text", pa.string())]))
    shaped = rows.cast(pa.schema([pa.field("text", TEXTS, metadata={"PARQUET:field_id": "1"})]))
    target = Target.of(table)
    shape = DataFileOptions(None, rows_per_file=20, dictionaries={"text"})
    with DataFileWriter(target.metadata, target.io, None, shape) as writer:
        writer.write(shaped)
    assert len(writer.files) == ROWS // 20
    sizes = []
    for file in writer.files:
        footer = pq.read_metadata(file.file_path.removeprefix("file://"))
        sizes.append(footer.row_group(0).column(0).total_uncompressed_size)
    assert max(sizes) < 20 * 40 + 200
