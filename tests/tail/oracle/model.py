"""The collector's decisions on traces whose spans arrive one by one, as a loop. It is compared with the recording.

It knows the policies of `order.yaml`, and counts every span that arrives.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.tail.oracle.values import MILLISECOND

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Verdict = tuple[str, str | None]


@dataclass(frozen=True)
class Times:
    """Start and end of a span."""

    start: int
    end: int


def decide(body: dict[str, Any], messages: Iterable[bytes]) -> dict[str, Verdict]:
    """Return the decision about each trace by its id in hex, and the policy that made it."""
    traces: dict[str, list[Times]] = {}
    for message in messages:
        for group in ExportTraceServiceRequest.FromString(message).resource_spans:
            for scope in group.scope_spans:
                for span in scope.spans:
                    times = Times(span.start_time_unix_nano, span.end_time_unix_nano)
                    traces.setdefault(span.trace_id.hex(), []).append(times)
    return {trace_id: _decide_trace(body["policies"], spans) for trace_id, spans in traces.items()}


def _decide_trace(policies: Sequence[dict[str, Any]], spans: Sequence[Times]) -> Verdict:
    for policy in sorted(policies, key=lambda one: one["type"] != "drop"):
        if _is_met(policy, spans):
            return "dropped" if policy["type"] == "drop" else "sampled", policy["name"]
    return "not_sampled", None


def _is_met(policy: dict[str, Any], spans: Sequence[Times]) -> bool:
    kind, settings = policy["type"], policy.get(policy["type"], {})
    match kind:
        case "always_sample":
            return True
        case "latency":
            return _is_within(settings["threshold_ms"], settings["upper_threshold_ms"], spans)
        case "span_count":
            return bool(settings["min_spans"] <= len(spans) <= (settings.get("max_spans") or len(spans)))
        case "not":
            return not _is_met(settings["not_sub_policy"], spans)
        case "and" | "drop":
            return all(_is_met(one, spans) for one in settings[f"{kind}_sub_policy"])
    raise ValueError(kind)


def _is_within(threshold_ms: int, upper_ms: int, spans: Sequence[Times]) -> bool:
    """Return whether the duration was within the bounds after some span."""
    first, last = spans[0].start, 0
    for span in spans:
        first, last = min(first, span.start), max(last, span.end)
        if threshold_ms < (last - first) // MILLISECOND <= upper_ms:
            return True
    return False
