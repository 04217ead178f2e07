"""Results as Tempo's JSON, which Grafana reads strictly: only known keys, 64-bit integers as text."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from neve.traceql.language.fields import Static, Type

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from neve.traceql.metrics.intervals import Intervals
    from neve.traceql.metrics.series import Exemplar, Labels, Series
    from neve.traceql.search import FoundSpan, FoundTrace, Spanset

__all__ = ["describe_instant", "describe_series", "describe_trace", "to_any_value"]

VALUE_CHARACTERS = 4096
_KEYWORDS = frozenset({Type.STATUS, Type.KIND, Type.DURATION, Type.NIL})


def to_any_value(value: Static) -> dict[str, Any]:
    """Return a value as OTLP's JSON.

    >>> to_any_value(Static(Type.INT, 5)), to_any_value(Static(Type.STATUS, 2)), to_any_value(Static(Type.BOOL, True))
    ({'intValue': '5'}, {'stringValue': 'error'}, {'boolValue': True})
    """
    match value.type:
        case Type.INT:
            return {"intValue": str(value.value)}
        case Type.FLOAT:
            return {"doubleValue": to_number(value.value)}
        case Type.BOOL:
            return {"boolValue": value.value}
    text = str(value) if value.type in _KEYWORDS else str(value.value)
    return {"stringValue": text[:VALUE_CHARACTERS]}


def to_number(value: float) -> float | str:
    """Return a float as protobuf's JSON."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _list_pairs(pairs: Iterable[tuple[str, Static]]) -> list[dict[str, Any]]:
    return [{"key": name, "value": to_any_value(value)} for name, value in pairs]


def describe_trace(trace: FoundTrace) -> dict[str, Any]:
    """Return a trace of a search."""
    summary = trace.summary
    spansets = [_describe_spanset(one) for one in trace.spansets]
    return {
        "traceID": trace.trace_id.hex().lstrip("0") or "0",
        "rootServiceName": summary.root_service,
        "rootTraceName": summary.root_name,
        "startTimeUnixNano": str(summary.start_ns),
        "durationMs": min(max(summary.end_ns - summary.start_ns, 0) // 1_000_000, 2**32 - 1),
        "spanSet": spansets[0],
        "spanSets": spansets,
        "serviceStats": {
            name: {"spanCount": spans, "errorCount": errors} for name, (spans, errors) in summary.services.items()
        },
    }


def _describe_spanset(spanset: Spanset) -> dict[str, Any]:
    document: dict[str, Any] = {
        "spans": [_describe_span(one) for one in spanset.spans],
        "matched": spanset.matched,
    }
    return document | ({"attributes": _list_pairs(spanset.values)} if spanset.values else {})


def _describe_span(span: FoundSpan) -> dict[str, Any]:
    return {
        "spanID": span.span_id.hex(),
        "name": span.name,
        "startTimeUnixNano": str(span.start_ns),
        "durationNanos": str(span.duration_ns),
        "attributes": _list_pairs(span.values),
    }


def describe_series(series: Series, intervals: Intervals) -> dict[str, Any]:
    """Return a series of a range query. Steps without a value are left out."""
    return {
        "labels": _list_pairs(series.labels),
        "samples": [
            {"timestampMs": str(intervals.stamp_ms(place)), "value": to_number(value)}
            for place, value in enumerate(series.values.tolist())
            if not math.isnan(value)
        ],
        "exemplars": [_describe_exemplar(one) for one in series.exemplars if not math.isnan(one.value)],
    }


def _describe_exemplar(one: Exemplar) -> dict[str, Any]:
    labels: Labels = one.labels
    return {"labels": _list_pairs(labels), "value": to_number(one.value), "timestampMs": str(one.time_ms)}


def describe_instant(series: Sequence[Series]) -> list[dict[str, Any]]:
    """Return the series of an instant query that have a value."""
    return [
        {"labels": _list_pairs(one.labels), "value": to_number(float(one.values[0]))}
        for one in series
        if not math.isnan(one.values[0])
    ]
