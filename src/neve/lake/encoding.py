"""How the columns of a file are encoded."""

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
_REPEATED = re.compile(r"\.(list|key_value)\.")


def dictionary_columns(rows: pa.Table) -> list[str]:
    """The leaves of a table that are worth a dictionary, by their paths in Parquet.

    A dictionary of values that hardly repeat is all of them and an index for each: measured on ids and times, two bytes
    a row that buy nothing. Values inside maps and lists repeat nearly always and are taken to.
    """
    sample = pa.array(np.linspace(0, rows.num_rows - 1, min(rows.num_rows, SAMPLE_ROWS)).astype(np.int64))
    return [leaf for field in rows.schema if _repeats(rows.column(field.name), sample) for leaf in leaves(field)]


def leaves(field: pa.Field, above: str = "") -> Iterator[str]:
    """The paths of a field's leaves.

    >>> list(leaves(pa.field("a", pa.map_(pa.string(), pa.list_(pa.int64())))))
    ['a.key_value.key', 'a.key_value.value.list.element']
    """
    path, kind = f"{above}{field.name}", field.type
    if pa.types.is_struct(kind):
        for child in kind:
            yield from leaves(child, f"{path}.")
    elif pa.types.is_map(kind):
        yield f"{path}.key_value.key"
        yield from leaves(pa.field("value", kind.item_type), f"{path}.key_value.")
    elif pa.types.is_list(kind):
        yield from leaves(pa.field("element", kind.value_type), f"{path}.list.")
    else:
        yield path


def plain(rows: pa.Table) -> pa.Table:
    """The same columns without dictionaries, but for those inside other types."""
    for place, field in enumerate(rows.schema):
        if pa.types.is_dictionary(field.type):
            column = rows.column(place).cast(field.type.value_type)
            rows = rows.set_column(place, field.with_type(field.type.value_type), column)
    return rows


def single_leaves(schema: pa.Schema) -> list[str]:
    """The leaves of which a row has one value: bounds of what is inside lists and maps help nobody, and cost a lot."""
    return [leaf for field in schema for leaf in leaves(field) if not _REPEATED.search(leaf)]


def _repeats(column: pa.ChunkedArray, sample: pa.Int64Array) -> bool:
    """Whether values come again; some rows tell it of most columns, the others are counted."""
    if pa.types.is_nested(column.type) or _few_distinct(column.take(sample)):
        return True
    return _few_distinct(column.slice(0, COUNTED_ROWS))


def _few_distinct(column: pa.ChunkedArray) -> bool:
    present = column.drop_null()
    return len(present) == 0 or pc.count_distinct(present).as_py() <= max(1, len(present) * MOSTLY_DISTINCT)
