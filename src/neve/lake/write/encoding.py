"""Dictionary encoding of Parquet columns: choose the columns, and shrink dictionaries to the rows of a slice.

A slice of rows has the dictionary of all rows, and Parquet would write all of it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Iterator


SAMPLE_ROWS = 2048
COUNTED_ROWS = 128 * 1024
MOSTLY_DISTINCT = 0.5
DELTA_COLUMNS = ("arrival_order",)  # rows that arrived together are often neighbours: 1.5 bytes a row instead of 2.1
_REPEATED = re.compile(r"\.(list|key_value)\.")


def choose_dictionary_columns(rows: pa.Table) -> list[str]:
    """Return the leaves of a table that benefit from a dictionary, by their paths in Parquet.

    A dictionary of values that rarely repeat contains all of them, plus an index for each row: measured on ids and
    times, two bytes per row without a benefit. Values inside maps and lists nearly always repeat, and are assumed to.
    """
    sample = pa.array(np.linspace(0, rows.num_rows - 1, min(rows.num_rows, SAMPLE_ROWS)).astype(np.int64))
    return [
        leaf
        for field in rows.schema
        if _has_repeats(rows.column(field.name), sample)
        for leaf in list_leaf_paths(field)
    ]


def list_leaf_paths(field: pa.Field, above: str = "") -> Iterator[str]:
    """Yield the paths of a field's leaves.

    >>> list(list_leaf_paths(pa.field("a", pa.map_(pa.string(), pa.list_(pa.int64())))))
    ['a.key_value.key', 'a.key_value.value.list.element']
    """
    path, kind = f"{above}{field.name}", field.type
    if pa.types.is_struct(kind):
        for child in kind:
            yield from list_leaf_paths(child, f"{path}.")
    elif pa.types.is_map(kind):
        yield f"{path}.key_value.key"
        yield from list_leaf_paths(pa.field("value", kind.item_type), f"{path}.key_value.")
    elif pa.types.is_list(kind):
        yield from list_leaf_paths(pa.field("element", kind.value_type), f"{path}.list.")
    else:
        yield path


def decode_dictionaries(rows: pa.Table) -> pa.Table:
    """Return the same columns without dictionaries, except those inside other types."""
    for place, field in enumerate(rows.schema):
        if pa.types.is_dictionary(field.type):
            column = rows.column(place).cast(field.type.value_type)
            rows = rows.set_column(place, field.with_type(field.type.value_type), column)
    return rows


def list_single_value_leaves(schema: pa.Schema) -> list[str]:
    """Return the leaves with one value per row.

    Bounds of values inside lists and maps are useless and expensive.
    """
    return [leaf for field in schema for leaf in list_leaf_paths(field) if not _REPEATED.search(leaf)]


def _has_repeats(column: pa.ChunkedArray, sample: pa.Int64Array) -> bool:
    """Return whether values repeat. A sample suffices for most columns; all values of the others are counted."""
    if pa.types.is_nested(column.type) or _has_few_distinct(column.take(sample)):
        return True
    return _has_few_distinct(column.slice(0, COUNTED_ROWS))


def _has_few_distinct(column: pa.ChunkedArray) -> bool:
    present = column.drop_null()
    return len(present) == 0 or pc.count_distinct(present).as_py() <= max(1, len(present) * MOSTLY_DISTINCT)


def shrink_dictionaries(rows: pa.Table) -> pa.Table:
    """Replace each dictionary that has more entries than its column has values by a smaller one.

    Smaller dictionaries stay: finding their used entries costs more than it saves.
    """
    for place, column in enumerate(rows.columns):
        texts = _plain_type(column.type)
        if texts != column.type and any(
            _is_too_long(found) for chunk in column.chunks for found in _find_dictionaries(chunk)
        ):
            # Concatenation, even with an empty array, copies the values. A cast of a slice would keep the neighbours
            # within maps.
            whole = pa.concat_arrays([*column.chunks, column.chunk(0).slice(0, 0)])
            rows = rows.set_column(place, rows.schema.field(place), whole.cast(texts).cast(column.type))
    return rows


def _is_too_long(values: pa.DictionaryArray) -> bool:
    return len(values.dictionary) > len(values)


def _find_dictionaries(values: pa.Array) -> Iterator[pa.DictionaryArray]:
    """Yield the dictionaries in a column, including those within its lists, maps and structs."""
    kind = values.type
    if pa.types.is_dictionary(kind):
        yield values
    elif pa.types.is_map(kind):
        first, last = values.offsets[0].as_py(), values.offsets[-1].as_py()
        yield from _find_dictionaries(values.keys.slice(first, last - first))
        yield from _find_dictionaries(values.items.slice(first, last - first))
    elif pa.types.is_struct(kind):
        for child in values.flatten():
            yield from _find_dictionaries(child)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        yield from _find_dictionaries(values.flatten())


def _plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the type with texts instead of dictionaries."""
    if pa.types.is_dictionary(kind):
        return kind.value_type
    if pa.types.is_map(kind):
        return pa.map_(_plain_field(kind.key_field), _plain_field(kind.item_field))
    if pa.types.is_struct(kind):
        return pa.struct([_plain_field(child) for child in kind.fields])
    if pa.types.is_list(kind):
        return pa.list_(_plain_field(kind.value_field))
    if pa.types.is_large_list(kind):
        return pa.large_list(_plain_field(kind.value_field))
    return kind


def _plain_field(field: pa.Field) -> pa.Field:
    return field.with_type(_plain_type(field.type))
