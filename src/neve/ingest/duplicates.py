"""Records that are there already: told by the whole `record_id`, never by less.

What a record is compared with is found by its partition and its time: the same record has the same of both, so only the
recent files that lie around its time are looked at, and of those only one column.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from neve.lake.layout import Slice

if TYPE_CHECKING:
    from pyiceberg.io import FileIO

    from neve.lake.recent import Partition, Recent, RecentFile

Words = npt.NDArray[np.uint64]
Mask = npt.NDArray[np.bool_]

RECORD_ID, TIME = "record_id", "timestamp"
TIMES = ("time_unix_nano", "observed_time_unix_nano")  # of a log record
WORDS_PER_ID = 2
CACHE_BYTES = 256 * 1024 * 1024  # ids of recent files that a worker keeps


@dataclass(frozen=True)
class Ids:
    """A set of record ids, in order."""

    words: Words

    @classmethod
    def of(cls, words: Words) -> Ids:
        """The set of some ids."""
        return cls(words[np.lexsort((words[:, 1], words[:, 0]))])

    def contain(self, words: Words) -> Mask:
        """Which of some ids are in the set."""
        found = np.zeros(len(words), dtype=bool)
        at = np.searchsorted(self.words[:, 0], words[:, 0])
        open_ = np.arange(len(words))
        while len(open_):  # more than once only where two ids share their first half
            inside = open_[at[open_] < len(self.words)]
            there = self.words[at[inside]]
            same_half = there[:, 0] == words[inside, 0]
            same = same_half & (there[:, 1] == words[inside, 1])
            found[inside[same]] = True
            open_ = inside[same_half & ~same]
            at[open_] += 1
        return found


def words_of(column: pa.ChunkedArray | pa.Array) -> Words:
    """Record ids as two numbers each."""
    plain = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    fixed = plain.cast(pa.binary(16))
    buffer = np.frombuffer(fixed.buffers()[1], dtype=np.uint64)
    return buffer.reshape(-1, WORDS_PER_ID)[fixed.offset : fixed.offset + len(fixed)]


def repeated(words: Words) -> Mask:
    """Which ids stand further up already."""
    order = np.lexsort((np.arange(len(words)), words[:, 1], words[:, 0]))
    same = (words[order][1:] == words[order][:-1]).all(axis=1)
    found = np.zeros(len(words), dtype=bool)
    found[order[1:]] = same
    return found


@dataclass
class DuplicateSieve:
    """Lets each record through once: not what it let through before, not what a recent file holds."""

    io: FileIO
    recent: Recent
    dropped: int = 0
    _passed: dict[Partition, list[Ids]] = field(default_factory=dict)

    def __call__(self, piece: Slice) -> Slice:
        """The rows of a partition that are new."""
        words = words_of(piece.rows.column(RECORD_ID))
        times = piece.rows.column(TIME).combine_chunks().cast(pa.int64()).to_numpy()
        partition = _partition(piece)
        known = repeated(words)
        for ids in self._passed.get(partition, []):
            known |= ids.contain(words)
        for file in self.recent.get(partition, []):
            near = np.flatnonzero((times >= file.earliest) & (times <= file.latest) & ~known)
            if len(near):
                known[near] = recent_ids(self.io, file).contain(words[near])
        known[_timeless(piece.rows)] = False
        new = np.flatnonzero(~known)
        self._passed.setdefault(partition, []).append(Ids.of(words[new]))
        if len(new) == len(words):
            return piece
        self.dropped += len(words) - len(new)
        return Slice(piece.key, piece.rows.take(pa.array(new)))


def _timeless(rows: pa.Table) -> Mask:
    """Log records without any time of their own: equal ones may be many, so they are never taken for resends."""
    if not set(TIMES) <= set(rows.column_names):
        return np.zeros(rows.num_rows, dtype=bool)
    own, observed = (rows.column(name).combine_chunks().fill_null(0).to_numpy() for name in TIMES)
    timeless: Mask = (own == 0) & (observed == 0)
    return timeless


_cache: OrderedDict[str, Ids] = OrderedDict()


def recent_ids(io: FileIO, file: RecentFile) -> Ids:
    """The ids in a file, read once for each worker process while they fit its cache."""
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
    except FileNotFoundError:  # rewritten and removed meanwhile: compaction finds what this misses
        return Ids(np.empty((0, WORDS_PER_ID), dtype=np.uint64))
    return Ids.of(words_of(column.drop_null()))


def _partition(piece: Slice) -> Partition:
    if piece.key is None:
        return ()
    record = piece.key.partition
    return tuple(record[position] for position in range(len(record)))
