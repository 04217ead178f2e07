"""Windows of gauges and counters over long ranges: from rollups where they are current, from points for the rest.

Rows of a rollup are grouped by their attributes. If it lacks an attribute that a series of the metrics has, or has
added up several raw series, the points are read instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from neve.promql.series import Floats, Integers, is_stale
from neve.promql.storage.point_rows import NANOS
from neve.promql.storage.sample_blocks import MAX_BLOCKS, widen
from neve.promql.storage.series_catalog import make_marks

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from neve.promql.labels import Labels
    from neve.promql.series import SeriesSet
    from neve.promql.storage.series_catalog import KeptValues, RunSql
    from neve.promql.storage.series_rows import SeriesRow

__all__ = [
    "LOOKBACK_MS",
    "RolledLevel",
    "RolledRows",
    "RolledSeries",
    "WindowReader",
    "Windowed",
    "has_pauses",
    "join_windows",
    "make_windows",
    "read_windows",
]

LOOKBACK_MS = 300_000  # a sample up to this much older is the one before, as rollups have it by default
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROS = 1000
_CONDITIONS = {
    "gauge": "metric_type = 'gauge'",
    "sum": "metric_type = 'sum' AND is_monotonic",
    "histogram": "metric_type = 'histogram'",
}
NUMBERS = ("total", "least", "most", "first", "count")
_FIELDS = (
    "'at': epoch_us(timestamp), 'count': count, 'points': points, 'first_ns': first_time_unix_nano, "
    "'last_ns': last_time_unix_nano, 'series': series_count, "
)
_VALUES = {
    "gauge": "'total': sum, 'least': min, 'most': max, 'first': first",
    "sum": "'total': increase, 'least': min, 'most': max, 'first': first",
    "histogram": "'bounds': explicit_bounds, 'buckets': bucket_counts",
}
_KEY_BYTES = 2000  # memory of a key
_DAY_MS = 86_400_000
LONG_DAYS = 8  # a range of so many is read in whole days


@dataclass(frozen=True, slots=True)
class RolledLevel:
    """Rollup of a length of windows, and the time ranges in which it is final and up to date, in microseconds.

    `version` is that of the table, if it is known.
    """

    table: str
    seconds: int
    ranges: Sequence[tuple[int, int]]
    version: str = ""

    def find_end(self, start_ms: int) -> int:
        """Return the end of the whole windows that are current from a time on, in milliseconds."""
        start = start_ms * _MICROS
        ends = [end for begin, end in self.ranges if begin <= start < end]
        return max(ends, default=start) // (self.seconds * 1_000_000) * self.seconds * 1000


@dataclass(frozen=True, slots=True)
class RolledSeries:
    """Windows of series, in order of labels and time. A window has the time of its end.

    `total`, `least`, `most` and `first` are those of the values of gauges, or of the growth of counters since the
    sample before each. `first_ms` and `last_ms` are the times of the first and last sample.
    """

    labels: list[Labels]
    bounds: Integers
    ends_ms: Integers
    first_ms: Integers
    last_ms: Integers
    numbers: Mapping[str, Floats]


@dataclass(frozen=True, slots=True)
class Windowed:
    """Windows in any order, with the number of the series of each."""

    owner: Integers
    starts_ms: Integers
    first_ms: Integers
    last_ms: Integers
    numbers: Mapping[str, Floats]


@dataclass(frozen=True, slots=True)
class RolledRows:
    """Rows of a rollup as they are: the key of each series, the number of its key for each row, and its columns."""

    keys: list[tuple[Any, ...]]
    owner: Integers
    starts_us: Integers
    columns: pa.StructArray

    @classmethod
    def of(cls, table: pa.Table) -> RolledRows:
        """Return the rows of a table that has a list of windows for each series."""
        lists = table.column("points").combine_chunks()
        flat, lengths = lists.flatten(), np.diff(lists.offsets.to_numpy())
        keys = [_row_key(row) for row in table.drop_columns(["points"]).to_pylist()]
        owner = np.repeat(np.arange(len(keys), dtype=np.int64), lengths)
        return cls(keys, owner, flat.field("at").to_numpy(zero_copy_only=False), flat)

    def within(self, start_ms: int, until_ms: int) -> RolledRows:
        """Return the rows of a half-open time range, with the keys that occur there."""
        inside = (self.starts_us >= start_ms * _MICROS) & (self.starts_us < until_ms * _MICROS)
        numbers, owner = np.unique(self.owner[inside], return_inverse=True)
        columns = self.columns.filter(pa.array(inside))
        return RolledRows([self.keys[one] for one in numbers.tolist()], owner, self.starts_us[inside], columns)


@dataclass(frozen=True)
class WindowReader:
    """Reader of the windows of some metrics of one type, from a time up to the end of the windows that are current.

    Rows of whole units of time are kept, so that a query whose range has moved by a window finds them in memory.
    """

    run: RunSql
    kind: str
    names: Sequence[str]
    level: RolledLevel
    kept: KeptValues
    reads_ahead: bool = True

    def read(
        self, series: Sequence[SeriesRow], every: Sequence[SeriesRow], start_ms: int, until_ms: int
    ) -> RolledRows | None:
        """Return the rows of some series, given all series of the metrics. Their owners are numbers of the series.

        It is `None` if they could give another result than points: a sample is exactly at the start of a window, which
        is outside of a range that begins there, a value is unknown, or the rollup does not distinguish the series.
        """
        rows = self._load(start_ms, until_ms).within(start_ms, until_ms)
        if not _has_all_labels(rows.keys, every):
            return None
        numbers = {_series_key(one): number for number, one in enumerate(series)}
        owner = np.array([numbers.get(key, -1) for key in rows.keys], np.int64)[rows.owner]
        wanted = owner >= 0
        flat = rows.columns.filter(pa.array(wanted))
        columns = [flat.field(field.name) for field in flat.type]
        first, merged = (flat.field(name).to_numpy(zero_copy_only=False) for name in ("first_ns", "series"))
        starts = rows.starts_us[wanted]
        if any(one.null_count for one in columns) or (first == starts * _MICROS).any() or (merged > 1).any():
            return None
        return RolledRows(rows.keys, owner[wanted], starts, flat)

    def _load(self, start_ms: int, until_ms: int) -> RolledRows:
        """Return kept rows that have the range, or read them and more, for later queries."""
        key = ("rolled", self.kind, tuple(self.names), self.level.table, self.level.version)
        known: list[tuple[int, int]] = self._get(key) or []
        for block in known:
            found: RolledRows | None = (
                self._get((key, block)) if block[0] <= start_ms and until_ms - 1 <= block[1] else None
            )
            if found is not None:
                return found
        block = self._choose_block(start_ms, until_ms)
        fields = _FIELDS + _VALUES[self.kind]
        sql = (
            f"SELECT metric_name, unit, attributes, resource_attrs, list({{{fields}}}) AS points "  # noqa: S608  # parameters
            f"FROM {self.level.table} WHERE {_CONDITIONS[self.kind]} AND metric_name IN ({make_marks(self.names)}) "
            "GROUP BY ALL"
        )
        bounds = (_EPOCH + timedelta(milliseconds=block[0]), _EPOCH + timedelta(milliseconds=block[1] + 1))
        rows = RolledRows.of(self.run(sql, self.names, bounds))
        known[:] = [block, *known][:MAX_BLOCKS]
        self.kept.put(key, known, _KEY_BYTES)
        self.kept.put((key, block), rows, len(rows.keys) * _KEY_BYTES + rows.columns.nbytes)
        return rows

    def _get(self, key: Hashable) -> Any:
        """Return a kept value. Commits of points do not change rows of this version."""
        found = self.kept.get(key)
        older = self.kept.get_older(key) if found is None and self.level.version else None
        return found if older is None else older[0]

    def _choose_block(self, start_ms: int, until_ms: int) -> tuple[int, int]:
        """Return the milliseconds to read, inclusive: whole days of long ranges, up to the last window."""
        if not self.reads_ahead:
            return start_ms, until_ms - 1
        if until_ms - start_ms < LONG_DAYS * _DAY_MS:
            first, last = widen(start_ms, until_ms - 1)
        else:
            first, last = start_ms // _DAY_MS * _DAY_MS, ((until_ms - 1) // _DAY_MS + 1) * _DAY_MS - 1
        return first, min(last, max(until_ms, self.level.find_end(start_ms)) - 1)


def read_windows(rows: RolledRows) -> Windowed | None:
    """Return the windows of gauges or counters, or `None` if some of their points have no value."""
    columns = {field.name: rows.columns.field(field.name) for field in rows.columns.type}
    if (columns["points"].to_numpy() != columns["count"].to_numpy()).any():
        return None
    values = {name: columns[name].cast(pa.float64()).to_numpy() for name in NUMBERS}
    first, last = (columns[name].to_numpy() // NANOS for name in ("first_ns", "last_ns"))
    return Windowed(rows.owner, rows.starts_us // _MICROS, first, last, values)


def _row_key(row: Mapping[str, Any]) -> tuple[Any, ...]:
    maps = (frozenset(map(tuple, row[name] or ())) for name in ("attributes", "resource_attrs"))
    return (row["metric_name"], row["unit"] or "", *maps)


def _series_key(row: SeriesRow) -> tuple[Any, ...]:
    return row.metric.name, row.metric.unit, row.attributes, row.resource


def _has_all_labels(keys: Sequence[tuple[Any, ...]], every: Sequence[SeriesRow]) -> bool:
    """Return whether rows of a rollup have the attributes of all series: none of them was dropped."""
    return set(keys) <= {_series_key(row) for row in every} and all(
        {name for key in keys for name, _ in key[place]}
        >= {name for row in every for name, _ in (row.attributes, row.resource)[place - 2]}
        for place in (2, 3)
    )


def make_windows(
    kind: str, samples: SeriesSet, numbers: Mapping[Labels, int], since_ms: int, window_ms: int
) -> Windowed | None:
    """Return windows of samples from `since_ms` on, as rollups would have them.

    Samples begin before it by the look-back. It is `None` where a rollup would be of no use either.
    """
    floats = samples.without_stale().floats
    if samples.histograms is not None or any(labels not in numbers for labels in samples.labels):
        return None
    owner = np.repeat([numbers[labels] for labels in samples.labels], np.diff(floats.bounds)).astype(np.int64)
    times, values = floats.times, floats.values
    wanted = times >= since_ms
    if (wanted & ((times % window_ms == 0) | ~np.isfinite(values) | is_stale(values))).any():
        return None
    if kind != "gauge":
        same = np.append(False, (np.diff(owner) == 0) & (np.diff(times) <= LOOKBACK_MS))[: len(times)]
        before = np.append(0.0, values[:-1])[: len(times)]
        wanted &= same
        values = np.where(values < before, values, values - before)
    owner, times, values = owner[wanted], times[wanted], values[wanted]
    starts = times // window_ms * window_ms
    if not len(times):
        empty = np.empty(0, np.int64)
        return Windowed(empty, empty, empty, empty, {name: np.empty(0) for name in NUMBERS})
    begins = np.flatnonzero(np.append(True, (np.diff(owner) != 0) | (np.diff(starts) != 0)))
    ends = np.append(begins[1:], len(times))
    found = {
        "total": np.add.reduceat(values, begins),
        "least": np.minimum.reduceat(values, begins),
        "most": np.maximum.reduceat(values, begins),
        "first": values[begins],
        "count": (ends - begins).astype(np.float64),
    }
    return Windowed(owner[begins], starts[begins], times[begins], times[ends - 1], found)


def join_windows(parts: Sequence[Windowed], labels: list[Labels], end_ms: int, window_ms: int) -> RolledSeries:
    """Return the windows that begin before `end_ms`, in order of series and time."""
    owner, starts, first, last = (
        np.concatenate([getattr(one, name) for one in parts]) for name in ("owner", "starts_ms", "first_ms", "last_ms")
    )
    order = np.lexsort((starts, owner))
    order = order[starts[order] < end_ms]
    numbers = {name: np.concatenate([one.numbers[name] for one in parts])[order] for name in parts[0].numbers}
    bounds = np.searchsorted(owner[order], np.arange(len(labels) + 1)).astype(np.int64)
    return RolledSeries(labels, bounds, starts[order] + window_ms, first[order], last[order], numbers)


def has_pauses(series: RolledSeries) -> bool:
    """Return whether a series has no sample for longer than the look-back between two windows."""
    gaps = series.first_ms[1:] - series.last_ms[:-1]
    inside = np.ones(len(gaps), np.bool_)
    ends = series.bounds[1:-1]
    inside[ends[(ends > 0) & (ends <= len(gaps))] - 1] = False
    return bool((inside & (gaps > LOOKBACK_MS)).any())
