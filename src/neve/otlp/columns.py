"""Column conversions between wire and tables: hex to bytes, unsigned to signed, empty to null, and back."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from neve.model.columns import TIMESTAMP

INVALID = 255
DIGITS = np.full(256, INVALID, dtype=np.uint8)
for _digit in "0123456789abcdefABCDEF":
    DIGITS[ord(_digit)] = int(_digit, 16)


def parse_hex(text: pa.StringArray) -> pa.BinaryArray:
    r"""Decode hex texts to bytes; raises `ValueError` if one is not hex.

    >>> parse_hex(pa.array(["00ff", ""])).to_pylist()
    [b'\x00\xff', b'']
    """
    offsets = np.frombuffer(text.buffers()[1], dtype=np.int32)[text.offset : text.offset + len(text) + 1]
    if np.any(np.diff(offsets) % 2):
        raise ValueError("an id has an odd number of hex digits")
    data = text.buffers()[2]
    digits = DIGITS[np.frombuffer(data, dtype=np.uint8)[offsets[0] : offsets[-1]]] if data else DIGITS[:0]
    if np.any(digits == INVALID):
        raise ValueError("an id has a character that is not a hex digit")
    joined = (digits[0::2] << 4) | digits[1::2]
    shorter = ((offsets - offsets[0]) // 2).astype(np.int32)
    return pa.BinaryArray.from_buffers(pa.binary(), len(text), [None, pa.py_buffer(shorter), pa.py_buffer(joined)])


def to_signed(array: pa.Array) -> pa.Array:
    """Convert unsigned integers to 64-bit signed ones: 32-bit values widen, 64-bit values keep their bits."""
    return array.view(pa.int64()) if array.type == pa.uint64() else array.cast(pa.int64())


def empty_to_null(array: pa.Array) -> pa.Array:
    """Replace empty text or bytes by null: proto3 can't distinguish the two, and null is more natural in SQL."""
    return pc.if_else(pc.greater(pc.binary_length(array), 0), array, pa.scalar(None, array.type))


def null_to_zero(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Convert numbers for the wire: no nulls, and unsigned 64-bit values with their original bits."""
    filled = array.fill_null(False if kind == pa.bool_() else 0)
    return filled.view(kind) if kind == pa.uint64() else filled.cast(kind)


def text_or_empty(array: pa.StringArray) -> pa.StringArray:
    """Convert text for the wire: empty for null."""
    return array.fill_null("")


def bytes_or_empty(array: pa.BinaryArray) -> pa.BinaryArray:
    """Convert bytes for the wire: empty for null."""
    return array.fill_null(b"")


def to_timestamps(unix_nanos: pa.Int64Array) -> pa.Array:
    """Convert nanoseconds since 1970 to timestamps, cut to microseconds."""
    return pc.divide(unix_nanos, 1000).view(TIMESTAMP)


def with_nulls(array: pa.Array, null: npt.NDArray[np.bool_]) -> pa.Array:
    """Set the masked values to null."""
    if not null.any():
        return array
    return array.take(pa.array(np.arange(len(array)), mask=null))


def list_of(lists: pa.ListArray, field: pa.Field) -> pa.ListArray:
    """Convert lists for the wire: empty for null, of the wire's own type."""
    return relist(lists, lists.flatten()).cast(field.type)


def relist(lists: pa.ListArray, values: pa.Array) -> pa.ListArray:
    """Return lists of the same lengths over other values; a null list becomes an empty one."""
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy()
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), values)


def constant(value: object, kind: pa.DataType, length: int) -> pa.Array:
    """Return a column with the same value in each row."""
    return pa.repeat(pa.scalar(value, kind), length)


def struct(columns: Mapping[str, pa.Array], *, null: npt.NDArray[np.bool_] | None = None) -> pa.StructArray:
    """Return a struct column of these columns, null where the mask is set."""
    mask = None if null is None else pa.array(null, pa.bool_())
    return pa.StructArray.from_arrays(list(columns.values()), names=list(columns), mask=mask)
