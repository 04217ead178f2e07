"""Native histograms with custom buckets from classic ones, as the test corpus of Prometheus loads them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from neve.promql.histograms.native import CUSTOM_SCHEMA, NO_BUCKETS, Histogram, make_buckets
from neve.promql.labels import Labels, get, set_label, without
from neve.promql.language.syntax import METRIC_NAME

if TYPE_CHECKING:
    from neve.promql.series import Sample


def convert_classic(series: list[tuple[Labels, list[Sample]]]) -> list[tuple[Labels, list[Sample]]]:
    """Return native histograms with custom buckets from classic ones."""
    parts: dict[Labels, dict[int, dict[str, dict[float, float]]]] = {}
    for labels, samples in series:
        name = get(labels, METRIC_NAME)
        for suffix in ("_bucket", "_count", "_sum"):
            if name.endswith(suffix):
                base = set_label(without(labels, {"le"}), METRIC_NAME, name.removesuffix(suffix))
                bound = float(get(labels, "le")) if suffix == "_bucket" else 0.0
                for time_ms, value, _ in samples:
                    if not isinstance(value, Histogram) and not math.isnan(bound):
                        moment = parts.setdefault(base, {}).setdefault(time_ms, {})
                        moment.setdefault(suffix, {})[bound] = value
    return [
        (labels, [(time_ms, _convert(found), 0) for time_ms, found in sorted(moments.items())])
        for labels, moments in parts.items()
    ]


def _convert(parts: dict[str, dict[float, float]]) -> Histogram:
    buckets = sorted(parts.get("_bucket", {}).items())
    count = parts.get("_count", {}).get(0.0, buckets[-1][1] if buckets else 0.0)
    bounds = tuple(bound for bound, _ in buckets if bound != float("inf"))
    counts = [value for bound, value in buckets if bound != float("inf")]
    cumulative = [*counts, count]
    deltas = [now - before for now, before in zip(cumulative, [0.0, *cumulative[:-1]], strict=True)]
    total = parts.get("_sum", {}).get(0.0, 0.0)
    positive = make_buckets(0, deltas).compact() if deltas else NO_BUCKETS
    return Histogram(CUSTOM_SCHEMA, count, total, positive=positive, bounds=bounds)
