"""Exemplars of series: sampled observations with the trace that they belong to."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from neve.lexical.literals import format_float
from neve.promql.labels import Labels, make_labels, set_label

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["MARGIN_MS", "PARTS", "Exemplar", "read_exemplars"]

MARGIN_MS = 300_000  # a point carries the exemplars of the time before it
MAX_CHARS = 128  # of all labels, beyond which Prometheus leaves out the attributes
_NANOS = 1_000_000
# The end of the names of series that have exemplars, by type of metric.
PARTS = {"gauge": "", "sum": "", "histogram": "_bucket", "exponential_histogram": ""}


@dataclass(frozen=True, slots=True, order=True)
class Exemplar:
    """One exemplar: its time in milliseconds, value and labels."""

    time_ms: int
    value: float
    labels: Labels


def read_exemplars(row: Mapping[str, Any], labels: Labels) -> Iterator[tuple[Labels, Exemplar]]:
    """Yield the exemplars of a point, each with its series: of a histogram, the lowest bucket with its value."""
    bounds = row["explicit_bounds"] or []
    for one in row["exemplars"] or ():
        value = one["value"]
        if value is None:
            continue
        series = labels
        if row["metric_type"] == "histogram":
            place = bisect_left(bounds, value)
            series = set_label(labels, "le", format_float(bounds[place]) if place < len(bounds) else "+Inf")
        time_ms = (one["time_unix_nano"] or row["time_unix_nano"]) // _NANOS
        yield series, Exemplar(time_ms, value, _make_labels(one))


def _make_labels(one: Mapping[str, Any]) -> Labels:
    ids = {name: one[name].hex() for name in ("trace_id", "span_id") if one[name]}
    attributes = {key: value for key, value in (one["attributes"] or ()) if value is not None}
    chars = sum(len(key) + len(value) for pairs in (ids, attributes) for key, value in pairs.items())
    return make_labels(ids | attributes if chars <= MAX_CHARS else ids)
