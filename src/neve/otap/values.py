"""Typed values: one column for each type in OTAP files, `AnyValue`s in Arrow on the wire, and conversion both ways.

Both ways pass through the OTLP wire form. From there the one OTLP path makes the lake's text and types, so that a
value has the same text on either way. Maps and slices are CBOR in OTAP files and protobuf on the wire; only these
are converted value by value.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import cbor2
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue, KeyValueList

from neve.errors import InputError
from neve.otap.star_rows import struct_fields
from neve.otlp.value_columns import VALUE_TYPE, null_mask
from neve.otlp.values import CACHED_BYTES, CACHED_VALUES, MAX_LEVELS, UnreadableValue, to_plain, to_value

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Mapping


Packed = tuple[bytes, bool]


def pack_slice(wire: bytes) -> Packed:
    """Convert an encoded `ArrayValue` to CBOR, and return whether that is lossless."""
    return _pack_cached(wire, False) if len(wire) <= CACHED_BYTES else _pack(wire, False)


def pack_map(wire: bytes) -> Packed:
    """Convert an encoded `KeyValueList` to CBOR, and return whether that is lossless.

    CBOR can't express an entry without a value, and its readers keep one of two entries with the same key.
    """
    return _pack_cached(wire, True) if len(wire) <= CACHED_BYTES else _pack(wire, True)


def unpack_slice(ser: bytes) -> bytes:
    """Convert CBOR to an encoded `ArrayValue`; raises `UnreadableValue` if it is none."""
    return _unpack_cached(ser, False) if len(ser) <= CACHED_BYTES else _unpack(ser, False)


def unpack_map(ser: bytes) -> bytes:
    """Convert CBOR to an encoded `KeyValueList`; raises `UnreadableValue` if it is none."""
    return _unpack_cached(ser, True) if len(ser) <= CACHED_BYTES else _unpack(ser, True)


def _pack(wire: bytes, is_map: bool) -> Packed:
    value = (
        AnyValue(kvlist_value=KeyValueList.FromString(wire))
        if is_map
        else AnyValue(array_value=ArrayValue.FromString(wire))
    )
    ser = cbor2.dumps(to_plain(value))
    return ser, _unpack(ser, is_map) == _inner(value)


def _unpack(ser: bytes, is_map: bool) -> bytes:
    try:
        plain = cbor2.loads(ser)
        if not isinstance(plain, dict if is_map else list):
            raise UnreadableValue(f"CBOR holds {type(plain).__name__}, expected a {'map' if is_map else 'slice'}")
        return _inner(_to_any_value(plain, MAX_LEVELS))
    except UnreadableValue:
        raise
    except (cbor2.CBORDecodeError, TypeError, ValueError, RecursionError) as error:
        raise UnreadableValue(f"a value is not valid CBOR of OTAP: {error}") from None


_pack_cached = lru_cache(CACHED_VALUES)(_pack)
_unpack_cached = lru_cache(CACHED_VALUES)(_unpack)


def _inner(value: AnyValue) -> bytes:
    """Return the bytes of the list or map in a value."""
    inner = value.kvlist_value if value.HasField("kvlist_value") else value.array_value
    return inner.SerializeToString(deterministic=True)


def _to_any_value(plain: Any, levels: int) -> AnyValue:
    """Convert a decoded CBOR value to an OTLP value.

    >>> _to_any_value({"a": [b"x"]}, 2).kvlist_value.values[0].value.array_value.values[0].bytes_value
    b'x'
    """
    match plain:
        case list() | dict() if levels == 0:
            raise UnreadableValue(f"a value is nested more than {MAX_LEVELS} levels deep")
        case list():
            return AnyValue(array_value=ArrayValue(values=[_to_any_value(item, levels - 1) for item in plain]))
        case dict():
            entries = [KeyValue(key=key, value=_to_any_value(item, levels - 1)) for key, item in plain.items()]
            return AnyValue(kvlist_value=KeyValueList(values=entries))
        case bytes():
            return AnyValue(bytes_value=plain)
    return to_value(plain)


EMPTY, STR, INT, DOUBLE, BOOL, MAP, SLICE, BYTES = range(8)
# OTAP's column and the wire's for each type whose values are copied unchanged.
PLAIN = (
    (STR, "str", "string_value"),
    (INT, "int", "int_value"),
    (DOUBLE, "double", "double_value"),
    (BOOL, "bool", "bool_value"),
    (BYTES, "bytes", "bytes_value"),
)
NESTED = ((MAP, "kvlist_value"), (SLICE, "array_value"))
COLUMNS = ("type", "str", "int", "double", "bool", "bytes", "ser")

UNSET = "missing values became empty values"
INEXACT = "maps lost an entry without a value or a repeated key"
UNREADABLE = "maps or slices with invalid CBOR became bytes"


def to_wire(columns: Mapping[str, pa.Array], losses: Counter[str]) -> pa.StructArray:
    """Build `AnyValue`s from OTAP's columns; of each value only the column of its type counts."""
    kinds = columns["type"]
    _check_kinds(kinds)
    wire = {name: _only(columns[column], kinds, code) for code, column, name in PLAIN}
    for code, name in NESTED:
        wire[name], unreadable = _unpack_some(columns["ser"], kinds, code)
        if unreadable is not None:
            losses[UNREADABLE] += len(unreadable) - unreadable.null_count
            wire["bytes_value"] = pc.coalesce(wire["bytes_value"], unreadable)
    return pa.StructArray.from_arrays([wire[field.name] for field in VALUE_TYPE], fields=list(VALUE_TYPE))


