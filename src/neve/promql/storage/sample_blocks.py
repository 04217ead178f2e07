"""Samples of gauges and cumulative sums in blocks of time, which later queries share.

A block begins and ends at multiples of a unit of time, so that a query whose range has moved by some seconds finds its
samples in memory. It has all series of its metrics, or those of one selector if a narrower statement reads fewer
points. The second selector of the same metrics reads all series, if the samples of the first show that they fit.
After a commit, a block is completed by the points of the files that were added.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np

from neve.promql.labels import Labels, match_sets, set_label
from neve.promql.language.syntax import METRIC_NAME
from neve.promql.series import Samples, SeriesSet
from neve.promql.storage.point_rows import PLAIN_COLUMNS, PointRows, read_floats
from neve.promql.storage.series_catalog import make_marks
from neve.promql.storage.series_rows import MatchedSeries, narrow_points

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    from neve.lexical.matchers import Matcher
    from neve.promql.series import Bools, Integers
    from neve.promql.storage.otel_names import Metric
    from neve.promql.storage.series_catalog import KeptValues, RunAdded, RunSql, SeriesCatalog, TimeWindow
    from neve.promql.storage.series_rows import SeriesRow

__all__ = [
    "AHEAD_SAMPLES",
    "SampleBlocks",
    "Selection",
    "cut",
    "find_first",
    "make_window",
    "measure_set",
    "merge",
    "widen",
]

MINUTE_MS = 60_000
UNITS_MS = tuple(minutes * MINUTE_MS for minutes in (360, 60, 15, 5, 1))
LEAST_UNITS = 8  # of a range: a block is longer by a quarter at most, or by two minutes
AHEAD_SAMPLES = 1_500_000  # of all series, that the second selector may read
MAX_BLOCKS = 8  # of one set of metrics, that are searched for a range
_SAMPLE_BYTES, _SERIES_BYTES = 16, 1000  # memory of series that are kept
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_MS = 253_402_300_799_000  # the end of the year 9999


def make_window(start_ms: int, end_ms: int) -> TimeWindow | None:
    """Return a closed range of milliseconds as a half-open one of datetimes, or `None` if it is empty."""
    first, last = max(start_ms, 0), min(end_ms, _MAX_MS)
    if first > last:
        return None
    return _EPOCH + timedelta(milliseconds=first), _EPOCH + timedelta(milliseconds=last + 1)


def widen(start_ms: int, end_ms: int) -> tuple[int, int]:
    """Return the block of a range of milliseconds, both inclusive.

    >>> widen(61_000, 361_000)
    (60000, 419999)
    """
    unit = next((one for one in UNITS_MS if one * LEAST_UNITS <= end_ms - start_ms), UNITS_MS[-1])
    return start_ms // unit * unit, (end_ms // unit + 1) * unit - 1


@dataclass(frozen=True, slots=True)
class Selection:
    """Metrics of one type, the name of each in the answer, and the matchers of their labels."""

    kind: str
    shown: Mapping[Metric, str]
    matchers: tuple[Matcher, ...]

    @property
    def key(self) -> Hashable:
        """Return what all selectors of these metrics have in common."""
        return "blocks", self.kind, frozenset(self.shown.items())

    @property
    def names(self) -> list[str]:
        """Return the names of the metrics in the table."""
        return sorted({metric.name for metric in self.shown})


@dataclass(frozen=True, slots=True)
class _Block:
    """Series of a block, or `None` if they have points without an id, or the same labels as others."""

    series: SeriesSet | None


@dataclass(frozen=True, slots=True)
class _KnownBlocks:
    """Blocks of some metrics that were read: ranges of those of all series, and estimates of all samples of others."""

    ranges: list[tuple[int, int]]
    estimates: dict[tuple[int, int], float]


@dataclass(frozen=True, slots=True)
class SampleBlocks:
    """Reader of blocks, through a table of series. `check` raises the reason to stop.

    `ahead_samples` are those that a query may read for later ones. 0 is for callers whose bytes are limited: they read
    their own range and series, and nothing else.
    """

    run: RunSql
    catalog: SeriesCatalog
    kept: KeptValues
    check: Callable[[], None]
    ahead_samples: int = AHEAD_SAMPLES
    run_added: RunAdded | None = None

    def read(self, wanted: Selection, start_ms: int, end_ms: int) -> SeriesSet | None:
        """Return the series that match, with their samples in a closed range.

        It is `None` if they have points without an id, or the same labels as others: the caller reads these one by one.
        """
        known = self._know(wanted)
        whole = self._find(wanted, known, start_ms, end_ms)
        if whole is not None and whole.series is not None:
            return self._choose(whole.series, wanted, start_ms, end_ms)
        block = widen(start_ms, end_ms) if self.ahead_samples else (start_ms, end_ms)
        own = self._get(wanted, block, wanted.matchers)
        if own is None:
            own = self._load(wanted, block, known, may_be_whole=whole is None)
        return None if own.series is None else self._choose(own.series, wanted, start_ms, end_ms)

    def _know(self, wanted: Selection) -> _KnownBlocks:
        known: _KnownBlocks | None = self.kept.get(wanted.key)
        if known is None:
            older = self.kept.get_older(wanted.key)
            known = _KnownBlocks([], {}) if older is None else _KnownBlocks([*older[0].ranges], {**older[0].estimates})
            self.kept.put(wanted.key, known, _SERIES_BYTES)
        return known

    def _find(self, wanted: Selection, known: _KnownBlocks, start_ms: int, end_ms: int) -> _Block | None:
        """Return a kept block of all series that has the range."""
        for first, last in known.ranges:
            if first <= start_ms and end_ms <= last:
                found = self._get(wanted, (first, last), ())
                if found is not None:
                    return found
        return None

    def _get(self, wanted: Selection, block: tuple[int, int], matchers: tuple[Matcher, ...]) -> _Block | None:
        """Return a kept block, or one that was kept before a commit, with the points that were added since."""
        key = (wanted.key, block, matchers)
        found: _Block | None = self.kept.get(key)
        older = None if found is not None or self.run_added is None else self.kept.get_older(key)
        if older is None or older[0].series is None:
            return found
        found = self._complete(wanted, block, matchers, *older)
        self._keep(key, found)
        return found

    def _complete(
        self,
        wanted: Selection,
        block: tuple[int, int],
        matchers: tuple[Matcher, ...],
        older: _Block,
        versions: Mapping[str, str],
    ) -> _Block:
        window = make_window(*block)
        run_added = self.run_added
        if not versions or window is None or run_added is None or older.series is None:
            return older
        every = self.catalog.read_series(wanted.kind, wanted.names, window)
        named = self._name(wanted, every, matchers)
        reader = replace(self, run=lambda sql, parameters, times: run_added(sql, parameters, times, versions))
        added = reader._read_block(wanted, window, block, *named, narrow_points(every, named[0]))
        return added if added.series is None else _Block(merge(older.series, added.series))

    def _choose(self, series: SeriesSet, wanted: Selection, start_ms: int, end_ms: int) -> SeriesSet:
        matched = match_sets(series.labels, wanted.matchers, self.check) if wanted.matchers else [True] * len(series)
        return cut(series, np.array(matched, np.bool_), start_ms, end_ms)

    def _load(self, wanted: Selection, block: tuple[int, int], known: _KnownBlocks, *, may_be_whole: bool) -> _Block:
        """Read a block and keep it: that of all series if they fit, or if a narrower statement reads as much."""
        window = make_window(*block)
        if window is None:
            return _Block(None)
        every = self.catalog.read_series(wanted.kind, wanted.names, window)
        series, labels = self._name(wanted, every, wanted.matchers)
        narrow = narrow_points(every, series)
        if may_be_whole and (not narrow[1] or known.estimates.get(block, np.inf) <= self.ahead_samples):
            whole = self._read_block(wanted, window, block, *self._name(wanted, every, ()), ("", []))
            known.ranges[:] = [block, *(one for one in known.ranges if one != block)][:MAX_BLOCKS]
            self._keep((wanted.key, block, ()), whole)
            if whole.series is not None or not wanted.matchers:
                return whole
        own = self._read_block(wanted, window, block, series, labels, narrow)
        self._keep((wanted.key, block, wanted.matchers), own)
        if own.series is not None:
            known.estimates.clear()
            known.estimates[block] = len(own.series.floats) * len(every) / max(len(series.ids), 1)
        return own

    def _name(
        self, wanted: Selection, every: Sequence[SeriesRow], matchers: Sequence[Matcher]
    ) -> tuple[MatchedSeries, list[Labels | None]]:
        """Return the series that match, and the labels of each with its name, `None` for other metrics."""
        self.check()
        series = MatchedSeries()
        matched = match_sets([row.labels for row in every], matchers, self.check)
        for row, is_match in zip(every, matched, strict=True):
            if is_match:
                series.add(row)
        return series, [
            set_label(labels, METRIC_NAME, wanted.shown[metric]) if metric in wanted.shown else None
            for metric, labels in series.owners
        ]

    def _read_block(
        self,
        wanted: Selection,
        window: TimeWindow,
        block: tuple[int, int],
        series: MatchedSeries,
        labels: list[Labels | None],
        narrow: tuple[str, list[Any]],
    ) -> _Block:
        known = [one for one in labels if one is not None]
        if series.has_rows_without_id or len(set(known)) < len(known):
            return _Block(None)
        ids = sorted(series.ids)
        column, values = narrow
        some = f" AND {column} IN ({make_marks(values)})" if values else ""
        sql = (
            f"SELECT series_id, {', '.join(PLAIN_COLUMNS)} FROM metrics "  # noqa: S608  # parameters
            f"WHERE metric_type = ? AND metric_name IN ({make_marks(wanted.names)}) AND series_id IS NOT NULL{some}"
        )
        rows = self.run(sql, [wanted.kind, *wanted.names, *values], window) if ids else None
        if rows is None:
            return _Block(SeriesSet([], Samples(np.zeros(1, np.int64), np.empty(0, np.int64), np.empty(0))))
        owners = np.array([series.ids[one] for one in ids], np.int64)
        return _Block(read_floats(PointRows.of_ids(rows, np.array(ids, np.int64), owners), labels, *block))

    def _keep(self, key: Hashable, block: _Block) -> None:
        self.kept.put(key, block, _SERIES_BYTES if block.series is None else measure_set(block.series))


def measure_set(series: SeriesSet) -> int:
    """Return the memory of series without histograms, about."""
    texts = sum(len(text) for labels in series.labels for pair in labels for text in pair)
    return len(series.floats) * _SAMPLE_BYTES + len(series) * _SERIES_BYTES + texts


def cut(series: SeriesSet, chosen: Bools, start_ms: int, end_ms: int) -> SeriesSet:
    """Return chosen series, with their samples in a closed range. Series without one are left out."""
    times, bounds = series.floats.times, series.floats.bounds
    low = find_first(times, bounds[:-1], bounds[1:], start_ms)
    high = find_first(times, low, bounds[1:], end_ms + 1)
    rows = np.flatnonzero(chosen & (low < high))
    counts = (high - low)[rows]
    if len(rows) == len(series) and int(counts.sum()) == len(times):
        return series
    slices = [slice(*one) for one in zip(low[rows].tolist(), high[rows].tolist(), strict=True)]
    found = (
        np.concatenate([column[one] for one in slices]) if slices else column[:0]
        for column in (times, series.floats.values)
    )
    labels = [series.labels[row] for row in rows.tolist()]
    return SeriesSet(labels, Samples(np.concatenate(([0], np.cumsum(counts))).astype(np.int64), *found))


def merge(older: SeriesSet, added: SeriesSet) -> SeriesSet:
    """Return the samples of both, without histograms. Of two samples at one time the added one counts."""
    if not len(added):
        return older
    labels = sorted({*older.labels, *added.labels})
    places = dict(zip(labels, range(len(labels)), strict=True))
    starts = np.zeros(len(labels) + 1, np.int64)  # of the older samples of each series
    own = [places[one] for one in older.labels]
    starts[np.array(own, np.int64) + 1] = np.diff(older.floats.bounds)
    starts = np.cumsum(starts)
    owner = np.repeat([places[one] for one in added.labels], np.diff(added.floats.bounds)).astype(np.int64)
    times, values = added.floats.times, added.floats.values
    at = _find_each(older.floats.times, starts[owner], starts[owner + 1], times)
    inside = at < starts[owner + 1]
    same = np.zeros(len(times), np.bool_)
    same[inside] = older.floats.times[at[inside]] == times[inside]
    replaced = older.floats.values.copy()
    replaced[at[same]] = values[same]
    new = ~same
    counts = np.diff(starts) + np.bincount(owner[new], minlength=len(labels))
    bounds = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
    return SeriesSet(
        labels,
        Samples(
            bounds,
            np.insert(older.floats.times, at[new], times[new]),
            np.insert(replaced, at[new], values[new]),
        ),
    )


def _find_each(times: Integers, low: Integers, high: Integers, moments: Integers) -> Integers:
    """Return the first place at or after each moment in its part of `times`, or its end, by halving them."""
    low, high = low.copy(), high.copy()
    while len(is_open := np.flatnonzero(low < high)):
        middle = (low[is_open] + high[is_open]) // 2
        is_before = times[middle] < moments[is_open]
        low[is_open[is_before]] = middle[is_before] + 1
        high[is_open[~is_before]] = middle[~is_before]
    return low


def find_first(times: Integers, low: Integers, high: Integers, moment: int) -> Integers:
    """Return the first place at or after a time in each part of `times`, or the end of the part."""
    return _find_each(times, low, high, np.full(len(low), moment, np.int64))
