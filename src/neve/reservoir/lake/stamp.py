"""Kept records with what was decided about them: columns of their own, and the attribute that other tools read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from neve.model.columns import STRING_MAP, TIMESTAMP
from neve.reservoir.star.weights import ATTRIBUTE

if TYPE_CHECKING:
    from neve.reservoir.lake.config import LakeSampling


def stamped(rows: pa.Table, decisions: pa.Table, config: LakeSampling) -> pa.Table:
    """Rows with the decisions about them, in the same order."""
    start = decisions.column("sampling_window")
    end = pa.array(np.asarray(start) + config.micros)
    adjusted = decisions.column("adjusted_count").combine_chunks()
    doubles = pa.repeat(pa.scalar("double"), rows.num_rows)
    for name, values in (("attributes", adjusted.cast(pa.string())), ("attribute_types", doubles)):
        place = rows.column_names.index(name)
        rows = rows.set_column(place, name, with_entry(rows.column(name), ATTRIBUTE, values))
    sampler = pa.repeat(pa.scalar(f"{config.name}@{config.policy}"), rows.num_rows)
    return (
        rows.append_column("adjusted_count", adjusted)
        .append_column("sampling_weight", decisions.column("weight"))
        .append_column("sampling_group", decisions.column("sampling_group").cast(pa.string()))
        .append_column("sampling_window", start.cast(TIMESTAMP))
        .append_column("sampling_window_end", end.cast(TIMESTAMP))
        .append_column("sampling_method", pa.repeat(pa.scalar(config.method), rows.num_rows))
        .append_column("sampler", sampler)
    )


def with_entry(maps: pa.ChunkedArray, key: str, values: pa.Array) -> pa.Array:
    """Maps with a value under a key, at their ends; what they had under it is gone. Null ones get it, too.

    >>> maps = pa.chunked_array([pa.array([[("a", "1"), ("k", "0")], None], STRING_MAP)])
    >>> with_entry(maps, "k", pa.array(["x", "y"])).to_pylist()
    [[('a', '1'), ('k', 'x')], [('k', 'y')]]
    """
    plain = maps.cast(STRING_MAP).combine_chunks()
    offsets = np.asarray(plain.offsets)
    owners = np.repeat(np.arange(len(plain)), np.diff(offsets))
    length = int(offsets[-1] - offsets[0])
    keys, items = (side.slice(int(offsets[0]), length) for side in (plain.keys, plain.items))
    stays = np.asarray(plain.is_valid())[owners] & (np.asarray(keys.to_numpy(zero_copy_only=False)) != key)
    mask = pa.array(stays)
    rows = np.concatenate([owners[stays], np.arange(len(plain))])
    order = pa.array(np.argsort(rows, kind="stable"))
    ends = np.cumsum(np.bincount(rows, minlength=len(plain)))
    return pa.MapArray.from_arrays(
        pa.array(np.concatenate([[0], ends]), pa.int32()),
        pa.concat_arrays([keys.filter(mask), pa.repeat(pa.scalar(key), len(plain))]).take(order),
        pa.concat_arrays([items.filter(mask), values]).take(order),
    )
