"""Data files as Arrow, with the dictionaries that they were written with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from neve.lake.read.data_file_reader import DataFileReader
from tests.autopilot.recommend.made import catalog_in

if TYPE_CHECKING:
    from pathlib import Path

    from pyiceberg.table import Table

ROWS = 3000


@pytest.fixture
def tags(tmp_path: Path, iceberg: None) -> Table:
    """A table whose texts are in a map."""
    return catalog_in(tmp_path).create_table(
        "t.tags", pa.schema([("text", pa.string()), ("tags", pa.map_(pa.string(), pa.string()))])
    )


def written(table: Table, path: Path, row_group_size: int) -> tuple[Path, pa.Table]:
    """A file of the table, in row groups of some size, and its rows."""
    files = DataFileReader(table.io, table.schema())
    rows = pa.table(
        {
            "text": [f"text {number % 50}" for number in range(ROWS)],
            "tags": [[("key", f"value {number % 70}"), ("row", str(number // 1000))] for number in range(ROWS)],
        },
        files._current,
    )
    pq.write_table(rows, path, row_group_size=row_group_size)
    return path, rows


@pytest.mark.parametrize("row_group_size", [ROWS, 1000, 7])
@pytest.mark.parametrize("with_dictionaries", [True, False])
def test_row_groups_that_each_have_a_dictionary(
    tags: Table, tmp_path: Path, row_group_size: int, with_dictionaries: bool
) -> None:
    """However many there are, the rows come in their order: Arrow can't join dictionaries within maps."""
    path, rows = written(tags, tmp_path / "tags.parquet", row_group_size)
    files = DataFileReader(tags.io, tags.schema(), with_dictionaries=with_dictionaries)
    found = [piece for piece in files.read(str(path)) if piece.num_rows]
    assert [row for piece in found for row in piece.to_pylist()] == rows.to_pylist()
    items = found[0].column("tags").type.item_type
    assert pa.types.is_dictionary(items) is with_dictionaries