def from_wire(value: pa.StructArray, losses: Counter[str]) -> dict[str, pa.Array]:
    """Build OTAP's columns from `AnyValue`s; a null value, which was never sent, becomes an empty one."""
    losses[UNSET] += value.null_count
    kinds = np.full(len(value), EMPTY, dtype=np.uint8)
    wire = struct_fields(value)
    columns = {column: wire[name] for _code, column, name in PLAIN}
    for code, column, _name in PLAIN:
        kinds[~null_mask(columns[column])] = code
    ser: list[bytes | None] = [None] * len(value)
    for code, name in NESTED:
        pack = pack_map if code == MAP else pack_slice
        for index, nested in _some(wire[name]):
            ser[index], exact = pack(nested)
            losses[INEXACT] += not exact
        kinds[~null_mask(wire[name])] = code
    columns |= {"type": pa.array(kinds), "ser": pa.array(ser, pa.binary())}
    return {name: columns[name] for name in COLUMNS}


def _check_kinds(kinds: pa.UInt8Array) -> None:
    most = pc.max(kinds).as_py() or 0
    if most > BYTES:
        raise InputError(
            f"a value has the type {most}, expected {EMPTY} to {BYTES}", hint="run `neve otap check` for details"
        )


def _only(column: pa.Array, kinds: pa.UInt8Array, code: int) -> pa.Array:
    if column.null_count == len(column):
        return column
    return pc.if_else(pc.equal(kinds, code), column, pa.scalar(None, column.type))


def _unpack_some(ser: pa.BinaryArray, kinds: pa.UInt8Array, code: int) -> tuple[pa.BinaryArray, pa.BinaryArray | None]:
    """Return the values of one nested type in wire form, and the original bytes of those that can't be read."""
    chosen = _only(ser, kinds, code)
    if chosen.null_count == len(chosen):
        return chosen, None
    unpack: Callable[[bytes], bytes] = unpack_map if code == MAP else unpack_slice
    wires: list[bytes | None] = [None] * len(ser)
    unreadable: list[bytes | None] = [None] * len(ser)
    for index, value in _some(chosen):
        try:
            wires[index] = unpack(value)
        except UnreadableValue:
            unreadable[index] = value
    return pa.array(wires, pa.binary()), pa.array(unreadable, pa.binary())


def _some(array: pa.BinaryArray) -> list[tuple[int, bytes]]:
    """Return the values that are not null, each with its place."""
    where = np.flatnonzero(~null_mask(array))
    return list(zip(where.tolist(), array.take(pa.array(where)).to_pylist(), strict=True))
