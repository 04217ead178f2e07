"""Values of a field for many spans: columns with a type for each value, because attributes decide their types alone.

A value may be an array, whose elements are in `items`. Events and links give a span several values of one field: the
first is the value, the others are in `more`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from neve.traceql.language.fields import Static, Type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = [
    "Ragged",
    "Vector",
    "combine_codes",
    "first_present",
    "from_booleans",
    "from_constant",
    "from_numbers",
    "from_texts",
]

_INT_TYPES = (Type.INT, Type.BOOL, Type.DURATION, Type.STATUS, Type.KIND)
_ELEMENT_TYPES = {bool: Type.BOOL, int: Type.INT, float: Type.FLOAT, str: Type.STRING}
MAX_ITEMS = 1000  # elements of an array that are compared
_MAX_INT = 2**63


@dataclass(frozen=True, slots=True)
class Ragged:
    """Values of which a row has any number: `rows` are the rows of `values`."""

    rows: NDArray[np.int64]
    values: Vector


@dataclass(frozen=True, slots=True)
class Vector:
    """Column of values. `numbers` has integers, durations, booleans and codes; `texts` strings, and arrays as JSON."""

    types: NDArray[np.uint8]
    numbers: NDArray[np.int64]
    floats: NDArray[np.float64]
    texts: pa.StringArray | None = None
    items: Ragged | None = None
    more: Ragged | None = None

    def __len__(self) -> int:
        return len(self.types)

    def is_type(self, *types: Type) -> NDArray[np.bool_]:
        """Return which values have one of the types."""
        return np.isin(self.types, types)

    @property
    def is_true(self) -> NDArray[np.bool_]:
        """Return which values are the boolean true."""
        found: NDArray[np.bool_] = self.is_type(Type.BOOL) & (self.numbers != 0)
        return found

    @property
    def is_number(self) -> NDArray[np.bool_]:
        """Return which values are compared as numbers."""
        return self.is_type(Type.INT, Type.FLOAT, Type.DURATION)

    def as_floats(self) -> NDArray[np.float64]:
        """Return numbers as floats."""
        return np.where(self.types == Type.FLOAT, self.floats, self.numbers.astype(np.float64))

    def all_texts(self) -> pa.StringArray:
        """Return the strings, null for other values."""
        return pa.nulls(len(self), pa.string()) if self.texts is None else self.texts

    def take(self, rows: NDArray[np.int64]) -> Vector:
        """Return the values of rows. Further values of a span are left out."""
        texts = None if self.texts is None else self.texts.take(pa.array(rows))
        items = None if self.items is None else _take_ragged(self.items, rows, len(self))
        return Vector(self.types[rows], self.numbers[rows], self.floats[rows], texts, items)

    def get(self, row: int) -> Static:
        """Return one value."""
        kind = Type(int(self.types[row]))
        if kind is Type.FLOAT:
            return Static(kind, float(self.floats[row]))
        if kind in {Type.STRING, Type.ARRAY}:
            return Static(kind, self.all_texts()[row].as_py())
        number = int(self.numbers[row])
        return Static(kind, bool(number) if kind is Type.BOOL else None if kind is Type.NIL else number)

    def codes(self) -> NDArray[np.int64]:
        """Return a number for each value, equal for equal values of the same type."""
        parts = [
            self.types.astype(np.int64),
            np.where(self.types == Type.FLOAT, self.floats.view(np.int64), self.numbers),
        ]
        if self.texts is not None:
            encoded = pc.fill_null(self.texts, "").dictionary_encode()
            parts.append(encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64))
        return combine_codes(parts)


def combine_codes(parts: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Return a number for each row, equal for rows that are equal in all parts."""
    found = np.zeros(len(parts[0]), dtype=np.int64)
    for part in parts:
        distinct, codes = np.unique(part, return_inverse=True)
        _, found = np.unique(found * len(distinct) + codes, return_inverse=True)
    return found.astype(np.int64)


def _take_ragged(ragged: Ragged, rows: NDArray[np.int64], count: int) -> Ragged:
    """Return the elements of chosen rows, renumbered."""
    order = np.argsort(ragged.rows, kind="stable")
    first = np.searchsorted(ragged.rows[order], np.arange(count + 1))
    lengths = first[rows + 1] - first[rows]
    owners = np.repeat(np.arange(len(rows)), lengths)
    places = np.arange(len(owners)) - np.repeat(np.cumsum(lengths) - lengths, lengths) + np.repeat(first[rows], lengths)
    return Ragged(owners, ragged.values.take(order[places]))


def _empty(count: int, kind: Type) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.float64]]:
    return np.full(count, kind, dtype=np.uint8), np.zeros(count, dtype=np.int64), np.zeros(count)


def from_constant(static: Static, count: int) -> Vector:
    """Return a constant for so many spans."""
    types, numbers, floats = _empty(count, static.type)
    if static.type is Type.STRING:
        return Vector(types, numbers, floats, pa.repeat(static.value, count))
    if static.type is Type.FLOAT:
        floats[:] = static.value
    elif static.type is not Type.NIL:
        numbers[:] = static.value
    return Vector(types, numbers, floats)


def from_numbers(kind: Type, numbers: NDArray[np.int64]) -> Vector:
    """Return a column of one type that is not a float."""
    return Vector(np.full(len(numbers), kind, dtype=np.uint8), numbers, np.zeros(len(numbers)))


def from_booleans(mask: NDArray[np.bool_]) -> Vector:
    """Return a column of booleans."""
    return from_numbers(Type.BOOL, mask.astype(np.int64))


