"""Series of a replay: samples of the lake that rules of one part of it share, and results of earlier rules.

Both are bounded: a part is short enough for its samples to fit into memory, and results are dropped when no rule can
reach them any more.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from neve.promql.labels import Labels, match_sets
from neve.promql.series import Samples, SeriesSet
from neve.promql.storage.points import Column, build_set

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from neve.lexical.matchers import Matcher
    from neve.promql.series import SeriesSource

__all__ = ["EarlierResults", "RuleResults", "SampleCache"]

CACHE_SAMPLES = 8_000_000  # 200 MB


@dataclass(frozen=True, slots=True)
class _Selection:
    start_ms: int
    end_ms: int
    series: SeriesSet


@dataclass
class SampleCache:
    """Source that reads each selector of a part once. Queries of shorter ranges get a slice."""

    base: SeriesSource
    _known: dict[tuple[Matcher, ...], _Selection] = field(default_factory=dict)

    def select(self, matchers: Sequence[Matcher], start_ms: int, end_ms: int) -> SeriesSet:
        """Return the series that match."""
        key = tuple(matchers)
        known = self._known.get(key)
        if known is None or start_ms < known.start_ms or end_ms > known.end_ms:
            if known is not None:
                start, end = min(start_ms, known.start_ms), max(end_ms, known.end_ms)
            else:
                start, end = start_ms, end_ms
            self._known.pop(key, None)
            known = _Selection(start, end, self.base.select(matchers, start, end))
            self._make_room(known.series.count_samples())
            self._known[key] = known
        if (known.start_ms, known.end_ms) == (start_ms, end_ms):
            return known.series
        return _slice(known.series, start_ms, end_ms)

    def clear(self) -> None:
        """Forget the samples, because the next part has others."""
        self._known.clear()

    def _make_room(self, count: int) -> None:
        held = {key: one.series.count_samples() for key, one in self._known.items()}
        for key, size in held.items():
            if sum(held[one] for one in self._known) + count <= CACHE_SAMPLES:
                return
            if size:
                del self._known[key]


def _slice(series: SeriesSet, start_ms: int, end_ms: int) -> SeriesSet:
    histograms = None if series.histograms is None else _slice_samples(series.histograms, start_ms, end_ms)
    return SeriesSet(series.labels, _slice_samples(series.floats, start_ms, end_ms), histograms)


def _slice_samples(samples: Samples, start_ms: int, end_ms: int) -> Samples:
    return samples.select((samples.times >= start_ms) & (samples.times <= end_ms))


@dataclass
class RuleResults:
    """Samples that a rule recorded, as columns."""

    _columns: dict[Labels, list[Column]] = field(default_factory=dict)

    def add(self, columns: Iterable[Column]) -> None:
        """Add samples that are later than those before."""
        for one in columns:
            self._columns.setdefault(one.labels, []).append(one)

    def select(self, matchers: Sequence[Matcher], start_ms: int, end_ms: int) -> list[Column]:
        """Return the samples that match."""
        names = list(self._columns)
        found = []
        for labels, is_match in zip(names, match_sets(names, matchers), strict=True):
            if is_match:
                found += [_cut(one, start_ms, end_ms) for one in self._columns[labels]]
        return [one for one in found if len(one.times_ms)]

    def drop_before(self, time_ms: int) -> None:
        """Forget samples that no rule reads any more."""
        for labels in list(self._columns):
            kept = [_cut(one, time_ms, None) for one in self._columns[labels] if one.times_ms[-1] >= time_ms]
            if kept:
                self._columns[labels] = kept
            else:
                del self._columns[labels]


def _cut(column: Column, start_ms: int, end_ms: int | None) -> Column:
    first = int(np.searchsorted(column.times_ms, start_ms))
    last = len(column.times_ms) if end_ms is None else int(np.searchsorted(column.times_ms, end_ms, "right"))
    part = slice(first, last)
    return Column(column.labels, column.times_ms[part], column.values[part], column.starts_ms[part])


@dataclass(frozen=True, slots=True)
class EarlierResults:
    """Source of the samples that some rules recorded."""

    results: Sequence[RuleResults]

    def select(self, matchers: Sequence[Matcher], start_ms: int, end_ms: int) -> SeriesSet:
        """Return the series that match."""
        return build_set([one for rule in self.results for one in rule.select(matchers, start_ms, end_ms)])
