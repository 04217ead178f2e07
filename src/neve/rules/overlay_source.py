"""Series of the lake together with samples that are not in it yet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from neve.promql.storage.points import Column, build_set

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from neve.lexical.matchers import Matcher
    from neve.promql.series import SeriesSet, SeriesSource

__all__ = ["OverlaySource"]


@dataclass(frozen=True, slots=True)
class OverlaySource:
    """Series of two sources. Where both have a sample at a time, that of the second counts."""

    base: SeriesSource
    overlay: SeriesSource

    def select(self, matchers: Sequence[Matcher], start_ms: int, end_ms: int) -> SeriesSet:
        """Return the series of both that match."""
        above = self.overlay.select(matchers, start_ms, end_ms)
        below = self.base.select(matchers, start_ms, end_ms)
        return build_set([*_list_columns(below), *_list_columns(above)]) if len(above) else below


def _list_columns(series: SeriesSet) -> Iterator[Column]:
    for samples in (series.floats, series.histograms):
        if samples is None:
            continue
        starts = np.zeros(len(samples), np.int64) if samples.start_times is None else samples.start_times
        for index, labels in enumerate(series.labels):
            part = slice(int(samples.bounds[index]), int(samples.bounds[index + 1]))
            if part.stop > part.start:
                yield Column(labels, samples.times[part], samples.values[part], starts[part])
