"""Attributes: lists of typed key values on the wire, a map of text and a small map of types in the tables.

Of several attributes with one key, the map has the last one. The map of types remembers the others. Decoding raises
`UnreadableValue` for a nested value that can't be read. Only then `find_unreadable_rows` searches the rows. The search
must see what decoding sees.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from neve.otlp.repeated_keys import ENTRY_TYPE, EarlierValues, add_earlier_values
from neve.otlp.value_columns import (
    STRING,
    Mask,
    decode_values,
    encode_values,
    find_unreadable_values,
    null_mask,
)

Offsets = npt.NDArray[np.int32]

BITMAP_LIMIT = 1 << 26  # 64 MB: above that, duplicate keys are found by sorting


@dataclass(frozen=True)
class Maps:
    """Attributes in the form of the tables."""

    attributes: pa.MapArray
    types: pa.MapArray
    duplicate_keys: int


def decode_attributes(lists: pa.ListArray) -> Maps:
    """Convert lists of `KeyValue` to a map of text and a map of the types that are not strings."""
    every, starts, keep = _find_last_of_keys(lists)
    entries = every if keep is None else every.filter(pa.array(keep))
    offsets = starts if keep is None else _filter_offsets(keep, starts)
    keys, texts = entries.field("key"), decode_values(entries.field("value"))
    typed = texts.codes != STRING
    types = pa.MapArray.from_arrays(
        pa.array(_filter_offsets(typed, offsets)),
        keys.filter(pa.array(typed)),
        pa.array(texts.names).take(pa.array(texts.codes[typed])),
    )
    attributes = pa.MapArray.from_arrays(pa.array(offsets), keys, texts.text)
    if keep is None:
        return Maps(attributes, types, 0)
    return Maps(attributes, add_earlier_values(types, every, starts, keep), int(len(keep) - keep.sum()))


def find_unreadable_attributes(lists: pa.ListArray) -> dict[int, str]:
    """Return the lists that `decode_attributes` can't decode, with the reasons."""
    entries, offsets, _keep = _find_last_of_keys(lists)
    found = find_unreadable_values(entries.field("value"))
    rows = np.searchsorted(offsets, np.fromiter(found, np.int32, len(found)), side="right") - 1
    return dict(zip(rows.tolist(), found.values(), strict=True))


def encode_attributes(maps: pa.MapArray, types: pa.MapArray) -> pa.ListArray:
    """Convert maps back to the lists of `KeyValue` that `decode_attributes` read; a null map is an empty list."""
    maps = _without_nulls(maps)
    types, earlier = EarlierValues.split(_without_nulls(types))
    encoded = encode_values(maps.items, _kinds_of_entries(maps, types))
    entries = pa.StructArray.from_arrays([maps.keys, encoded], fields=list(ENTRY_TYPE))
    lists = pa.ListArray.from_arrays(maps.offsets, entries)
    return lists if earlier is None else earlier.insert(lists)


def _kinds_of_entries(maps: pa.MapArray, types: pa.MapArray) -> pa.StringArray:
    """Return the kind in `types` of each entry of `maps`.

    Entries are matched by row and key, because engines may reorder them.
    """
    if len(types.keys) == 0:
        return pa.nulls(len(maps.keys), pa.string())
    keys = pa.concat_arrays([maps.keys, types.keys]).dictionary_encode()
    codes = keys.indices.to_numpy().astype(np.int64)
    width = len(keys.dictionary)
    entry = _rows(maps) * width + codes[: len(maps.keys)]
    typed = _rows(types) * width + codes[len(maps.keys) :]
    order = np.argsort(typed, kind="stable")
    found = np.minimum(np.searchsorted(typed[order], entry), len(typed) - 1)
    matches = typed[order][found] == entry
    return types.items.take(pa.array(order[found], mask=~matches))


def _rows(maps: pa.MapArray) -> npt.NDArray[np.int64]:
    offsets = maps.offsets.to_numpy()
    return np.repeat(np.arange(len(maps), dtype=np.int64), np.diff(offsets))


def _without_nulls(maps: pa.MapArray) -> pa.MapArray:
    """Replace null maps by empty ones, and make offsets begin at 0."""
    offsets = maps.offsets.to_numpy()
    lengths = np.diff(offsets)
    start, width = int(offsets[0]), int(offsets[-1] - offsets[0])
    keys, items = maps.keys.slice(start, width), maps.items.slice(start, width)
    if maps.null_count:
        valid = ~null_mask(maps)
        keep = pa.array(np.repeat(valid, lengths))
        keys, items, lengths = keys.filter(keep), items.filter(keep), lengths * valid
    return pa.MapArray.from_arrays(pa.array(np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)), keys, items)


def _find_last_of_keys(lists: pa.ListArray) -> tuple[pa.StructArray, Offsets, Mask | None]:
    """Return all entries, the offsets of their lists, and a mask of those to keep, or None if that is all."""
    offsets = lists.offsets.to_numpy()
    entries = lists.values.slice(offsets[0], offsets[-1] - offsets[0])
    offsets = offsets - offsets[0]
    return entries, offsets, _last_of_each_key(entries.field("key"), offsets)


def _last_of_each_key(keys: pa.StringArray, offsets: Offsets) -> Mask | None:
    """Return a mask of entries to keep so that no map holds a key twice, or None if none does."""
    if len(keys) == 0:
        return None
    encoded = keys.dictionary_encode()
    width = len(encoded.dictionary)
    rows = len(offsets) - 1
    entry = np.repeat(np.arange(rows, dtype=np.int64), np.diff(offsets)) * width + encoded.indices.to_numpy()
    if rows * width <= BITMAP_LIMIT:
        seen = np.zeros(rows * width, dtype=np.bool_)
        seen[entry] = True
        if int(seen.sum()) == len(entry):
            return None
    last = len(entry) - 1 - np.unique(entry[::-1], return_index=True)[1]
    if len(last) == len(entry):
        return None
    keep = np.zeros(len(entry), dtype=np.bool_)
    keep[last] = True
    return keep


def _filter_offsets(keep: Mask, offsets: Offsets) -> Offsets:
    return np.concatenate(([0], np.cumsum(keep, dtype=np.int32)))[offsets].astype(np.int32)


Found = dict[int, str]


def find_unreadable_rows(batch: pa.RecordBatch) -> Found:
    """Return the rows that can't be decoded, each with the reason."""
    return _unreadable_in_columns(batch.columns)


def _unreadable_in_columns(columns: list[pa.Array]) -> Found:
    found: Found = {}
    for column in columns:
        found |= _unreadable_in_column(column)
    return found


def _unreadable_in_column(array: pa.Array) -> Found:
    kind = array.type
    if pa.types.is_struct(kind):
        if kind.get_field_index("kvlist_value") >= 0:
            return find_unreadable_values(array)
        return _unreadable_in_columns([array.field(place) for place in range(kind.num_fields)])
    if not pa.types.is_list(kind) or not pa.types.is_struct(kind.value_type):
        return {}
    if kind.value_type.get_field_index("key") >= 0:
        return find_unreadable_attributes(array)
    inner = _unreadable_in_column(array.flatten())
    parents = pc.list_parent_indices(array)
    return {parents[place].as_py(): detail for place, detail in inner.items()}
