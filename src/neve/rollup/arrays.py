"""Arrow columns as numpy arrays, and groups of sorted rows that are reduced in one pass.

Null becomes NaN, or a value that the caller gives.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt


def int_column(table: pa.Table, name: str, filling: int = 0) -> npt.NDArray[np.int64]:
    """Return a column of integers, booleans or times."""
    column = table.column(name)
    plain = pc.cast(column, pa.int8() if pa.types.is_boolean(column.type) else pa.int64())
    return np.asarray(pc.fill_null(plain, filling)).astype(np.int64)


def floats(table: pa.Table, name: str) -> npt.NDArray[np.float64]:
    """Return a column of numbers, with NaN for null."""
    return np.asarray(pc.fill_null(pc.cast(table.column(name), pa.float64()), np.nan)).astype(np.float64)


def is_known(table: pa.Table, name: str) -> npt.NDArray[np.bool_]:
    """Return a mask of the rows where a column has a value."""
    return np.asarray(pc.is_valid(table.column(name)))


def array_column(table: pa.Table, name: str) -> pa.Array:
    """Return a column as a single array."""
    column = table.column(name)
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def split_lists(column: pa.Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[Any]]:
    """Return the length of each list of a column (0 for null), and all values as a flat array."""
    lengths = np.asarray(pc.fill_null(pc.list_value_length(column), 0)).astype(np.int64)
    return lengths, np.asarray(column.flatten())


def number_values(lengths: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the owner of each value of lists, and its position in its list."""
    owner = np.repeat(np.arange(len(lengths)), lengths)
    place = np.arange(len(owner)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return owner, place


def or_null(values: npt.NDArray[np.float64]) -> pa.Array:
    """Return numbers, with null for unknown and non-finite values."""
    return pa.array(values, mask=~np.isfinite(values))


def lists_of(owner: npt.NDArray[np.int64], owners: int, values: pa.Array, there: npt.NDArray[np.bool_]) -> pa.Array:
    """Return a list for each owner, or null for owners that have none. The values are sorted by owner."""
    return pa.ListArray.from_arrays(_offsets(owner, owners, there), values)


def maps_of(
    owner: npt.NDArray[np.int64], owners: int, keys: pa.Array, values: pa.Array, there: npt.NDArray[np.bool_]
) -> pa.Array:
    """Return a map for each owner, or null for owners that have none. The entries are sorted by owner."""
    return pa.MapArray.from_arrays(_offsets(owner, owners, there), keys, values)


def _offsets(owner: npt.NDArray[np.int64], owners: int, there: npt.NDArray[np.bool_]) -> pa.Array:
    ends = np.cumsum(np.bincount(owner, minlength=owners)) if owners else np.zeros(0)
    offsets = np.concatenate(([0], ends)).astype(np.int32)
    return pa.array(offsets, mask=np.append(~there, False))


@dataclass(frozen=True)
class Groups:
    """Start positions of groups in sorted rows."""

    starts: npt.NDArray[np.int64]
    rows: int

    @property
    def number(self) -> npt.NDArray[np.int64]:
        """Return the group of each row."""
        return np.repeat(np.arange(len(self.starts)), np.diff(np.append(self.starts, self.rows)))

    @property
    def lasts(self) -> npt.NDArray[np.int64]:
        """Return the last row of each group."""
        return np.append(self.starts[1:], self.rows) - 1

    def reduce(self, how: np.ufunc, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return one value for each group. The same rows in the same order give the same bits, at any position."""
        return how.reduceat(values, self.starts) if len(self.starts) else values[:0]


def order_by(keys: Sequence[npt.NDArray[Any]]) -> npt.NDArray[np.int64]:
    """Return the order that sorts rows by these keys, the first key first. The sort is stable."""
    return np.lexsort(tuple(reversed(keys)))


def groups_of(keys: Sequence[npt.NDArray[Any]]) -> Groups:
    """Return the groups of rows that are sorted by these keys."""
    rows = len(keys[0])
    if not rows:
        return Groups(np.zeros(0, dtype=np.int64), 0)
    new = np.zeros(rows, dtype=bool)
    new[0] = True
    for key in keys:
        new[1:] |= key[1:] != key[:-1]
    return Groups(np.flatnonzero(new), rows)
