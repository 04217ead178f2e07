"""Arrow columns as numpy arrays, with NaN or a filling where there is null."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    import numpy.typing as npt


def whole(table: pa.Table, name: str, filling: int = 0) -> npt.NDArray[np.int64]:
    """A column of whole numbers, truth values or times."""
    column = table.column(name)
    kind = column.type
    plain = pc.cast(column, pa.int64()) if not pa.types.is_boolean(kind) else pc.cast(column, pa.int8())
    return np.asarray(pc.fill_null(plain, filling)).astype(np.int64)


def floats(table: pa.Table, name: str) -> npt.NDArray[np.float64]:
    """A column of numbers; NaN for null."""
    return np.asarray(pc.fill_null(pc.cast(table.column(name), pa.float64()), np.nan)).astype(np.float64)


def known(table: pa.Table, name: str) -> npt.NDArray[np.bool_]:
    """Where a column has a value."""
    return np.asarray(pc.is_valid(table.column(name)))


def one(table: pa.Table, name: str) -> pa.Array:
    """A column in one piece."""
    return joined(table.column(name))


def joined(column: pa.ChunkedArray) -> pa.Array:
    """A column in one piece."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def lists(column: pa.Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[Any]]:
    """A column of lists: how long each is (0 for null), and all values one after the other."""
    lengths = np.asarray(pc.fill_null(pc.list_value_length(column), 0)).astype(np.int64)
    return lengths, np.asarray(column.flatten())


def numbered(lengths: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Whose each value of lists is, and its place in its list."""
    owner = np.repeat(np.arange(len(lengths)), lengths)
    place = np.arange(len(owner)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return owner, place


def or_null(values: npt.NDArray[np.float64]) -> pa.Array:
    """Numbers, with null for what is not known or not finite."""
    return pa.array(values, mask=~np.isfinite(values))


def lists_of(owner: npt.NDArray[np.int64], owners: int, values: pa.Array, there: npt.NDArray[np.bool_]) -> pa.Array:
    """A list for each owner, null for those that have none; the values are sorted by owner."""
    return pa.ListArray.from_arrays(_offsets(owner, owners, there), values)


def maps_of(
    owner: npt.NDArray[np.int64], owners: int, keys: pa.Array, values: pa.Array, there: npt.NDArray[np.bool_]
) -> pa.Array:
    """A map for each owner, null for those that have none; the entries are sorted by owner."""
    return pa.MapArray.from_arrays(_offsets(owner, owners, there), keys, values)


def _offsets(owner: npt.NDArray[np.int64], owners: int, there: npt.NDArray[np.bool_]) -> pa.Array:
    ends = np.cumsum(np.bincount(owner, minlength=owners)) if owners else np.zeros(0)
    offsets = np.concatenate(([0], ends)).astype(np.int32)
    return pa.array(offsets, mask=np.append(~there, False))
