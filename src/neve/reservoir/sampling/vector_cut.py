"""Priority sampling of whole Arrow batches: the rows that may still be in the sample of their group.

A row is a candidate if its priority reaches the threshold of its group: the (k + 1)-th largest priority so far. Most
rows are dropped by one comparison. Candidates are cut to k + 1 rows of a group when there are twice as many as
after the last cut. Cuts of parts of the rows can be merged by a further cut, in any order.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from neve.reservoir.sampling.vector_hash import hash_columns, to_uniform

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]
    Ints = npt.NDArray[np.int64]

MIN_CANDIDATES = 100_000  # rows that are held before the first cut
FEW_CODES = 1024  # possible groups of a batch that are looked up in an array


@dataclass
class TopRows:
    """The k + 1 rows of each group with the largest priorities, of equal ones those with the largest keys.

    Rows have the column `key`, and others that are kept with it.
    """

    k: int
    key: str
    _thresholds: Floats = field(default_factory=lambda: np.zeros(0))
    _rows: list[pa.Table] = field(default_factory=list)
    _groups: list[Ints] = field(default_factory=list)
    _priorities: list[Floats] = field(default_factory=list)
    _held: int = 0
    _limit: int = MIN_CANDIDATES

    def add(self, rows: pa.Table, groups: Ints, priorities: Floats) -> None:
        """Add rows with the numbers of their groups and their priorities."""
        if not len(groups):
            return
        missing = int(groups.max()) + 1 - len(self._thresholds)
        if missing > 0:
            self._thresholds = np.concatenate((self._thresholds, np.zeros(missing)))
        candidates = np.flatnonzero(priorities >= self._thresholds[groups])
        if not len(candidates):
            return
        self._rows.append(rows.take(pa.array(candidates)))
        self._groups.append(groups[candidates])
        self._priorities.append(priorities[candidates])
        self._held += len(candidates)
        if self._held > self._limit:
            self._cut()
            self._limit = max(MIN_CANDIDATES, 2 * self._held)

    def finish(self) -> tuple[pa.Table, Ints, Floats] | None:
        """Return the rows with their groups and priorities, by group, the largest priority first."""
        if not self._rows:
            return None
        self._cut()
        return self._rows[0], self._groups[0], self._priorities[0]

    def _cut(self) -> None:
        rows = pa.concat_tables(self._rows)
        groups, priorities = np.concatenate(self._groups), np.concatenate(self._priorities)
        order = np.lexsort((-priorities, groups))
        groups, priorities = groups[order], priorities[order]
        ranks = _rank(groups)
        keep = ranks <= self.k
        last = np.flatnonzero(ranks == self.k)
        self._thresholds[groups[last]] = priorities[last]
        if len(priorities) > 1 and np.any((priorities[1:] == priorities[:-1]) & (groups[1:] == groups[:-1])):
            order = self._order_ties(rows, order, groups, priorities)
        self._rows = [rows.take(pa.array(order[keep]))]
        self._groups, self._priorities = [groups[keep]], [priorities[keep]]
        self._held = len(self._groups[0])

    def _order_ties(self, rows: pa.Table, order: Ints, groups: Ints, priorities: Floats) -> Ints:
        """Order rows of equal priority by descending keys. Only equal keys, or chance, make priorities equal."""
        same = (priorities[1:] == priorities[:-1]) & (groups[1:] == groups[:-1])
        ties = np.flatnonzero(np.append(same, False) | np.insert(same, 0, False))
        keys = flatten_key(rows.column(self.key).take(pa.array(order[ties])).combine_chunks())
        names = [f"key{number}" for number in range(len(keys))]
        table = pa.table([groups[ties], priorities[ties], *keys], names=["group", "priority", *names])
        sort_keys = [("group", "ascending"), ("priority", "descending"), *((name, "descending") for name in names)]
        order[ties] = order[ties][pc.sort_indices(table, sort_keys=sort_keys).to_numpy()]
        return order


@dataclass
class GroupNumbers:
    """Numbers of groups that are named by values of columns, the same in all batches."""

    _numbers: dict[tuple[object, ...], int] = field(default_factory=dict)

    def find(self, columns: Sequence[pa.Array]) -> Ints:
        """Return the number of the group of each row."""
        encoded = [column if pa.types.is_dictionary(column.type) else column.dictionary_encode() for column in columns]
        sizes = [len(one.dictionary) + 1 for one in encoded]
        codes = np.zeros(len(columns[0]), dtype=np.int64)
        for one, size in zip(encoded, sizes, strict=True):
            codes = codes * size + pc.fill_null(one.indices.cast(pa.int64()), -1).to_numpy() + 1
        present, places = _find_unique(codes, math.prod(sizes))
        numbers = [self._numbers.setdefault(name, len(self._numbers)) for name in _name_groups(present, encoded, sizes)]
        return np.array(numbers, dtype=np.int64)[places]

    def names(self) -> list[tuple[object, ...]]:
        """Return the values of the columns of each group, by its number."""
        return list(self._numbers)


def _name_groups(
    codes: Ints, encoded: Sequence[pa.DictionaryArray], sizes: Sequence[int]
) -> Iterable[tuple[object, ...]]:
    """Return the values of the columns of each code, which has the place of each value, 0 for null."""
    columns = []
    for one, size in zip(reversed(encoded), reversed(sizes), strict=True):
        codes, places = np.divmod(codes, size)
        values = [None, *one.dictionary.to_pylist()]
        columns.append([values[place] for place in places.tolist()])
    return zip(*reversed(columns), strict=True)


def _find_unique(codes: Ints, size: int) -> tuple[Ints, Ints]:
    """Return the codes that occur, and the place of each row's code among them."""
    if size > FEW_CODES + 4 * len(codes):
        present, places = np.unique(codes, return_inverse=True)
        return present, places
    present = np.flatnonzero(np.bincount(codes, minlength=size))
    lookup = np.zeros(size, dtype=np.int64)
    lookup[present] = np.arange(len(present))
    return present, lookup[codes]


