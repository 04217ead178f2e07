"""Children and parents brought together by id: pure numbers in, places out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Ids = npt.NDArray[np.int64]

NONE = -1  # the id of a row that has none


@dataclass(frozen=True)
class Families:
    """The children of each parent: `order` holds their places, `offsets` where those of each parent begin."""

    order: Ids
    offsets: npt.NDArray[np.int32]

    def lists(self, children: pa.Array) -> pa.ListArray:
        """A list of children for each parent."""
        return pa.ListArray.from_arrays(pa.array(self.offsets), children.take(pa.array(self.order)))


def families(parents: Ids, parent_ids: Ids) -> Families:
    """For each parent id the children that name it, in their order; a child of no parent here is in no family."""
    distinct, place = np.unique(parents, return_inverse=True)
    at = np.minimum(np.searchsorted(distinct, parent_ids), max(len(distinct) - 1, 0))
    kept = np.flatnonzero((parent_ids != NONE) & (distinct[at] == parent_ids)) if len(distinct) else at[:0]
    order = kept[np.argsort(at[kept], kind="stable")]
    sizes = np.bincount(at[kept], minlength=len(distinct))
    starts = np.concatenate(([0], np.cumsum(sizes)))[:-1]
    lengths = sizes[place]
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    # Two parents may have the same id, in a folder that breaks the rule; then both have its children.
    within = np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths)
    return Families(order[np.repeat(starts[place], lengths) + within], offsets.astype(np.int32))


def ids_of(column: pa.Array | pa.ChunkedArray) -> Ids:
    """A column of ids as numbers, with `NONE` where there is none."""
    plain = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    numbers: Ids = plain.cast(pa.int64()).fill_null(NONE).to_numpy(zero_copy_only=False)
    return numbers


def with_gaps(ids: Ids, kind: pa.DataType) -> pa.Array:
    """Numbers as a column of ids, null where there is none."""
    return pa.array(ids, pa.int64(), mask=ids == NONE).cast(kind)


def numbered(has_children: npt.NDArray[np.bool_], start: int) -> Ids:
    """New ids from `start` on for the rows that need one.

    >>> numbered(np.array([True, False, True]), 5).tolist()
    [5, -1, 6]
    """
    ids = start + np.cumsum(has_children) - 1
    return np.where(has_children, ids, NONE).astype(np.int64)
