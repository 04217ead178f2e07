"""Dictionaries that fit their rows: a slice of rows has the dictionary of all, and Parquet writes the whole of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterator


def fitted(rows: pa.Table) -> pa.Table:
    """The rows, with a dictionary of their own for each column that has one with more entries than it has values.

    Smaller dictionaries are left as they are: to look which of their entries are used costs more than it saves.
    """
    for place, column in enumerate(rows.columns):
        texts = _plain(column.type)
        if texts != column.type and any(_is_too_long(found) for chunk in column.chunks for found in _encoded(chunk)):
            # Joined even with nothing, values are copied: a cast of a slice would keep what is beside it within maps.
            whole = pa.concat_arrays([*column.chunks, column.chunk(0).slice(0, 0)])
            rows = rows.set_column(place, rows.schema.field(place), whole.cast(texts).cast(column.type))
    return rows


def _is_too_long(values: pa.DictionaryArray) -> bool:
    return len(values.dictionary) > len(values)


def _encoded(values: pa.Array) -> Iterator[pa.DictionaryArray]:
    """The dictionaries in a column, also those within its lists, maps and structs."""
    kind = values.type
    if pa.types.is_dictionary(kind):
        yield values
    elif pa.types.is_map(kind):
        first, last = values.offsets[0].as_py(), values.offsets[-1].as_py()
        yield from _encoded(values.keys.slice(first, last - first))
        yield from _encoded(values.items.slice(first, last - first))
    elif pa.types.is_struct(kind):
        for child in values.flatten():
            yield from _encoded(child)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        yield from _encoded(values.flatten())


def _plain(kind: pa.DataType) -> pa.DataType:
    """The type with texts in the place of dictionaries."""
    if pa.types.is_dictionary(kind):
        return kind.value_type
    if pa.types.is_map(kind):
        return pa.map_(_field(kind.key_field), _field(kind.item_field))
    if pa.types.is_struct(kind):
        return pa.struct([_field(child) for child in kind.fields])
    if pa.types.is_list(kind):
        return pa.list_(_field(kind.value_field))
    if pa.types.is_large_list(kind):
        return pa.large_list(_field(kind.value_field))
    return kind


def _field(field: pa.Field) -> pa.Field:
    return field.with_type(_plain(field.type))