@dataclass(frozen=True)
class VectorDraw:
    """Priority sampling of k rows of each group, from tables with the columns `by`, `key` and `weight`, and any others.

    It draws the sample that `methods.sample_priority` draws from each group. It can be pickled.
    """

    by: tuple[str, ...]
    key: str
    k: int
    salt: int

    def cut(self, tables: Iterable[pa.Table]) -> pa.Table | None:
        """Return the rows that may be in the sample, k + 1 of each group at most, or nothing for no rows."""
        found = self._collect(tables)
        return found and found[0]

    def sample(self, tables: Iterable[pa.Table]) -> pa.Table | None:
        """Return the kept rows with their `adjusted_weight`, or nothing for no rows. Tables may be results of `cut`."""
        found = self._collect(tables)
        if found is None:
            return None
        rows, groups, priorities = found
        ranks = _rank(groups)
        light = np.zeros(int(groups.max()) + 1)
        first_dropped = np.flatnonzero(ranks == self.k)
        light[groups[first_dropped]] = priorities[first_dropped]
        kept = np.flatnonzero(ranks < self.k)
        sample = rows.take(pa.array(kept))
        adjusted = np.maximum(sample.column("weight").to_numpy(), light[groups[kept]])
        return sample.append_column("adjusted_weight", pa.array(adjusted))

    def _collect(self, tables: Iterable[pa.Table]) -> tuple[pa.Table, Ints, Floats] | None:
        top, numbers = TopRows(self.k, self.key), GroupNumbers()
        for rows in tables:
            if not rows.num_rows:
                continue
            by = [_combine(rows.column(name)) for name in self.by]
            groups = numbers.find(by) if by else np.zeros(rows.num_rows, dtype=np.int64)
            chances = to_uniform(hash_columns(self.salt, flatten_key(_combine(rows.column(self.key)))))
            top.add(rows, groups, rows.column("weight").to_numpy() / chances)
        return top.finish()


def flatten_key(key: pa.Array) -> list[pa.Array]:
    """Return the parts of keys, which are hashed one after the other."""
    if not pa.types.is_struct(key.type):
        return [key]
    return [part for one in key.flatten() for part in flatten_key(one)]


def _combine(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _rank(groups: Ints) -> Ints:
    """Return the place of each row in its group, from 0; the rows of a group are side by side."""
    places = np.arange(len(groups))
    firsts = np.concatenate((np.ones(1, dtype=np.bool_), groups[1:] != groups[:-1]))
    return np.asarray(places - np.maximum.accumulate(np.where(firsts, places, 0)))
