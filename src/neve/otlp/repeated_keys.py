"""Attributes with the same key: the map has the last one, the map of types remembers the values before it.

OTLP forbids two attributes with one key, and a map has no place for both. Senders do it anyway. The values before the
last one are an entry of the map of types under the key and ` (earlier)`, so that a message is encoded as it came. Few
attributes have this, so values are converted one by one.
"""

import base64
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue, KeyValueList

from neve.otlp.value_columns import VALUE_TYPE
from neve.otlp.values import render_array, render_map

Offsets = npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]

SUFFIX = " (earlier)"
EARLIER = "earlier:"
ENTRY_TYPE = pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", VALUE_TYPE)])


def add_earlier_values(types: pa.MapArray, entries: pa.StructArray, offsets: Offsets, keep: Mask) -> pa.MapArray:
    """Return maps of types with the entries of each list that are not kept; raises `UnreadableValue`."""
    dropped = np.flatnonzero(~keep)
    rows = np.searchsorted(offsets, dropped, side="right") - 1
    lists: dict[tuple[int, str], KeyValueList] = {}
    for row, entry in zip(rows.tolist(), entries.take(pa.array(dropped)).to_pylist(), strict=True):
        lists.setdefault((row, entry["key"]), KeyValueList()).values.append(_to_key_value(entry))
    found = [
        (row, key + SUFFIX, EARLIER + base64.b64encode(each.SerializeToString(deterministic=True)).decode())
        for (row, key), each in lists.items()
    ]
    return _append(types, found)


@dataclass(frozen=True)
class EarlierValues:
    """Entries that stand before the last one with their key, and the list of each."""

    rows: list[int]
    entries: list[KeyValue]

    @classmethod
    def split(cls, types: pa.MapArray) -> tuple[pa.MapArray, "EarlierValues | None"]:
        """Return maps of types without earlier values, and those values if there are any."""
        is_earlier = pc.fill_null(pc.starts_with(types.items, EARLIER), False).to_numpy(zero_copy_only=False)
        if not is_earlier.any():
            return types, None
        offsets = types.offsets.to_numpy()
        places = np.flatnonzero(is_earlier)
        rows = np.searchsorted(offsets, places, side="right") - 1
        texts = types.items.take(pa.array(places)).to_pylist()
        found = [(row, entry) for row, text in zip(rows.tolist(), texts, strict=True) for entry in _parse_earlier(text)]
        left = pa.array(~is_earlier)
        rest = np.concatenate(([0], np.cumsum(~is_earlier)))[offsets].astype(np.int32)
        plain = pa.MapArray.from_arrays(pa.array(rest), types.keys.filter(left), types.items.filter(left))
        return plain, cls([row for row, _entry in found], [entry for _row, entry in found])

    def insert(self, lists: pa.ListArray) -> pa.ListArray:
        """Return lists of `KeyValue` in which each value stands before the last one with its key."""
        offsets = lists.offsets.to_numpy()
        keys = lists.values.field("key")
        places, added = [], []
        for row, entry in zip(self.rows, self.entries, strict=True):
            mine = keys.slice(offsets[row], offsets[row + 1] - offsets[row]).to_pylist()
            if entry.key in mine:  # the attribute may have been removed since
                places.append(int(offsets[row]) + mine.index(entry.key))
                added.append((row, entry))
        more = pa.array([_to_entry(entry) for _row, entry in added], ENTRY_TYPE)
        # An inserted entry comes before the one at its place; a stable sort keeps their order.
        order = np.argsort(
            np.concatenate([2 * np.arange(len(keys)) + 1, 2 * np.array(places, np.int64)]), kind="stable"
        )
        counts = np.bincount([row for row, _entry in added], minlength=len(lists)) if added else np.zeros(len(lists))
        moved = (offsets + np.concatenate(([0], np.cumsum(counts)))).astype(np.int32)
        values = pa.concat_arrays([lists.values.cast(ENTRY_TYPE), more]).take(pa.array(order))
        return pa.ListArray.from_arrays(pa.array(moved), values)


def _append(types: pa.MapArray, found: list[tuple[int, str, str]]) -> pa.MapArray:
    """Return maps with further entries at their ends, given as row, key and item in the order of rows."""
    offsets = types.offsets.to_numpy()
    rows = np.array([row for row, _key, _item in found])
    order = np.argsort(np.concatenate([2 * np.arange(len(types.keys)) + 1, 2 * offsets[rows + 1]]), kind="stable")
    keys = pa.concat_arrays([types.keys, pa.array([key for _row, key, _item in found], pa.string())])
    items = pa.concat_arrays([types.items, pa.array([item for _row, _key, item in found], pa.string())])
    moved = offsets + np.concatenate(([0], np.cumsum(np.bincount(rows, minlength=len(types)))))
    chosen = pa.array(order)
    return pa.MapArray.from_arrays(pa.array(moved.astype(np.int32)), keys.take(chosen), items.take(chosen))


def _parse_earlier(text: str) -> Iterator[KeyValue]:
    yield from KeyValueList.FromString(base64.b64decode(text.removeprefix(EARLIER))).values


def _to_key_value(entry: dict[str, Any]) -> KeyValue:
    """Convert an entry with its nested values in bytes; raises `UnreadableValue` if those can't be read."""
    fields = {name: each for name, each in (entry["value"] or {}).items() if each is not None}
    if "array_value" in fields:
        render_array(fields["array_value"])
        fields["array_value"] = ArrayValue.FromString(fields["array_value"])
    if "kvlist_value" in fields:
        render_map(fields["kvlist_value"])
        fields["kvlist_value"] = KeyValueList.FromString(fields["kvlist_value"])
    return KeyValue(key=entry["key"], value=None if entry["value"] is None else AnyValue(**fields))


def _to_entry(entry: KeyValue) -> dict[str, Any]:
    kind = entry.value.WhichOneof("value")
    if kind is None:
        return {"key": entry.key, "value": {} if entry.HasField("value") else None}
    value = getattr(entry.value, kind)
    is_nested = kind in {"array_value", "kvlist_value"}
    return {"key": entry.key, "value": {kind: value.SerializeToString(deterministic=True) if is_nested else value}}
