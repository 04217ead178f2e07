"""Running sums of counts by minute, as series of counters and histograms.

A series has a sample at each end of a minute with counts and a few after it, so that rates and increases are those of
the counts. Its level means nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import numpy as np

from neve.lexical.literals import format_float
from neve.promql.labels import Labels, make_labels, match_sets, set_label
from neve.promql.language.syntax import METRIC_NAME
from neve.promql.storage.points import Column

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from datetime import datetime

    import pyarrow as pa

    from neve.lexical.matchers import Matcher

    ReadRows = Callable[[str, Sequence[Any]], pa.Table]
    TimeWindow = tuple[datetime | None, datetime | None]

__all__ = ["HIGHEST", "LOWEST", "MINUTE_MS", "CountedTable"]

MINUTE_MS = 60_000
IDLE_MINUTES = 5  # without counts, for which a series goes on: the lookback of instant queries
LOWEST, HIGHEST = -10, 6  # exponents of bounds of buckets: powers of two of a second, from about 1 ms to 64 s


@dataclass(frozen=True, slots=True)
class CountedTable:
    """Statements that count the rows of a table by minute, under the names of counters and histograms.

    `labels` lists the label sets, `newest` is the last minute. `sums` has the column of each counter, of the statement
    that `write_sums` writes. `buckets` has the statement of each name of a histogram. `is_named` is whether a query
    means these names, and not only all metrics.
    """

    labels: str
    newest: str
    sums: Mapping[str, str]
    write_sums: Callable[[Sequence[str]], str]
    buckets: Mapping[str, str]
    is_named: Callable[[Sequence[Matcher]], bool] = lambda _names: True

    @staticmethod
    def widen(window: TimeWindow) -> TimeWindow:
        """Return the time range of the minutes that the samples of a time range come from."""
        since, until = window
        return (None if since is None else since - timedelta(minutes=IDLE_MINUTES + 2)), until

    def list_labels(
        self, read: ReadRows, names: Sequence[Matcher], labels: Sequence[Matcher], check: Callable[[], None]
    ) -> Iterator[Labels]:
        """Yield the label sets that match."""
        chosen = self._choose(names, check)
        if not chosen:
            return
        rows = read(self.labels, ()).to_pylist()
        found = [
            one for name in chosen for row in rows for one in _spread(name, make_labels({**row, METRIC_NAME: name}))
        ]
        matched = match_sets(found, labels, check)
        yield from (one for one, is_match in zip(found, matched, strict=True) if is_match)

    def read_columns(
        self, read: ReadRows, names: Sequence[Matcher], labels: Sequence[Matcher], check: Callable[[], None]
    ) -> Iterator[Column]:
        """Yield the series that match, with their samples in order of time."""
        chosen = self._choose(names, check)
        newest = read(self.newest, ()).column(0)[0].as_py() if chosen else None
        if newest is None:
            return
        last = int(newest) + MINUTE_MS
        plain = {name: column for name, column in self.sums.items() if name in chosen}
        if plain:
            yield from _read_sums(read(self.write_sums(sorted(set(plain.values()))), ()), plain, labels, last, check)
        wanted: dict[str, list[str]] = {}
        for name in chosen:
            if name in self.buckets:
                wanted.setdefault(self.buckets[name], []).append(name)
        for sql, some in wanted.items():
            yield from _read_buckets(read(sql, ()), some, labels, last, check)

    def _choose(self, names: Sequence[Matcher], check: Callable[[], None]) -> list[str]:
        return _choose_names((*self.sums, *self.buckets), names, check) if self.is_named(names) else []


def _choose_names(known: Sequence[str], names: Sequence[Matcher], check: Callable[[], None]) -> list[str]:
    """Return the names that match."""
    matched = match_sets([((METRIC_NAME, name),) for name in known], names, check)
    return [name for name, is_match in zip(known, matched, strict=True) if is_match]


def _spread(name: str, labels: Labels) -> list[Labels]:
    """Return the series of a name: one for each bound of a histogram."""
    if not name.endswith("_bucket"):
        return [labels]
    return [set_label(labels, "le", one) for one in _list_bounds()]


def _list_bounds() -> list[str]:
    return [*(format_float(2.0**exponent) for exponent in range(LOWEST, HIGHEST + 1)), format_float(math.inf)]


def _match_rows(
    table: pa.Table, names: Sequence[str], matchers: Sequence[Matcher], check: Callable[[], None]
) -> Iterator[tuple[str, Labels, Mapping[str, Any]]]:
    """Yield the names and labels that may match, each with the points of its row. Bounds are not matched yet."""
    early = [one for one in matchers if one.name != "le"]
    names_of_labels = [name for name in table.schema.names if name != "points"]
    rows = [make_labels(row) for row in table.select(names_of_labels).to_pylist()]
    points = table.column("points").combine_chunks()
    low, flat = points.offsets.to_numpy(), points.values
    for index, is_match in enumerate(match_sets(rows, early, check)):
        if is_match:
            check()
            part = flat.slice(low[index], low[index + 1] - low[index])
            values = {one.name: part.field(one.name).to_numpy(zero_copy_only=False) for one in flat.type}
            for name in names:
                yield name, set_label(rows[index], METRIC_NAME, name), values


def _read_sums(
    table: pa.Table, columns: Mapping[str, str], matchers: Sequence[Matcher], last: int, check: Callable[[], None]
) -> Iterator[Column]:
    """Yield counters, each of a column of points. Columns of the table but `points` are labels."""
    if any(one.name == "le" and not one.matches("") for one in matchers):
        return
    for name, labels, values in _match_rows(table, list(columns), matchers, check):
        yield _accumulate(labels, values["minute"], values[columns[name]], last)


def _read_buckets(
    table: pa.Table, names: Sequence[str], matchers: Sequence[Matcher], last: int, check: Callable[[], None]
) -> Iterator[Column]:
    """Yield the buckets or the count of histograms. Points have exponents of bounds and `calls`."""
    for name, labels, values in _match_rows(table, names, matchers, check):
        series = _spread(name, labels)
        bounds = range(LOWEST, HIGHEST + 2) if len(series) > 1 else [HIGHEST + 1]
        matched = match_sets(series, matchers, check)
        for one, bound, is_match in zip(series, bounds, matched, strict=True):
            if is_match:
                is_below = values["exponent"] <= bound
                calls = np.where(is_below, values["calls"], 0.0)
                yield _accumulate(one, values["minute"], calls, last)


def _accumulate(labels: Labels, minutes: Any, deltas: Any, last: int) -> Column:
    """Return the running sum of the calls of minutes, from a level at which no rate is extrapolated to zero."""
    starts, places = np.unique(np.asarray(minutes, np.int64), return_inverse=True)
    growth = np.bincount(places, weights=np.asarray(deltas, np.float64), minlength=len(starts))
    after = np.arange(IDLE_MINUTES + 2, dtype=np.int64) * MINUTE_MS
    times = np.unique((starts[:, None] + after).ravel())
    times = times[times <= last]
    levels = 2 * growth.sum() + np.concatenate(([0.0], np.cumsum(growth)))
    values = levels[np.searchsorted(starts + MINUTE_MS, times, side="right")]
    return Column(labels, times, values, np.zeros(len(times), np.int64))
