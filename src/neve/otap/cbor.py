"""Maps and slices inside values: CBOR in OTAP's files, protobuf on the wire; the one place that goes value by value."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import cbor2
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue, KeyValueList

from neve.otlp.values import CACHED_BYTES, CACHED_VALUES, MOST_LEVELS, UnreadableValue, to_plain, to_value

Packed = tuple[bytes, bool]


def pack_slice(wire: bytes) -> Packed:
    """CBOR of an encoded `ArrayValue`, and whether it says everything that the wire said."""
    return _pack_cached(wire, False) if len(wire) <= CACHED_BYTES else _pack(wire, False)


def pack_map(wire: bytes) -> Packed:
    """CBOR of an encoded `KeyValueList`, and whether it says everything that the wire said.

    CBOR can't say that an entry has no value at all, and its readers keep one of two entries with the same key.
    """
    return _pack_cached(wire, True) if len(wire) <= CACHED_BYTES else _pack(wire, True)


def unpack_slice(ser: bytes) -> bytes:
    """The encoded `ArrayValue` that CBOR stands for; raises `UnreadableValue` when it stands for none."""
    return _unpack_cached(ser, False) if len(ser) <= CACHED_BYTES else _unpack(ser, False)


def unpack_map(ser: bytes) -> bytes:
    """The encoded `KeyValueList` that CBOR stands for; raises `UnreadableValue` when it stands for none."""
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
        return _inner(_value(plain, MOST_LEVELS))
    except UnreadableValue:
        raise
    except (cbor2.CBORDecodeError, TypeError, ValueError, RecursionError) as error:
        raise UnreadableValue(f"a value is no CBOR that OTAP knows: {error}") from None


_pack_cached = lru_cache(CACHED_VALUES)(_pack)
_unpack_cached = lru_cache(CACHED_VALUES)(_unpack)


def _inner(value: AnyValue) -> bytes:
    """The bytes of the list or map in a value."""
    inner = value.kvlist_value if value.HasField("kvlist_value") else value.array_value
    return inner.SerializeToString(deterministic=True)


def _value(plain: Any, levels: int) -> AnyValue:
    """What CBOR says, as an OTLP value.

    >>> _value({"a": [b"x"]}, 2).kvlist_value.values[0].value.array_value.values[0].bytes_value
    b'x'
    """
    match plain:
        case list() | dict() if levels == 0:
            raise UnreadableValue(f"a value is nested more than {MOST_LEVELS} levels deep")
        case list():
            return AnyValue(array_value=ArrayValue(values=[_value(item, levels - 1) for item in plain]))
        case dict():
            entries = [KeyValue(key=key, value=_value(item, levels - 1)) for key, item in plain.items()]
            return AnyValue(kvlist_value=KeyValueList(values=entries))
        case bytes():
            return AnyValue(bytes_value=plain)
    return to_value(plain)
