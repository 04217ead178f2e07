"""The words of one column of a data file, a range of rows at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np
import pyarrow.parquet as pq

from neve.lake.fields import FIELD_ID
from neve.lake.words import indexed_words
from neve.search.filters import hashes_of
from neve.search.ranges import ranges_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyiceberg.io import FileIO

    from neve.search.filters import Hashes
    from neve.search.ranges import Range

PIECE_BYTES = 16 * 1024 * 1024  # 16 MB of texts are in memory at once
MOST_ROWS = 65_536
LEAST_ROWS = 16


@dataclass(frozen=True)
class RangeWords:
    """The hashes of the distinct words of one range."""

    range: Range
    hashes: Hashes


def words_by_range(io: FileIO, path: str, field_id: int, least_rows: int) -> Iterator[RangeWords]:
    """The words of each range of a file; none at all where its columns can't be told by their ids."""
    with cast("pa.NativeFile", io.new_input(path).open()) as source:
        file = pq.ParquetFile(source)
        names = _names_by_id(file.schema_arrow)
        if not names:
            return
        footer = file.metadata
        groups = [footer.row_group(number).num_rows for number in range(footer.num_row_groups)]
        for part in ranges_of(groups, least_rows):
            # A file that was written before the column was there holds no words of it.
            yield RangeWords(part, _words(file, part, names[field_id]) if field_id in names else _NONE)


def _words(file: pq.ParquetFile, part: Range, name: str) -> Hashes:
    found = _NONE
    pieces = file.iter_batches(
        _piece_rows(file, part, name), row_groups=list(part.groups), columns=[name], use_threads=False
    )
    for piece in pieces:
        found = np.union1d(found, hashes_of(indexed_words(piece.column(0).unique())))
    return found


def _piece_rows(file: pq.ParquetFile, part: Range, name: str) -> int:
    """How many rows are read at once: so few that they fit, however long their texts are."""
    paths = [file.schema.column(leaf).path for leaf in range(len(file.schema))]
    leaf = paths.index(name)
    size = sum(file.metadata.row_group(number).column(leaf).total_uncompressed_size for number in part.groups)
    return int(min(MOST_ROWS, max(LEAST_ROWS, PIECE_BYTES * part.row_count // max(1, size))))


def _names_by_id(schema: pa.Schema) -> dict[int, str]:
    return {int(field.metadata[FIELD_ID]): field.name for field in schema if FIELD_ID in (field.metadata or {})}


_NONE: Hashes = np.zeros(0, np.uint64)
