"""Typed values: one column for each type in OTAP's files, `AnyValue`s as Arrow has them on the wire, and back.

The wire is where both ways meet: from there the one path of OTLP makes the lake's text and types, so that a value has
the same text whichever way it came.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from neve.errors import InputError
from neve.otap import cbor
from neve.otap.star_rows import fields
from neve.otlp.texts import VALUE_TYPE, nulls
from neve.otlp.values import UnreadableValue

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Mapping

EMPTY, STR, INT, DOUBLE, BOOL, MAP, SLICE, BYTES = range(8)
# OTAP's column and the wire's for each type whose values need no more than to be moved.
PLAIN = (
    (STR, "str", "string_value"),
    (INT, "int", "int_value"),
    (DOUBLE, "double", "double_value"),
    (BOOL, "bool", "bool_value"),
    (BYTES, "bytes", "bytes_value"),
)
NESTED = ((MAP, "kvlist_value"), (SLICE, "array_value"))
COLUMNS = ("type", "str", "int", "double", "bool", "bytes", "ser")

UNSET = "values that were not sent at all became empty ones"
INEXACT = "maps lost an entry without a value, or one of two with the same key"
UNREADABLE = "maps or slices were no readable CBOR and became bytes"


def to_wire(columns: Mapping[str, pa.Array], losses: Counter[str]) -> pa.StructArray:
    """`AnyValue`s from OTAP's columns; of a value only the column that its type names counts."""
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
    """OTAP's columns from `AnyValue`s; a value that is null, so that it was never sent, becomes an empty one."""
    losses[UNSET] += value.null_count
    kinds = np.full(len(value), EMPTY, dtype=np.uint8)
    wire = fields(value)
    columns = {column: wire[name] for _code, column, name in PLAIN}
    for code, column, _name in PLAIN:
        kinds[~nulls(columns[column])] = code
    ser: list[bytes | None] = [None] * len(value)
    for code, name in NESTED:
        pack = cbor.pack_map if code == MAP else cbor.pack_slice
        for index, nested in _some(wire[name]):
            ser[index], exact = pack(nested)
            losses[INEXACT] += not exact
        kinds[~nulls(wire[name])] = code
    columns |= {"type": pa.array(kinds), "ser": pa.array(ser, pa.binary())}
    return {name: columns[name] for name in COLUMNS}


def _check_kinds(kinds: pa.UInt8Array) -> None:
    most = pc.max(kinds).as_py() or 0
    if most > BYTES:
        raise InputError(
            f"a value has the type {most}, expected {EMPTY} to {BYTES}", hint="`neve otap check` tells more"
        )


def _only(column: pa.Array, kinds: pa.UInt8Array, code: int) -> pa.Array:
    if column.null_count == len(column):
        return column
    return pc.if_else(pc.equal(kinds, code), column, pa.scalar(None, column.type))


def _unpack_some(ser: pa.BinaryArray, kinds: pa.UInt8Array, code: int) -> tuple[pa.BinaryArray, pa.BinaryArray | None]:
    """The values of one nested type as the wire has them, and as they are where they can't be read."""
    chosen = _only(ser, kinds, code)
    if chosen.null_count == len(chosen):
        return chosen, None
    unpack: Callable[[bytes], bytes] = cbor.unpack_map if code == MAP else cbor.unpack_slice
    wires: list[bytes | None] = [None] * len(ser)
    unreadable: list[bytes | None] = [None] * len(ser)
    for index, value in _some(chosen):
        try:
            wires[index] = unpack(value)
        except UnreadableValue:
            unreadable[index] = value
    return pa.array(wires, pa.binary()), pa.array(unreadable, pa.binary())


def _some(array: pa.BinaryArray) -> list[tuple[int, bytes]]:
    """The values that are not null, each with its place."""
    where = np.flatnonzero(~nulls(array))
    return list(zip(where.tolist(), array.take(pa.array(where)).to_pylist(), strict=True))
