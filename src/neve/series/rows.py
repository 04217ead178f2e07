"""Rows of the tables of series: made from rows of metrics or logs, and merged, for whole columns at once.

Both are the same reduction: rows of one organization, day and series become one row, from the earliest time to the
latest. It can be repeated on its own results, in any order, and rows that are read twice change nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from neve.model.series_identity import (
    IDENTITY_COLUMNS,
    LANES,
    STREAM_ATTRIBUTES,
    make_series_ids,
    make_stream_ids,
    mix_bits,
)
from neve.model.series_tables import LOG_STREAMS, METRIC_SERIES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy.typing as npt

    from neve.model.columns import Table

    Integers = npt.NDArray[np.int64]

DAY_MICROS = 86_400_000_000
NANOS = 1000  # of a microsecond
FIRST, LAST, WITHOUT_ID = "first_time_unix_nano", "last_time_unix_nano", "has_rows_without_id"
LISTS = ("explicit_bounds", "quantiles")


@dataclass(frozen=True)
class SeriesKind:
    """A table whose rows belong to series, the table of these series, and the columns that identify them."""

    source: str
    target: Table
    id: str
    columns: tuple[str, ...]
    make_ids: Callable[[Mapping[str, pa.Array]], pa.Int64Array]


METRICS = SeriesKind(
    "metrics",
    METRIC_SERIES,
    "series_id",
    (
        *("organization_id", "timestamp", "series_id", *IDENTITY_COLUMNS, "service_name", "description"),
        *("explicit_bounds", "quantile_values"),
    ),
    make_series_ids,
)
LOGS = SeriesKind(
    "logs",
    LOG_STREAMS,
    "stream_id",
    ("organization_id", "timestamp", "stream_id", "service_name", "resource_attrs"),
    lambda columns: make_stream_ids(columns["resource_attrs"]),
)
KINDS = (METRICS, LOGS)


def make_rows(kind: SeriesKind, batch: pa.RecordBatch) -> pa.Table:
    """Return the series of some rows of the source, one row for each series and day. Rows without an id are hashed."""
    columns = {name: batch.column(name) for name in batch.schema.names}
    is_missing = pc.is_null(columns[kind.id])
    if pc.any(is_missing).as_py():
        columns[kind.id] = pc.coalesce(columns[kind.id], kind.make_ids(columns))
    nanos = pc.multiply(pc.cast(columns["timestamp"], pa.int64()), NANOS)
    columns |= {FIRST: nanos, LAST: nanos, WITHOUT_ID: is_missing}
    if "quantile_values" in columns:
        columns["quantiles"] = _quantiles(columns["quantile_values"])
    schema = kind.target.schema
    given = pa.table({name: columns[name] for name in schema.names})
    rows = merge_rows(kind, given)
    return _keep_labels(rows) if kind is LOGS else rows


def merge_rows(kind: SeriesKind, rows: pa.Table) -> pa.Table:
    """Return one row for each organization, series and day. Other columns are those of the row with the latest time."""
    rows = rows.combine_chunks()
    schema = kind.target.schema
    if not rows.num_rows:
        return schema.empty_table()
    columns = {name: _array(rows, name) for name in rows.schema.names}
    owners = columns["organization_id"].dictionary_encode().indices.to_numpy(zero_copy_only=False)
    ids, first, last = (np.asarray(columns[name]).astype(np.int64) for name in (kind.id, FIRST, LAST))
    days = np.asarray(pc.cast(columns["timestamp"], pa.int64())) // DAY_MICROS
    order = np.lexsort((last, days, ids, owners))
    changes = [np.diff(key[order]) != 0 for key in (owners, ids, days)]
    starts = np.concatenate(([0], np.flatnonzero(np.logical_or.reduce(changes)) + 1))
    latest = pa.array(np.append(starts[1:], len(order)) - 1).cast(pa.int64())
    chosen = pa.array(order).take(latest)
    without = np.asarray(columns[WITHOUT_ID].fill_null(False)).astype(np.bool_)
    found = {name: column.take(chosen) for name, column in columns.items() if name not in LISTS}
    found |= {
        "timestamp": pa.array(days[order][starts] * DAY_MICROS).cast(schema.field("timestamp").type),
        FIRST: pa.array(np.minimum.reduceat(first[order], starts)),
        LAST: pa.array(np.maximum.reduceat(last[order], starts)),
        WITHOUT_ID: pa.array(np.logical_or.reduceat(without[order], starts)),
    }
    group = np.empty(len(order), np.int64)
    group[order] = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(order))))
    found |= {name: join_lists(columns[name], group, len(starts)) for name in LISTS if name in columns}
    return pa.table([found[field.name].cast(field.type) for field in schema], schema=schema)


def join_lists(lists: pa.ListArray, group: Integers, groups: int) -> pa.ListArray:
    """Return the distinct values of all lists of each group, in order; null for a group without values."""
    lengths = np.asarray(pc.fill_null(pc.list_value_length(lists), 0)).astype(np.int64)
    values = np.asarray(lists.flatten()).astype(np.float64)
    ends = np.cumsum(lengths)
    if not len(values):
        return pa.nulls(groups, pa.list_(pa.float64()))
    # Nearly all lists of a group are the same: only one of each is looked at.
    place = (np.arange(len(values)) - np.repeat(ends - lengths, lengths)).astype(np.uint64)
    running = np.concatenate(([np.uint64(0)], np.cumsum(mix_bits(values.view(np.uint64) + place * LANES[0]))))
    words = mix_bits(running[ends] - running[ends - lengths] + group.astype(np.uint64) * LANES[1])
    chosen = np.zeros(len(lengths), np.bool_)
    chosen[np.unique(words, return_index=True)[1]] = True
    is_wanted = np.repeat(chosen, lengths)
    owner, values = np.repeat(group, lengths)[is_wanted], values[is_wanted]
    order = np.lexsort((values, owner))
    owner, values = owner[order], values[order]
    is_new = np.concatenate(([True], (np.diff(owner) != 0) | (np.diff(values) != 0)))
    counts = np.bincount(owner[is_new], minlength=groups)
    offsets = pa.array(np.concatenate(([0], np.cumsum(counts))), mask=np.append(counts == 0, False), type=pa.int32())
    return pa.ListArray.from_arrays(offsets, pa.array(values[is_new]))


def _array(rows: pa.Table, name: str) -> pa.Array:
    column = rows.column(name)
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _quantiles(lists: pa.ListArray) -> pa.ListArray:
    flat = lists.flatten()
    lengths = np.asarray(pc.fill_null(pc.list_value_length(lists), 0)).astype(np.int64)
    return pa.ListArray.from_arrays(pa.array(np.concatenate(([0], np.cumsum(lengths))), pa.int32()), flat.field(0))


def _keep_labels(rows: pa.Table) -> pa.Table:
    place = rows.schema.get_field_index("resource_attrs")
    kept = [
        [(key, value) for key, value in pairs or () if key in STREAM_ATTRIBUTES]
        for pairs in rows.column(place).to_pylist()
    ]
    return rows.set_column(place, rows.schema.field(place), pa.array(kept, rows.schema.field(place).type))
