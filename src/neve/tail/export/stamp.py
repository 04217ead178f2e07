"""How many traces a kept one stands for, written onto its spans."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    import numpy.typing as npt

    Mask = npt.NDArray[np.bool_]

ADJUSTED_COUNT = "sampling.adjusted_count"
DOUBLE = "double"


def stamp(
    batch: pa.RecordBatch, adjusted_count: pa.DoubleArray, trace_state: pa.StringArray | None = None
) -> pa.RecordBatch:
    """The same spans with the attribute `sampling.adjusted_count`, and with another trace state where one is given.

    Both arrays have a value for each row. A row whose count is null keeps the attributes that it has.
    """
    text, known = adjusted_count.cast(pa.string()), pc.is_valid(adjusted_count).to_numpy(zero_copy_only=False)
    double = pa.repeat(pa.scalar(DOUBLE), len(text))
    changed = {
        "attributes": with_entry(batch.column("attributes"), ADJUSTED_COUNT, text, known),
        "attribute_types": with_entry(batch.column("attribute_types"), ADJUSTED_COUNT, double, known),
    }
    if trace_state is not None:
        changed["trace_state"] = trace_state
    columns = [changed.get(field.name, batch.column(field.name)).cast(field.type) for field in batch.schema]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def with_entry(maps: pa.MapArray, key: str, items: pa.StringArray, where: Mask) -> pa.MapArray:
    """Maps in which a key has another value, in the marked rows; it stands last, and a null map there holds it alone.

    A null map elsewhere stays null.
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
    # Every place takes the next entry that was kept, but for the last of a marked row, which takes the new one.
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
