"""Change columns of attribute maps, all rows at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    import numpy.typing as npt

    Mask = npt.NDArray[np.bool_]


def set_map_entry(maps: pa.MapArray, key: str, items: pa.StringArray, where: Mask) -> pa.MapArray:
    """Set a key in the maps of the marked rows, as the last entry, and as the only entry of a null map.

    An earlier value under the key is removed. Other rows stay as they are, and so do their null maps.

    >>> maps = pa.array([[("a", "1"), ("k", "0")], None, None], pa.map_(pa.string(), pa.string()))
    >>> set_map_entry(maps, "k", pa.array(["x", "y", "z"]), np.array([True, True, False])).to_pylist()
    [[('a', '1'), ('k', 'x')], [('k', 'y')], None]
    """
    offsets = maps.offsets.to_numpy()
    lengths, start = np.diff(offsets), int(offsets[0])
    width = int(offsets[-1]) - start
    keys, values = maps.keys.slice(start, width), maps.items.slice(start, width)
    row = np.repeat(np.arange(len(maps)), lengths)
    null = maps.is_null().to_numpy(zero_copy_only=False)
    replaced = pc.equal(keys, key).to_numpy(zero_copy_only=False) & where[row]
    kept = np.flatnonzero(~replaced & ~null[row])

    sizes = np.bincount(row[kept], minlength=len(maps)) + where
    ends = np.cumsum(sizes)
    # Each place takes the next retained entry, except the last of a marked row, which takes the new entry.
    source = np.empty(int(ends[-1]) if len(ends) else 0, dtype=np.int64)
    new = np.zeros(len(source), dtype=np.bool_)
    new[ends[where] - 1] = True
    source[~new] = kept
    source[new] = width + np.flatnonzero(where)

    index = pa.array(source)
    added = pa.repeat(pa.scalar(key, keys.type), len(maps))
    begins = pa.array(np.concatenate(([0], ends)).astype(np.int32), mask=np.append(null & ~where, False))
    texts = pa.concat_arrays([values, items.cast(values.type)])
    return pa.MapArray.from_arrays(begins, pa.concat_arrays([keys, added]).take(index), texts.take(index))
