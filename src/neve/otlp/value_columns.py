"""Columns of `AnyValue` as text with the kind of each value, and back."""

import base64
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from neve.otlp import values

Codes = npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]

# The index in this list is the code of a kind. A string needs no entry in the map of types.
KINDS = ("string", "bool", "int", "double", "bytes", "empty", "unset", values.ARRAY, values.MAP)
STRING, BOOL, INT, DOUBLE, BYTES, EMPTY, UNSET = range(7)
SCALARS = ((BOOL, "bool_value"), (INT, "int_value"), (DOUBLE, "double_value"))

VALUE_TYPE = pa.struct(
    [
        ("string_value", pa.string()),
        ("bool_value", pa.bool_()),
        ("int_value", pa.int64()),
        ("double_value", pa.float64()),
        ("array_value", pa.binary()),
        ("kvlist_value", pa.binary()),
        ("bytes_value", pa.binary()),
    ]
)


@dataclass(frozen=True)
class Texts:
    """Values as text, with a code for the kind of each and the names of the codes."""

    text: pa.StringArray
    codes: Codes
    names: tuple[str, ...]

    @property
    def kinds(self) -> pa.StringArray:
        """Return the name of each value's kind, null for strings."""
        return pa.array(self.names).take(pa.array(self.codes, mask=self.codes == STRING))


def decode_values(value: pa.StructArray) -> Texts:
    """Convert `AnyValue`s to text and kinds, whole columns at a time."""
    text = value.field("string_value")
    if text.null_count == 0:
        return Texts(text, np.full(len(value), STRING, dtype=np.int32), KINDS)
    codes = np.full(len(value), EMPTY, dtype=np.int32)
    if value.null_count:
        codes[null_mask(value)] = UNSET
    # A value should be of one kind. If a broken client set two, text and code must be of the same kind: the last one
    # here overwrites earlier codes, and comes first for the text.
    columns: list[pa.StringArray] = []
    names = list(KINDS)
    for name, render in _RENDERERS:
        nested = value.field(name)
        if nested.null_count < len(nested):
            columns.append(_render_some(nested, render, codes, names))
    for code, name in SCALARS:
        scalar = value.field(name)
        if scalar.null_count < len(scalar):
            columns.append(scalar.cast(pa.string()))
            codes[~null_mask(scalar)] = code
    codes[~null_mask(text)] = STRING
    return Texts(pc.coalesce(text, *reversed(columns)) if columns else text, codes, tuple(names))


def find_unreadable_values(value: pa.StructArray) -> dict[int, str]:
    """Return the values that `decode_values` can't decode, with the reasons."""
    if value.field("string_value").null_count == 0:
        return {}
    found: dict[int, str] = {}
    for name, render in _RENDERERS:
        nested = value.field(name)
        for index, wire in _some(nested, ~null_mask(nested)):
            try:
                render(wire)
            except values.UnreadableValue as error:
                found[index] = str(error)
    return found


def _render_some(
    wires: pa.BinaryArray, render: Callable[[bytes], values.Rendered], codes: Codes, names: list[str]
) -> pa.StringArray:
    """Convert the few values that need Python to text; their kinds are added to `codes` and `names`."""
    known = {name: code for code, name in enumerate(names)}
    texts: list[str | None] = [None] * len(wires)
    for index, wire in _some(wires, ~null_mask(wires)):
        texts[index], kind = render(wire)
        if kind not in known:
            known[kind] = len(names)
            names.append(kind)
        codes[index] = known[kind]
    return pa.array(texts, pa.string())


def _some(array: pa.Array, mask: Mask) -> Iterable[tuple[int, Any]]:
    """Yield the masked values, each with its place."""
    where = np.flatnonzero(mask)
    return zip(where.tolist(), array.take(pa.array(where)).to_pylist(), strict=True)


def _render_bytes(wire: bytes) -> values.Rendered:
    return base64.b64encode(wire).decode(), KINDS[BYTES]


_RENDERERS: tuple[tuple[str, Callable[[bytes], values.Rendered]], ...] = (
    ("array_value", values.render_array),
    ("kvlist_value", values.render_map),
    ("bytes_value", _render_bytes),
)


def encode_values(text: pa.StringArray, kinds: pa.StringArray) -> pa.StructArray:
    """Build `AnyValue`s from text and kinds; a null kind is a string."""
    columns = {field.name: pa.nulls(len(text), field.type) for field in VALUE_TYPE}
    if kinds.null_count == len(kinds):
        columns["string_value"] = text
        return pa.StructArray.from_arrays(list(columns.values()), fields=list(VALUE_TYPE))
    columns["string_value"] = _only(text, pc.is_null(kinds))
    for code, name in SCALARS:
        columns[name] = _only(text, pc.fill_null(pc.equal(kinds, KINDS[code]), False)).cast(VALUE_TYPE.field(name).type)
    columns["bytes_value"] = _encode_some(text, kinds, pc.equal(kinds, KINDS[BYTES]), _bytes_of)
    columns["array_value"], columns["kvlist_value"] = _encode_nested(text, kinds)
    unset = pc.fill_null(pc.equal(kinds, KINDS[UNSET]), False)
    return pa.StructArray.from_arrays(list(columns.values()), fields=list(VALUE_TYPE), mask=unset)


def _encode_nested(text: pa.StringArray, kinds: pa.StringArray) -> tuple[pa.BinaryArray, pa.BinaryArray]:
    exact = pc.starts_with(kinds, values.EXACT)
    nested = pc.or_(exact, pc.is_in(kinds, value_set=pa.array([values.ARRAY, values.MAP])))
    arrays: list[bytes | None] = [None] * len(text)
    kvlists: list[bytes | None] = [None] * len(text)
    for index, item, kind in _select_marked(text, kinds, nested):
        value = values.parse_nested(item, kind)
        if value.HasField("array_value"):
            arrays[index] = value.array_value.SerializeToString(deterministic=True)
        else:
            kvlists[index] = value.kvlist_value.SerializeToString(deterministic=True)
    return pa.array(arrays, pa.binary()), pa.array(kvlists, pa.binary())


def _encode_some(
    text: pa.StringArray, kinds: pa.StringArray, mask: pa.BooleanArray, encode: Callable[[str], bytes]
) -> pa.BinaryArray:
    out: list[bytes | None] = [None] * len(text)
    for index, item, _kind in _select_marked(text, kinds, mask):
        out[index] = encode(item)
    return pa.array(out, pa.binary())


def _select_marked(
    text: pa.StringArray, kinds: pa.StringArray, mask: pa.BooleanArray
) -> Iterable[tuple[int, str, str]]:
    where = np.flatnonzero(pc.fill_null(mask, False).to_numpy(zero_copy_only=False))
    chosen = pa.array(where)
    return zip(where.tolist(), text.take(chosen).to_pylist(), kinds.take(chosen).to_pylist(), strict=True)


def _bytes_of(text: str) -> bytes:
    return base64.b64decode(text)


def null_mask(array: pa.Array) -> Mask:
    """Return a mask of null values."""
    mask: Mask = array.is_null().to_numpy(zero_copy_only=False)
    return mask


def _only(array: pa.Array, mask: pa.BooleanArray) -> pa.Array:
    return pc.if_else(mask, array, pa.scalar(None, array.type))
