"""External merge sort: sort rows that do not fit in memory by sorted runs on disk, merged piece by piece."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from neve.lake.write.encoding import decode_dictionaries
from neve.lake.write.layout import find_sort_index

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

PIECE_ROWS = 10_000
PIECES = 16  # of a run, or fewer: the cost of reading a piece grows with the size of the run's dictionaries
HEADS_SHARE = 2  # the heads of all runs together take this fraction of the memory


def sort_rows(pieces: Iterable[pa.Table], columns: Sequence[str], memory: int) -> Iterator[pa.Table]:
    """Yield the rows sorted by columns, ascending, nulls first. More than `memory` bytes are spilled to files."""
    held: list[pa.Table] = []
    coming = iter(pieces)
    for piece in coming:
        held.append(piece)
        if sum(rows.nbytes for rows in held) > memory:
            yield from _sort_through_files(chain(held, coming), columns, memory)
            return
    if held:
        yield _sort_in_memory(pa.concat_tables(held), columns)


def _sort_in_memory(rows: pa.Table, columns: Sequence[str]) -> pa.Table:
    whole = _combine_chunks(rows)
    return whole.take(pa.array(find_sort_index(decode_dictionaries(whole.select(list(columns))), columns)))


def _combine_chunks(rows: pa.Table) -> pa.Table:
    """Combine chunks: taking rows from one chunk is a third faster than from many."""
    return rows.unify_dictionaries().combine_chunks()


def _sort_through_files(pieces: Iterable[pa.Table], columns: Sequence[str], memory: int) -> Iterator[pa.Table]:
    with tempfile.TemporaryDirectory(prefix="neve-sort-") as folder:
        runs = [
            _Run(_spill(_sort_in_memory(rows, columns), Path(folder) / f"{number}.arrow"), rows.num_rows)
            for number, rows in enumerate(_fill_memory(pieces, memory))
        ]
        yield from _merge(runs, columns)


def _fill_memory(pieces: Iterable[pa.Table], memory: int) -> Iterator[pa.Table]:
    """Yield as many pieces at once as memory allows, and at least one."""
    held: list[pa.Table] = []
    for piece in pieces:
        if held and sum(rows.nbytes for rows in held) + piece.nbytes > memory:
            yield pa.concat_tables(held)
            held = []
        held.append(piece)
    if held:
        yield pa.concat_tables(held)


def _spill(rows: pa.Table, path: Path) -> Path:
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, rows.schema, options=options) as writer:
        writer.write_table(rows, max_chunksize=max(PIECE_ROWS, rows.num_rows // PIECES))
    return path


@dataclass
class _Run:
    """One sorted file of which only the head is in memory."""

    path: Path
    rows: int
    head: pa.Table = field(init=False)
    _next: int = 0

    def __post_init__(self) -> None:
        self._reader = pa.ipc.open_file(pa.OSFile(str(self.path), "rb"))
        self.head = self._reader.schema.empty_table()

    def fill(self, rows: int) -> None:
        """Read more rows when the head is used up, until it has `rows` rows."""
        if self.head.num_rows:
            return
        batches: list[pa.RecordBatch] = []
        while sum(batch.num_rows for batch in batches) < rows and not self.is_read:
            batches.append(self._reader.get_batch(self._next))
            self._next += 1
        self.head = pa.Table.from_batches(batches, self._reader.schema)

    @property
    def is_read(self) -> bool:
        """True if the whole file was read."""
        return bool(self._next >= self._reader.num_record_batches)


def _merge(runs: list[_Run], columns: Sequence[str]) -> Iterator[pa.Table]:
    """Sort all heads together, and yield rows up to the earliest end of a head: unread rows may precede the rest.

    Each run has its own dictionary, and each turn merges all of them. So heads are as long as possible.
    """
    rows = max(PIECE_ROWS, max(run.rows for run in runs) // (HEADS_SHARE * len(runs)))
    while True:
        for run in runs:
            run.fill(rows)
        runs = [run for run in runs if run.head.num_rows]
        if not runs:
            return
        index, ends = _common_order(runs, columns)
        safe = min((end for run, end in zip(runs, ends, strict=True) if not run.is_read), default=len(index) - 1)
        chosen = index[: safe + 1]
        yield _combine_chunks(pa.concat_tables([run.head for run in runs])).take(pa.array(chosen))
        _drop_emitted(runs, chosen)


def _common_order(runs: Sequence[_Run], columns: Sequence[str]) -> tuple[np.ndarray, list[int]]:
    """Return the order of all heads' rows, and the place in it where each head ends."""
    keys = pa.concat_tables([decode_dictionaries(run.head.select(list(columns))) for run in runs])
    index = find_sort_index(keys, columns)
    place = np.empty(len(index), dtype=np.int64)
    place[index] = np.arange(len(index))
    lasts = np.cumsum([run.head.num_rows for run in runs]) - 1
    return index, [int(place[last]) for last in lasts]


def _drop_emitted(runs: Sequence[_Run], chosen: np.ndarray) -> None:
    """Remove the emitted rows from the heads. They are the first rows of each head."""
    starts = np.cumsum([0, *(run.head.num_rows for run in runs)])
    counts, _edges = np.histogram(chosen, bins=starts)
    for run, count in zip(runs, counts, strict=True):
        run.head = run.head.slice(int(count))
