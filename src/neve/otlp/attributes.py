"""Attributes: lists of typed key values on the wire, a map of text and a small map of types in the tables."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from neve.otlp.texts import STRING, VALUE_TYPE, Mask, decode_values, encode_values, nulls, unreadable_values

Offsets = npt.NDArray[np.int32]

ENTRY_TYPE = pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", VALUE_TYPE)])
BITMAP_LIMIT = 1 << 26  # 64 MB: above that, duplicate keys are found by sorting


@dataclass(frozen=True)
class Maps:
    """Attributes as the tables hold them."""

    attributes: pa.MapArray
    types: pa.MapArray
    duplicate_keys: int


def decode_attributes(lists: pa.ListArray) -> Maps:
    """Lists of `KeyValue` as a map of text and a map of the types that are not strings."""
    entries, offsets, duplicates = _distinct(lists)
    keys, texts = entries.field("key"), decode_values(entries.field("value"))
    typed = texts.codes != STRING
    types = pa.MapArray.from_arrays(
        pa.array(_kept_offsets(typed, offsets)),
        keys.filter(pa.array(typed)),
        pa.array(texts.names).take(pa.array(texts.codes[typed])),
    )
    return Maps(pa.MapArray.from_arrays(pa.array(offsets), keys, texts.text), types, duplicates)


def unreadable_attributes(lists: pa.ListArray) -> dict[int, str]:
    """Which lists `decode_attributes` can't decode, and why."""
    entries, offsets, _duplicates = _distinct(lists)
    found = unreadable_values(entries.field("value"))
    rows = np.searchsorted(offsets, np.fromiter(found, np.int32, len(found)), side="right") - 1
    return dict(zip(rows.tolist(), found.values(), strict=True))


def encode_attributes(maps: pa.MapArray, types: pa.MapArray) -> pa.ListArray:
    """The lists of `KeyValue` that `decode_attributes` made these maps from; a null map is an empty list."""
    maps, types = _without_nulls(maps), _without_nulls(types)
    kinds = _kinds_of_entries(maps, types)
    encoded = encode_values(maps.items, kinds)
    return pa.ListArray.from_arrays(
        maps.offsets, pa.StructArray.from_arrays([maps.keys, encoded], fields=list(ENTRY_TYPE))
    )


def _kinds_of_entries(maps: pa.MapArray, types: pa.MapArray) -> pa.StringArray:
    """For each entry of `maps` its kind in `types`, matched by row and key, in whatever order engines left them."""
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
    """The same maps with empty ones for nulls, and with offsets that begin at 0."""
    offsets = maps.offsets.to_numpy()
    lengths = np.diff(offsets)
    start, width = int(offsets[0]), int(offsets[-1] - offsets[0])
    keys, items = maps.keys.slice(start, width), maps.items.slice(start, width)
    if maps.null_count:
        valid = ~nulls(maps)
        keep = pa.array(np.repeat(valid, lengths))
        keys, items, lengths = keys.filter(keep), items.filter(keep), lengths * valid
    return pa.MapArray.from_arrays(pa.array(np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)), keys, items)


def _distinct(lists: pa.ListArray) -> tuple[pa.StructArray, Offsets, int]:
    """The entries that are kept, where each list of them begins, and how many were dropped."""
    offsets = lists.offsets.to_numpy()
    entries = lists.values.slice(offsets[0], offsets[-1] - offsets[0])
    offsets = offsets - offsets[0]
    keep = _last_of_each_key(entries.field("key"), offsets)
    if keep is None:
        return entries, offsets, 0
    return entries.filter(pa.array(keep)), _kept_offsets(keep, offsets), int(len(keep) - keep.sum())


def _last_of_each_key(keys: pa.StringArray, offsets: Offsets) -> Mask | None:
    """Which entries to keep so that no map holds a key twice, or nothing where none does."""
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


def _kept_offsets(keep: Mask, offsets: Offsets) -> Offsets:
    return np.concatenate(([0], np.cumsum(keep, dtype=np.int32)))[offsets].astype(np.int32)
