"""Which rows hold a nested value that can't be read.

Decoding does not ask; it raises `UnreadableValue` when it meets one. Only then the rows are searched here, and the
search must see what decoding sees: the same values, and of two entries with the same key the same one.
"""

import pyarrow as pa
import pyarrow.compute as pc

from neve.otlp.attributes import unreadable_attributes
from neve.otlp.texts import unreadable_values

Found = dict[int, str]


def unreadable(batch: pa.RecordBatch) -> Found:
    """The rows that can't be decoded, each with what is wrong."""
    return _any(batch.columns)


def _any(columns: list[pa.Array]) -> Found:
    found: Found = {}
    for column in columns:
        found |= _in(column)
    return found


def _in(array: pa.Array) -> Found:
    kind = array.type
    if pa.types.is_struct(kind):
        if kind.get_field_index("kvlist_value") >= 0:
            return unreadable_values(array)
        return _any([array.field(place) for place in range(kind.num_fields)])
    if not pa.types.is_list(kind) or not pa.types.is_struct(kind.value_type):
        return {}
    if kind.value_type.get_field_index("key") >= 0:
        return unreadable_attributes(array)
    inner = _in(array.flatten())
    parents = pc.list_parent_indices(array)
    return {parents[place].as_py(): detail for place, detail in inner.items()}
