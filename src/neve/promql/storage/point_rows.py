"""Points of many series in flat columns, ordered by series and time."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from neve.promql.series import STALE, Samples, SeriesSet

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from neve.promql.labels import Labels
    from neve.promql.series import Integers

__all__ = ["INTEGERS", "NANOS", "NO_VALUE", "PLAIN_COLUMNS", "VALUES", "PointRows", "join_rows", "read_floats"]

INTEGERS = ("time_unix_nano", "start_time_unix_nano", "flags")
PLAIN_COLUMNS = ("time_unix_nano", "flags", "value")  # of samples without start times
NANOS = 1_000_000  # of a millisecond
NO_VALUE = 1  # bit of a point's flags
VALUES = {
    "gauge": ("value",),
    "sum": ("value",),
    "histogram": ("explicit_bounds", "bucket_counts", "count", "sum"),
    "exponential_histogram": ("scale", "count", "sum", "zero_count", "zero_threshold", "positive", "negative"),
    "summary": ("quantile_values", "count", "sum"),
}


@dataclass(frozen=True, slots=True)
class PointRows:
    """Points with the number of the series of each."""

    owner: Integers
    columns: Mapping[str, pa.Array]

    @classmethod
    def of_ids(cls, table: pa.Table, ids: Integers, owners: Integers) -> PointRows:
        """Return the points of the series with these ids, in ascending order, and these numbers."""
        given = _without_nulls(_combine(table.column("series_id")), 0).to_numpy()
        starts = np.flatnonzero(np.diff(given, prepend=given[:1] + 1))  # files are sorted by series
        lengths = np.diff(starts, append=len(given))
        place = np.minimum(np.searchsorted(ids, given[starts]), max(len(ids) - 1, 0))
        is_known = (ids[place] == given[starts]) if len(ids) else np.zeros(len(starts), np.bool_)
        names = [name for name in table.column_names if name != "series_id"]
        owner = np.repeat(owners[place] if len(ids) else place, lengths)
        if is_known.all():
            return cls(owner, {name: _combine(table.column(name)) for name in names})
        mask = np.repeat(is_known, lengths)
        chosen = pa.array(mask)
        return cls(owner[mask], {name: _combine(table.column(name).filter(chosen)) for name in names})

    @classmethod
    def of_lists(cls, points: pa.ListArray, numbers: Sequence[int | None]) -> PointRows:
        """Return the points of lists of structs, for those lists that have a number."""
        flat = points.flatten()
        lengths = np.asarray(pc.fill_null(pc.list_value_length(points), 0)).astype(np.int64)
        known = np.array([number is not None for number in numbers], np.bool_)
        owner = np.repeat(np.array([number or 0 for number in numbers], np.int64), lengths)
        mask = np.repeat(known, lengths)
        columns = {field.name: flat.field(field.name) for field in flat.type}
        if mask.all():
            return cls(owner, columns)
        chosen = pa.array(mask)
        return cls(owner[mask], {name: column.filter(chosen) for name, column in columns.items()})

    def split(self, count: int) -> Iterator[dict[str, Any]]:
        """Yield the columns of each series, in order of time.

        Numbers are arrays, where null is 0, or masked among values. Other columns are Python objects.
        """
        order = _find_order(self.owner, self.columns["time_unix_nano"].to_numpy())
        owner, columns = self.owner, dict(self.columns)
        if order is not None:
            owner, places = owner[order], pa.array(order)
            columns = {name: column.take(places) for name, column in columns.items()}
        whole = {name: _to_numbers(name, column) for name, column in columns.items()}
        bounds = np.searchsorted(owner, np.arange(count + 1)).tolist()
        for low, high in itertools.pairwise(bounds):
            yield {
                name: column[low:high] if isinstance(column, np.ndarray) else column.slice(low, high - low).to_pylist()
                for name, column in whole.items()
            }


def read_floats(rows: PointRows, labels: Sequence[Labels | None], start_ms: int, end_ms: int) -> SeriesSet:
    """Return the series of gauges and cumulative sums, all at once.

    `labels` are those of each number of a series, all different, or `None` for series that are left out. Points without
    a value are stale marks if they say so, else they are left out. Of two samples at one time the later one counts.
    """
    numbers = sorted((one for one, found in enumerate(labels) if found is not None), key=lambda one: labels[one] or ())
    ranks = np.full(len(labels), -1, np.int64)
    ranks[numbers] = np.arange(len(numbers))
    owner = ranks[rows.owner]
    columns = [_without_nulls(rows.columns[name], 0).to_numpy() for name in PLAIN_COLUMNS]
    missing = np.asarray(rows.columns["value"].is_null()) if rows.columns["value"].null_count else None
    order = _find_order(owner, columns[0])
    if order is not None:
        owner, columns = owner[order], [column[order] for column in columns]
        missing = None if missing is None else missing[order]
    times, values = columns[0] // NANOS, columns[2]
    is_stale = (columns[1] & NO_VALUE) != 0
    wanted = (owner >= 0) & (times >= start_ms) & (times <= end_ms)
    if missing is not None:
        wanted &= is_stale | ~missing
    if is_stale.any():
        values = np.where(is_stale, STALE, values)
    if not wanted.all():
        owner, times, values = owner[wanted], times[wanted], values[wanted]
    last = np.append((np.diff(times) != 0) | (np.diff(owner) != 0), True)[: len(times)]
    if not last.all():
        owner, times, values = owner[last], times[last], values[last]
    counts = np.bincount(owner, minlength=len(numbers))
    found = [labels[one] or () for one, count in zip(numbers, counts.tolist(), strict=True) if count]
    bounds = np.concatenate(([0], np.cumsum(counts[counts > 0]))).astype(np.int64)
    return SeriesSet(found, Samples(bounds, times, values))


def join_rows(parts: Sequence[PointRows]) -> PointRows:
    """Return all points together."""
    if len(parts) == 1:
        return parts[0]
    columns = {
        name: pa.concat_arrays([one.columns[name].cast(kind.type) for one in parts])
        for name, kind in parts[0].columns.items()
    }
    return PointRows(np.concatenate([one.owner for one in parts]), columns)


def _find_order(owner: Integers, times: Integers) -> Integers | None:
    """Return the order by series and time, or `None` if the points have it already."""
    if not len(owner):
        return None
    runs = _Runs.of(owner, times)
    if runs.are_in_order():
        return None
    if 4 * len(runs.starts) < len(owner) and (order := runs.find_order()) is not None:
        return order
    least = int(times.min())
    width = int(times.max()) - least + 1
    if width <= (2**63 - 1) // (int(owner.max()) + 1):
        return np.argsort(owner * width + (times - least), kind="stable")  # files have long runs in order
    return np.lexsort((times, owner))


@dataclass(frozen=True, slots=True)
class _Runs:
    """Rows of one series in order of time, one run after the other. A sorted file has one for each series."""

    starts: Integers
    lengths: Integers
    owner: Integers
    first: Integers
    last: Integers

    @classmethod
    def of(cls, owner: Integers, times: Integers) -> _Runs:
        """Return the runs of rows, of which there is one at least."""
        goes_on = (owner[1:] == owner[:-1]) & (times[1:] >= times[:-1])
        starts = np.concatenate(([0], np.flatnonzero(~goes_on) + 1))
        lengths = np.diff(starts, append=len(owner))
        return cls(starts, lengths, owner[starts], times[starts], times[starts + lengths - 1])

    def are_in_order(self) -> bool:
        """Return whether the rows are in order of series and time."""
        return bool((np.diff(self.owner) > 0).all())

    def find_order(self) -> Integers | None:
        """Return the order of the rows, or `None` if runs of a series overlap."""
        order = np.lexsort((self.first, self.owner))
        same = self.owner[order][1:] == self.owner[order][:-1]
        if (same & (self.first[order][1:] <= self.last[order][:-1])).any():
            return None
        lengths = self.lengths[order]
        moved = self.starts[order] - np.concatenate(([0], np.cumsum(lengths)[:-1]))
        found: Integers = np.repeat(moved, lengths) + np.arange(int(lengths.sum()))
        return found


def _without_nulls(values: pa.Array, default: float) -> pa.Array:
    return values.fill_null(default) if values.null_count else values


def _combine(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _to_numbers(name: str, values: pa.Array) -> Any:
    if name in INTEGERS:
        return _without_nulls(values, 0).to_numpy()
    if name != "value":
        return values
    numbers = _without_nulls(values, 0.0).to_numpy()
    mask = np.asarray(values.is_null()) if values.null_count else np.zeros(len(values), np.bool_)
    return np.ma.MaskedArray(numbers, mask)
