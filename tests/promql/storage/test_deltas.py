"""Deltas as counters: the running sum of the points that a query reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pytest

from neve.promql.engine import Engine
from neve.promql.labels import make_labels
from neve.promql.storage.points import Points, build_set, expand

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neve.lexical.matchers import Matcher
    from neve.promql.series import SeriesSet

MINUTE = 60_000
START = 100 * MINUTE
DELTAS = [0.0, 1.0, 9.0, 9.0] * 10


@dataclass(frozen=True)
class DeltaSource:
    """Source of one series with a delta for each minute, of a type."""

    kind: str

    def select(self, _matchers: Sequence[Matcher], start_ms: int, end_ms: int) -> SeriesSet:
        """Return the points in a time range, as the lake does."""
        times = START + np.arange(1, len(DELTAS) + 1, dtype=np.int64) * MINUTE
        chosen = (times >= start_ms) & (times <= end_ms)
        deltas = np.array(DELTAS)[chosen]
        columns = {"value": np.ma.MaskedArray(deltas, np.zeros(len(deltas), np.bool_))}
        if self.kind == "exponential_histogram":
            counts = deltas.astype(int).tolist()
            columns = {name: [None] * len(counts) for name in ("zero_threshold", "zero_count", "negative")} | {
                "count": counts,
                "sum": [float(count) for count in counts],
                "scale": [0] * len(counts),
                "positive": [{"offset": 0, "bucket_counts": [count]} for count in counts],
            }
        flags = np.zeros(len(deltas), np.int64)
        points = Points(times[chosen], times[chosen] - MINUTE, flags, True, columns, start_ms)
        return build_set(list(expand(points, self.kind, "", make_labels({"__name__": "x_total"}))))


@pytest.mark.parametrize("kind", ["sum", "exponential_histogram"])
@pytest.mark.parametrize("text", ["rate(x_total[5m])", "increase(x_total[150s])"])
def test_rate(kind: str, text: str) -> None:
    """A rate does not depend on the time since which points are read: a low level would lower it."""
    text = f"histogram_count({text})" if kind == "exponential_histogram" else text
    engine = Engine(DeltaSource(kind))
    [series] = engine.query_range(text, START + 10 * MINUTE + 30_000, START + 20 * MINUTE + 30_000, MINUTE).series
    assert len(series.floats) == 11
    for at, value in series.floats:
        [(_, alone)] = engine.query(text, at).series[0].floats
        assert alone == pytest.approx(value)


def test_beginning() -> None:
    """A series that begins inside of the range grows from zero, and its first delta counts."""
    source = DeltaSource("sum")
    [(_, value)] = Engine(source).query("increase(x_total[10m])", START + 4 * MINUTE).series[0].floats
    assert value == pytest.approx(sum(DELTAS[:4]))
    assert source.select((), 0, START + 10 * MINUTE).floats.values[0] == 0.0
