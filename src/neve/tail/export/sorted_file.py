"""Rows put aside in a file and read back in order, some at a time: memory holds keys, and what is read just now."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import numpy.typing as npt

    Places = npt.NDArray[np.int64]


class SortedFile:
    """Rows in a file that is mapped into memory, so that only those that are asked for are read."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._path = path
        self._writer = pa.ipc.new_file(str(path), schema)
        self.rows = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Put rows aside."""
        self._writer.write_batch(batch)
        self.rows += batch.num_rows

    def close(self) -> None:
        """Nothing more is put aside; it can be read from here on."""
        self._writer.close()

    def ordered(self, keys: Sequence[str]) -> OrderedRows:
        """The rows by some columns, the first one first."""
        reader = pa.ipc.open_file(pa.memory_map(str(self._path)))
        batches = [reader.get_batch(number) for number in range(reader.num_record_batches)]
        keyed = pa.Table.from_batches([batch.select(list(keys)) for batch in batches], _only(reader.schema, keys))
        order = np.asarray(pc.sort_indices(keyed, [(key, "ascending") for key in keys]), dtype=np.int64)
        return OrderedRows(batches, order)


class OrderedRows:
    """Rows of some batches in an order."""

    def __init__(self, batches: Sequence[pa.RecordBatch], order: Places) -> None:
        self._batches, self._order = batches, order
        self._starts = np.cumsum([0, *(batch.num_rows for batch in batches)])

    def __len__(self) -> int:
        return len(self._order)

    def column(self, name: str) -> pa.Array:
        """One column of all rows; a narrow one."""
        whole = pa.chunked_array([batch.column(name) for batch in self._batches])
        return whole.combine_chunks().take(pa.array(self._order))

    def slice(self, first: int, end: int) -> pa.Table:
        """The rows from one place to another.

        They are taken batch by batch: of columns in several parts, Arrow would put all parts together before.
        """
        places = self._order[first:end]
        homes = np.searchsorted(self._starts, places, side="right") - 1
        together = np.argsort(homes, kind="stable")
        parts = [
            self._batches[home].take(pa.array(places[homes == home] - self._starts[home])) for home in np.unique(homes)
        ]
        return pa.Table.from_batches(parts).combine_chunks().take(pa.array(np.argsort(together, kind="stable")))


def _only(schema: pa.Schema, names: Sequence[str]) -> pa.Schema:
    return pa.schema([schema.field(name) for name in names])
