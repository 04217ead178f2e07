"""Rows in order, with no more of them in memory than was asked for: sorted runs on disk, merged piece by piece."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from neve.lake.encoding import plain
from neve.lake.layout import sort_index

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

PIECE_ROWS = 10_000
PIECES = 16  # of a run, or fewer: each piece that is read costs as much as the run's dictionaries are long
HEADS_SHARE = 2  # the heads of all runs together are one of so many parts of what memory holds


def sort_rows(pieces: Iterable[pa.Table], columns: Sequence[str], memory: int) -> Iterator[pa.Table]:
    """The rows sorted by columns, rising, nulls first; what is more than `memory` bytes goes through files."""
    held: list[pa.Table] = []
    coming = iter(pieces)
    for piece in coming:
        held.append(piece)
        if sum(rows.nbytes for rows in held) > memory:
            yield from _through_files(chain(held, coming), columns, memory)
            return
    if held:
        yield _sorted(pa.concat_tables(held), columns)


def _sorted(rows: pa.Table, columns: Sequence[str]) -> pa.Table:
    whole = _in_one_piece(rows)
    return whole.take(pa.array(sort_index(plain(whole.select(list(columns))), columns)))


def _in_one_piece(rows: pa.Table) -> pa.Table:
    """Rows are taken from one chunk a third quicker than from many."""
    return rows.unify_dictionaries().combine_chunks()


def _through_files(pieces: Iterable[pa.Table], columns: Sequence[str], memory: int) -> Iterator[pa.Table]:
    with tempfile.TemporaryDirectory(prefix="neve-sort-") as folder:
        runs = [
            _Run(_spill(_sorted(rows, columns), Path(folder) / f"{number}.arrow"), rows.num_rows)
            for number, rows in enumerate(_filled(pieces, memory))
        ]
        yield from _merge(runs, columns)


def _filled(pieces: Iterable[pa.Table], memory: int) -> Iterator[pa.Table]:
    """As many pieces at once as memory allows, and one at least."""
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
    """One sorted file, of which only the head is in memory."""

    path: Path
    rows: int
    head: pa.Table = field(init=False)
    _next: int = 0

    def __post_init__(self) -> None:
        self._reader = pa.ipc.open_file(pa.OSFile(str(self.path), "rb"))
        self.head = self._reader.schema.empty_table()

    def fill(self, rows: int) -> None:
        """Read on when the head is used up, until it has so many rows."""
        if self.head.num_rows:
            return
        batches: list[pa.RecordBatch] = []
        while sum(batch.num_rows for batch in batches) < rows and not self.is_read:
            batches.append(self._reader.get_batch(self._next))
            self._next += 1
        self.head = pa.Table.from_batches(batches, self._reader.schema)

    @property
    def is_read(self) -> bool:
        """Whether nothing of the file is left to read."""
        return bool(self._next >= self._reader.num_record_batches)


def _merge(runs: list[_Run], columns: Sequence[str]) -> Iterator[pa.Table]:
    """All heads are sorted together, and rows are given up to the first head's end: what follows may come before.

    Each run has a dictionary of its own, and each turn makes one of all of them: so heads are as long as they can be.
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
        yield _in_one_piece(pa.concat_tables([run.head for run in runs])).take(pa.array(chosen))
        _drop(runs, chosen)


def _common_order(runs: Sequence[_Run], columns: Sequence[str]) -> tuple[np.ndarray, list[int]]:
    """The order of all heads' rows, and at which place in it each head ends."""
    keys = pa.concat_tables([plain(run.head.select(list(columns))) for run in runs])
    index = sort_index(keys, columns)
    place = np.empty(len(index), dtype=np.int64)
    place[index] = np.arange(len(index))
    lasts = np.cumsum([run.head.num_rows for run in runs]) - 1
    return index, [int(place[last]) for last in lasts]


def _drop(runs: Sequence[_Run], chosen: np.ndarray) -> None:
    """Take the rows that were given off the heads; of each head they are the first ones."""
    starts = np.cumsum([0, *(run.head.num_rows for run in runs)])
    given, _edges = np.histogram(chosen, bins=starts)
    for run, count in zip(runs, given, strict=True):
        run.head = run.head.slice(int(count))