def from_texts(texts: pa.StringArray, kinds: pa.StringArray | None = None) -> Vector:
    """Return attributes of the lake: their texts, and the names of their types, which strings lack."""
    types, numbers, floats = _empty(len(texts), Type.STRING)
    types[texts.is_null().to_numpy(zero_copy_only=False)] = Type.NIL
    if kinds is None or kinds.null_count == len(kinds):
        return Vector(types, numbers, floats, texts)
    for name in pc.unique(kinds.drop_null()).to_pylist():
        chosen = pc.fill_null(pc.equal(kinds, name), fill_value=False).to_numpy(zero_copy_only=False) & (
            types != Type.NIL
        )
        given = texts.filter(pa.array(chosen))
        if name == "int":
            types[chosen], numbers[chosen] = Type.INT, given.cast(pa.int64()).to_numpy(zero_copy_only=False)
        elif name == "double":
            types[chosen], floats[chosen] = Type.FLOAT, given.cast(pa.float64()).to_numpy(zero_copy_only=False)
        elif name == "bool":
            types[chosen], numbers[chosen] = Type.BOOL, pc.equal(given, "true").to_numpy(zero_copy_only=False)
        elif name in {"empty", "unset"}:
            types[chosen] = Type.NIL
        elif name not in {"bytes", "map"}:
            types[chosen] = Type.ARRAY
    return _add_items(Vector(types, numbers, floats, texts))


def _add_items(vector: Vector) -> Vector:
    """Return a column with the elements of its arrays. JSON that is no array is a string."""
    rows = np.flatnonzero(vector.types == Type.ARRAY)
    if not len(rows):
        return vector
    encoded = vector.all_texts().take(pa.array(rows)).dictionary_encode()
    lists = [_parse_array(text) for text in encoded.dictionary.to_pylist()]
    owners: list[int] = []
    values: list[Any] = []
    for row, code in zip(rows.tolist(), encoded.indices.to_pylist(), strict=True):
        found = lists[code]
        if found is None:
            vector.types[row] = Type.STRING
            continue
        owners += [row] * len(found)
        values += found
    items = Ragged(np.array(owners, dtype=np.int64), _from_elements(values))
    return Vector(vector.types, vector.numbers, vector.floats, vector.texts, items)


def _parse_array(text: str) -> list[Any] | None:
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return found[:MAX_ITEMS] if isinstance(found, list) else None


def _from_elements(values: Sequence[Any]) -> Vector:
    """Return a column of elements of arrays. Nested ones are nil."""
    types, numbers, floats = _empty(len(values), Type.NIL)
    texts: list[str | None] = [None] * len(values)
    for row, value in enumerate(values):
        kind = _ELEMENT_TYPES.get(type(value), Type.NIL)
        if kind is Type.INT and abs(value) >= _MAX_INT:
            kind, value = Type.FLOAT, float(value)  # noqa: PLW2901  # OTLP has no larger integer
        types[row] = kind
        if kind is Type.STRING:
            texts[row] = value
        elif kind is Type.FLOAT:
            floats[row] = value
        elif kind in _INT_TYPES:
            numbers[row] = value
    return Vector(types, numbers, floats, pa.array(texts, pa.string()))


def first_present(vectors: Sequence[Vector]) -> Vector:
    """Return for each row the value of the first column that has one."""
    found = vectors[0]
    for other in vectors[1:]:
        missing = found.types == Type.NIL
        if missing.any() and (other.types != Type.NIL).any():
            found = _fill(found, other, missing)
    return found


def _fill(left: Vector, right: Vector, missing: NDArray[np.bool_]) -> Vector:
    texts = None
    if left.texts is not None or right.texts is not None:
        texts = pc.if_else(pa.array(missing), right.all_texts(), left.all_texts())
    return Vector(
        np.where(missing, right.types, left.types),
        np.where(missing, right.numbers, left.numbers),
        np.where(missing, right.floats, left.floats),
        texts,
        _fill_ragged(left.items, right.items, missing),
        _fill_ragged(left.more, right.more, missing),
    )


def _fill_ragged(left: Ragged | None, right: Ragged | None, missing: NDArray[np.bool_]) -> Ragged | None:
    if right is None:
        return left
    chosen = np.flatnonzero(missing[right.rows])
    right = Ragged(right.rows[chosen], right.values.take(chosen))
    if left is None:
        return right
    return Ragged(np.concatenate([left.rows, right.rows]), concatenate(left.values, right.values))


def concatenate(left: Vector, right: Vector) -> Vector:
    """Return the values of one column after those of another."""
    texts = None
    if left.texts is not None or right.texts is not None:
        texts = pa.concat_arrays([left.all_texts(), right.all_texts()])
    items = left.items
    if right.items is not None:
        moved = Ragged(right.items.rows + len(left), right.items.values)
        items = (
            moved
            if items is None
            else Ragged(np.concatenate([items.rows, moved.rows]), concatenate(items.values, moved.values))
        )
    return Vector(
        np.concatenate([left.types, right.types]),
        np.concatenate([left.numbers, right.numbers]),
        np.concatenate([left.floats, right.floats]),
        texts,
        items,
    )


def from_ragged(rows: NDArray[np.int64], values: Vector, count: int) -> Vector:
    """Return values of events or links as those of their spans: the first that is there, and the others in `more`."""
    present = np.flatnonzero(values.types != Type.NIL)
    rows, values = rows[present], values.take(present)
    owners, first = np.unique(rows, return_index=True)
    if not len(owners):
        return from_constant(Static(Type.NIL, None), count)
    place = np.full(count, len(values), dtype=np.int64)
    place[owners] = first
    found = concatenate(values, from_constant(Static(Type.NIL, None), 1)).take(place)
    others = np.setdiff1d(np.arange(len(rows)), first)
    more = Ragged(rows[others], values.take(others)) if len(others) else None
    return Vector(found.types, found.numbers, found.floats, found.texts, found.items, more)
