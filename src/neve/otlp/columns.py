"""Small conversions between the wire's columns and the tables': unsigned to signed, empty to null, and back."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from neve.model.columns import TIMESTAMP


def integers(array: pa.Array) -> pa.Array:
    """Unsigned integers as 64-bit signed ones: 32-bit values widen, 64-bit values keep their bits."""
    return array.view(pa.int64()) if array.type == pa.uint64() else array.cast(pa.int64())


def optional(array: pa.Array) -> pa.Array:
    """Text or bytes with null for empty: proto3 can't tell the two apart, and SQL reads null better."""
    return pc.if_else(pc.greater(pc.binary_length(array), 0), array, pa.scalar(None, array.type))


def required(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Numbers as the wire wants them: no nulls, and unsigned 64-bit values with the bits that they came with."""
    filled = array.fill_null(False if kind == pa.bool_() else 0)
    return filled.view(kind) if kind == pa.uint64() else filled.cast(kind)


def some_text(array: pa.StringArray) -> pa.StringArray:
    """Text as the wire wants it: empty for null."""
    return array.fill_null("")


def some_bytes(array: pa.BinaryArray) -> pa.BinaryArray:
    """Bytes as the wire wants them: empty for null."""
    return array.fill_null(b"")


def timestamps(unix_nanos: pa.Int64Array) -> pa.Array:
    """Nanoseconds since 1970 as timestamps, cut to microseconds."""
    return pc.divide(unix_nanos, 1000).view(TIMESTAMP)


def with_nulls(array: pa.Array, null: npt.NDArray[np.bool_]) -> pa.Array:
    """The same values with nulls in the marked places."""
    if not null.any():
        return array
    return array.take(pa.array(np.arange(len(array)), mask=null))


def list_of(lists: pa.ListArray, field: pa.Field) -> pa.ListArray:
    """Lists as the wire wants them: empty for null, of the wire's own type."""
    return relist(lists, lists.flatten()).cast(field.type)


def relist(lists: pa.ListArray, values: pa.Array) -> pa.ListArray:
    """Lists of the same lengths over other values; a null list becomes an empty one."""
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy()
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), values)


def constant(value: object, kind: pa.DataType, length: int) -> pa.Array:
    """A column with the same value in each row."""
    return pa.repeat(pa.scalar(value, kind), length)


def struct(columns: Mapping[str, pa.Array], *, null: npt.NDArray[np.bool_] | None = None) -> pa.StructArray:
    """A struct column of these columns, null in the marked places."""
    mask = None if null is None else pa.array(null, pa.bool_())
    return pa.StructArray.from_arrays(list(columns.values()), names=list(columns), mask=mask)
