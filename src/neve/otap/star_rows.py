"""Rows of a root table with all their child rows, and joins of children and parents by id."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from neve.model.signals import Signal
from neve.otap.tables import schema

if TYPE_CHECKING:
    from collections.abc import Mapping


Ids = npt.NDArray[np.int64]

NONE = -1  # the id of a row without one


@dataclass(frozen=True)
class ChildGroups:
    """Children of each parent: `order` holds their places, `offsets` the start of each parent's children."""

    order: Ids
    offsets: npt.NDArray[np.int32]

    def lists(self, children: pa.Array) -> pa.ListArray:
        """Return a list of children for each parent."""
        return pa.ListArray.from_arrays(pa.array(self.offsets), children.take(pa.array(self.order)))


def group_children(parents: Ids, parent_ids: Ids) -> ChildGroups:
    """Group children by parent id, in their order; a child of another parent is in no group."""
    distinct, place = np.unique(parents, return_inverse=True)
    at = np.minimum(np.searchsorted(distinct, parent_ids), max(len(distinct) - 1, 0))
    found = np.flatnonzero((parent_ids != NONE) & (distinct[at] == parent_ids)) if len(distinct) else at[:0]
    order = found[np.argsort(at[found], kind="stable")]
    sizes = np.bincount(at[found], minlength=len(distinct))
    starts = np.concatenate(([0], np.cumsum(sizes)))[:-1]
    lengths = sizes[place]
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    # Two parents may have the same id in an invalid folder. Then both get its children.
    within = np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths)
    return ChildGroups(order[np.repeat(starts[place], lengths) + within], offsets.astype(np.int32))


def ids_of(column: pa.Array | pa.ChunkedArray) -> Ids:
    """Return a column of ids as numbers, with `NONE` for null."""
    plain = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    numbers: Ids = plain.cast(pa.int64()).fill_null(NONE).to_numpy(zero_copy_only=False)
    return numbers


def to_id_column(ids: Ids, kind: pa.DataType) -> pa.Array:
    """Return numbers as a column of ids, with null for `NONE`."""
    return pa.array(ids, pa.int64(), mask=ids == NONE).cast(kind)


def number_rows(has_children: npt.NDArray[np.bool_], start: int) -> Ids:
    """Return new ids from `start` on for the rows that need one.

    >>> number_rows(np.array([True, False, True]), 5).tolist()
    [5, -1, 6]
    """
    ids = start + np.cumsum(has_children) - 1
    return np.where(has_children, ids, NONE).astype(np.int64)


# Beside OTAP's columns: the record's id in the lake that it comes from. The id hashes data that OTAP does not store.
RECORD_ID = "neve_record_id"
SIGNALS = {"logs": Signal.LOGS, "spans": Signal.TRACES}


@dataclass(frozen=True)
class StarRows:
    """Rows of a root table and of its children, with the columns of `schema` in plain types.

    `resources` and `scopes` are the ids that lead to the attributes of a row's resource and scope. If the files break
    the specification, these are not the ids in the rows.
    """

    root: str
    rows: pa.Table
    children: Mapping[str, pa.Table]
    resources: Ids
    scopes: Ids

    def column(self, name: str) -> pa.Array:
        """Return a column of the root."""
        return combine_chunks(self.rows.column(name))

    @property
    def record_ids(self) -> pa.Array | None:
        """The ids of the records in a lake, if the file has them."""
        return self.column(RECORD_ID) if RECORD_ID in self.rows.column_names else None

    def child(self, table: str) -> pa.Table:
        """Return the rows of a child table; no rows if it is missing."""
        return self.children[table] if table in self.children else schema(table).empty_table()


def combine_chunks(column: pa.ChunkedArray) -> pa.Array:
    """Return a column as one chunk."""
    return column.combine_chunks()


def struct_fields(struct: pa.StructArray) -> dict[str, pa.Array]:
    """Return the fields of structs, null for null structs."""
    return dict(zip((field.name for field in struct.type), struct.flatten(), strict=True))
