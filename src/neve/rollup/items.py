"""Items: one for each point, or for each row of the level below, before those of one series and window are merged.

Unknown numbers are NaN. `row` is the source row of an item.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc

from neve.rollup.arrays import array_column, floats, int_column, is_known, number_values, split_lists
from neve.rollup.histograms import UNSET, ExplicitHistograms, ExponentialHistograms
from neve.rollup.series import HyperLogLog
from neve.rollup.series_identity import SeriesIdentity

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa

    from neve.rollup.definition import Definition

    Ints = npt.NDArray[np.int64]
    Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Items:
    """Items of any kind. Those of one rolled series and window become one row."""

    row: Ints
    name: npt.NDArray[np.uint64]
    window: Ints
    points: Ints
    count: Ints
    total: Floats
    least: Floats
    most: Floats
    first: Floats
    last: Floats
    first_time: Ints
    last_time: Ints
    increase: Floats
    exponential: ExponentialHistograms
    explicit: ExplicitHistograms
    registers: HyperLogLog


def items_of_rows(table: pa.Table, definition: Definition, micros: int) -> tuple[Items, SeriesIdentity]:
    """Return an item for each row."""
    identity = SeriesIdentity.of(table, definition)
    count = int_column(table, "count")
    return Items(
        row=np.arange(table.num_rows),
        name=identity.names,
        window=int_column(table, "timestamp") // micros * micros,
        points=int_column(table, "points"),
        count=count,
        total=floats(table, "sum"),
        least=floats(table, "min"),
        most=floats(table, "max"),
        first=floats(table, "first"),
        last=floats(table, "last"),
        first_time=int_column(table, "first_time_unix_nano"),
        last_time=int_column(table, "last_time_unix_nano"),
        increase=floats(table, "increase"),
        exponential=_exponential(table),
        explicit=_explicit(table),
        registers=HyperLogLog(*_entries(array_column(table, "series_registers"))),
    ), identity


def _exponential(table: pa.Table) -> ExponentialHistograms:
    sides = [_entries(array_column(table, name)) for name in ("positive", "negative")]
    owner, index, count = (np.concatenate(parts) for parts in zip(*sides, strict=True))
    return ExponentialHistograms(
        int_column(table, "scale", UNSET),
        int_column(table, "zero_count"),
        np.nan_to_num(floats(table, "zero_threshold")),
        owner,
        np.repeat([False, True], [len(side[0]) for side in sides]),
        index,
        count,
    )


def _explicit(table: pa.Table) -> ExplicitHistograms:
    lengths, bounds = split_lists(array_column(table, "explicit_bounds"))
    counted, counts = split_lists(array_column(table, "bucket_counts"))
    has = is_known(table, "bucket_counts")
    owner, position = number_values(counted)
    begins = np.cumsum(lengths) - lengths
    end = np.full(len(owner), np.inf)
    inner = np.flatnonzero(has[owner] & (position < lengths[owner]))
    end[inner] = bounds[(begins[owner] + position)[inner]]
    return ExplicitHistograms(table.num_rows, owner, end, counts.astype(np.int64))


def _entries(column: pa.MapArray) -> tuple[Ints, Ints, Ints]:
    """Flatten a column of maps from numbers to numbers to owners, keys and values."""
    offsets = np.asarray(column.offsets).astype(np.int64)
    lengths = np.where(np.asarray(pc.is_valid(column)), np.diff(offsets), 0)
    owner, position = number_values(lengths)
    at = offsets[:-1][owner] + position
    return owner, np.asarray(column.keys).astype(np.int64)[at], np.asarray(column.items).astype(np.int64)[at]
