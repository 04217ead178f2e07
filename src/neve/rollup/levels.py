"""Rows of a level as items of the next one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc

from neve.rollup.columns import floats, known, lists, numbered, one, whole
from neve.rollup.explicit import Explicit
from neve.rollup.exponential import UNSET, Exponential
from neve.rollup.identity import Identity
from neve.rollup.items import Items
from neve.rollup.registers import Registers

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa

    from neve.rollup.definition import Definition

    Ints = npt.NDArray[np.int64]


def items_of_rows(table: pa.Table, definition: Definition, micros: int) -> tuple[Items, Identity]:
    """An item for each row."""
    identity = Identity.of(table, definition)
    count = whole(table, "count")
    return Items(
        row=np.arange(table.num_rows),
        name=identity.names,
        window=whole(table, "timestamp") // micros * micros,
        points=whole(table, "points"),
        count=count,
        total=floats(table, "sum"),
        least=floats(table, "min"),
        most=floats(table, "max"),
        first=floats(table, "first"),
        last=floats(table, "last"),
        first_time=whole(table, "first_time_unix_nano"),
        last_time=whole(table, "last_time_unix_nano"),
        increase=floats(table, "increase"),
        exponential=_exponential(table),
        explicit=_explicit(table),
        registers=Registers(*_entries(one(table, "series_registers"))),
    ), identity


def _exponential(table: pa.Table) -> Exponential:
    sides = [_entries(one(table, name)) for name in ("positive", "negative")]
    owner, index, count = (np.concatenate(parts) for parts in zip(*sides, strict=True))
    return Exponential(
        whole(table, "scale", UNSET),
        whole(table, "zero_count"),
        np.nan_to_num(floats(table, "zero_threshold")),
        owner,
        np.repeat([False, True], [len(side[0]) for side in sides]),
        index,
        count,
    )


def _explicit(table: pa.Table) -> Explicit:
    lengths, bounds = lists(one(table, "explicit_bounds"))
    counted, counts = lists(one(table, "bucket_counts"))
    has = known(table, "bucket_counts")
    owner, position = numbered(counted)
    begins = np.cumsum(lengths) - lengths
    end = np.full(len(owner), np.inf)
    inner = np.flatnonzero(has[owner] & (position < lengths[owner]))
    end[inner] = bounds[(begins[owner] + position)[inner]]
    return Explicit(table.num_rows, owner, end, counts.astype(np.int64))


def _entries(column: pa.MapArray) -> tuple[Ints, Ints, Ints]:
    """A column of maps from numbers to numbers, flat: whose, key, value."""
    offsets = np.asarray(column.offsets).astype(np.int64)
    lengths = np.where(np.asarray(pc.is_valid(column)), np.diff(offsets), 0)
    owner, position = numbered(lengths)
    at = offsets[:-1][owner] + position
    return owner, np.asarray(column.keys).astype(np.int64)[at], np.asarray(column.items).astype(np.int64)[at]
