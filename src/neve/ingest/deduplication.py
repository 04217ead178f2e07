"""Drop records that the lake has already, compared by the whole `record_id`.

Equal records have the same partition and time. So only recent files of the partition that overlap that time are read,
and only one column of them.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from neve.ingest.arrival import ARRIVAL_ORDER, INGESTED_AT, REPEATS
from neve.lake.write.layout import PartitionSlice

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.io import FileIO

    from neve.lake.read.snapshot_files import Partition, RecentByPartition, RecentFile

Words = npt.NDArray[np.uint64]
Mask = npt.NDArray[np.bool_]
Integers = npt.NDArray[np.int64]

RECORD_ID, TIME = "record_id", "timestamp"
TIMES = ("time_unix_nano", "observed_time_unix_nano")  # of a log record
WORDS_PER_ID = 2
CACHE_BYTES = 256 * 1024 * 1024  # ids of recent files that a worker caches


@dataclass(frozen=True)
class Ids:
    """A sorted set of record ids."""

    words: Words

    @classmethod
    def of(cls, words: Words) -> Ids:
        """Return the set of the given ids."""
        return cls(words[np.lexsort((words[:, 1], words[:, 0]))])

    def contain(self, words: Words) -> Mask:
        """Return a mask of the ids that are in the set."""
        found = np.zeros(len(words), dtype=bool)
        at = np.searchsorted(self.words[:, 0], words[:, 0])
        open_ = np.arange(len(words))
        while len(open_):  # repeats only if two ids share their first half
            inside = open_[at[open_] < len(self.words)]
            there = self.words[at[inside]]
            same_half = there[:, 0] == words[inside, 0]
            same = same_half & (there[:, 1] == words[inside, 1])
            found[inside[same]] = True
            open_ = inside[same_half & ~same]
            at[open_] += 1
        return found


def ids_to_words(column: pa.ChunkedArray | pa.Array) -> Words:
    """Convert each record id to two numbers."""
    plain = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    fixed = plain.cast(pa.binary(16))
    buffer = np.frombuffer(fixed.buffers()[1], dtype=np.uint64)
    return buffer.reshape(-1, WORDS_PER_ID)[fixed.offset : fixed.offset + len(fixed)]


def count_repeats(words: Words, arrival: Sequence[Integers] = ()) -> Integers:
    """Return for each id the number of equal ones after it, or -1 if it is not the first.

    The first is that which arrived first, by the columns of `arrival`, otherwise that which is first in the array.

    >>> count_repeats(np.array([[7, 7], [8, 8], [7, 7], [7, 7]], dtype=np.uint64)).tolist()
    [2, 0, -1, -1]
    """
    if not len(words):
        return np.empty(0, dtype=np.int64)
    order = np.lexsort((np.arange(len(words)), *reversed(arrival), words[:, 1], words[:, 0]))
    same = (words[order][1:] == words[order][:-1]).all(axis=1)
    starts = np.flatnonzero(np.concatenate(([True], ~same)))
    counts = np.full(len(words), -1, dtype=np.int64)
    counts[order[starts]] = np.diff(np.append(starts, len(words))) - 1
    return counts


@dataclass
class DuplicateFilter:
    """Passes each record once: drops records that it has passed before, and records of recent files.

    A repeat of a record that it passes now is counted in its row. With `keeps_repeats`, others are collected.
    """

    io: FileIO
    recent: RecentByPartition
    keeps_repeats: bool = False
    dropped: int = 0
    _repeats: list[pa.Table] = field(default_factory=list)
    _passed: dict[Partition, list[Ids]] = field(default_factory=dict)

    def __call__(self, piece: PartitionSlice) -> PartitionSlice:
        """Return the new rows of a partition."""
        words = ids_to_words(piece.rows.column(RECORD_ID))
        times = piece.rows.column(TIME).combine_chunks().cast(pa.int64()).to_numpy()
        partition = _partition_values(piece)
        repeats = count_repeats(words, _arrival_columns(piece.rows))
        known = repeats < 0
        for ids in self._passed.get(partition, []):
            known |= ids.contain(words)
        for file in self.recent.get(partition, []):
            near = np.flatnonzero((times >= file.earliest) & (times <= file.latest) & ~known)
            if len(near):
                known[near] = load_recent_ids(self.io, file).contain(words[near])
        known[_find_timeless(piece.rows)] = False
        new = np.flatnonzero(~known)
        self._passed.setdefault(partition, []).append(Ids.of(words[new]))
        if len(new) == len(words):
            return piece
        self.dropped += len(words) - len(new)
        if self.keeps_repeats:
            self._collect_repeats(piece.rows, words, known & (repeats >= 0))
        return PartitionSlice(piece.key, _set_repeats(piece.rows.take(pa.array(new)), repeats[new]))

    def take_repeats(self) -> pa.Table | None:
        """Return the repeats of records of earlier writes that were dropped since the last call, or `None`."""
        repeats, self._repeats = self._repeats, []
        return pa.concat_tables(repeats) if repeats else None

    def _collect_repeats(self, rows: pa.Table, words: Words, is_known_first: Mask) -> None:
        """Collect the rows of known records: the first row of each in this write, and the rows that repeat it."""
        if is_known_first.any():
            of_known = Ids.of(words[is_known_first]).contain(words)
            self._repeats.append(rows.take(pa.array(np.flatnonzero(of_known))))


def _arrival_columns(rows: pa.Table) -> list[Integers]:
    """Return the columns that order equal records by arrival."""
    if ARRIVAL_ORDER not in rows.column_names:
        return []
    columns = (rows.column(name).combine_chunks() for name in (INGESTED_AT, ARRIVAL_ORDER))
    return [column.cast(pa.int64()).fill_null(0).to_numpy() for column in columns]


def _set_repeats(rows: pa.Table, repeats: Integers) -> pa.Table:
    """Store the number of dropped repeats of each record, if its table has a column for it."""
    place = rows.schema.get_field_index(REPEATS)
    if place < 0 or not repeats.any():
        return rows
    return rows.set_column(place, rows.schema.field(place), pa.chunked_array([pa.array(repeats, mask=repeats == 0)]))


def _find_timeless(rows: pa.Table) -> Mask:
    """Return a mask of log records without a time. Many may be equal, so they are never treated as duplicates."""
    if not set(TIMES) <= set(rows.column_names):
        return np.zeros(rows.num_rows, dtype=bool)
    own, observed = (rows.column(name).combine_chunks().fill_null(0).to_numpy() for name in TIMES)
    timeless: Mask = (own == 0) & (observed == 0)
    return timeless


_cache: OrderedDict[str, Ids] = OrderedDict()


def load_recent_ids(io: FileIO, file: RecentFile) -> Ids:
    """Return the ids of a file. Each worker process reads them once, while they fit its cache."""
    if file.path in _cache:
        _cache.move_to_end(file.path)
        return _cache[file.path]
    ids = _read_ids(io, file.path)
    _cache[file.path] = ids
    while sum(kept.words.nbytes for kept in _cache.values()) > CACHE_BYTES and len(_cache) > 1:
        _cache.popitem(last=False)
    return ids


def _read_ids(io: FileIO, path: str) -> Ids:
    try:
        with io.new_input(path).open() as stream:
            column = pq.ParquetFile(stream).read(columns=[RECORD_ID]).column(0)
    except FileNotFoundError:  # rewritten and removed in the meantime: compaction finds the duplicates that this misses
        return Ids(np.empty((0, WORDS_PER_ID), dtype=np.uint64))
    return Ids.of(ids_to_words(column.drop_null()))


def _partition_values(piece: PartitionSlice) -> Partition:
    if piece.key is None:
        return ()
    record = piece.key.partition
    return tuple(record[position] for position in range(len(record)))
