"""Request metrics: counted from the spans, so that what a dashboard says and what the traces say is the same."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

from neve.demo.histograms import MILLIS_BOUNDS, SECONDS_BOUNDS, explicit_points, exponential_points
from neve.demo.metric import CUMULATIVE, Metric, Point, Stream, int_points, temporality
from neve.demo.span import CLIENT, CONSUMER, SERVER, Span
from neve.demo.tally import Measured, measure, open_at

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from neve.demo.attributes import Attributes
    from neve.demo.fleet import Instance
    from neve.demo.timeline import Exports, Timeline

NANOS = {"s": 1e9, "ms": 1e6}


def request_streams(spans: Iterable[Span], timeline: Timeline) -> Iterator[Stream]:
    """Yield durations, counts and concurrency of all that was served, and durations of all calls."""
    served: dict[tuple[Instance, str, int], list[Span]] = defaultdict(list)
    called: dict[tuple[Instance, str], list[Span]] = defaultdict(list)
    for span in spans:
        if span.kind in (SERVER, CONSUMER):
            served[span.instance, span.operation, span.kind].append(span)
        elif span.kind == CLIENT and "peer.service" in span.attributes:
            called[span.instance, str(span.attributes["peer.service"])].append(span)
    by_instance: dict[Instance, list[Span]] = defaultdict(list)
    for (instance, operation, kind), group in served.items():
        by_instance[instance] += group
        yield from _durations(instance, operation, kind, group, timeline)
    for instance, group in by_instance.items():
        yield from _totals(instance, group, timeline)
    for (instance, peer), group in called.items():
        yield from _calls(instance, peer, group, timeline)


def duration_metric(instance: Instance, kind: int) -> Metric:
    """Return the conventional metric for how long an instance takes: by HTTP, by gRPC, or from a topic."""
    how = temporality(instance.service.language)
    if kind == CONSUMER:
        return Metric("messaging.process.duration", "s", "duration of processing a message", "histogram", how)
    if instance.service.protocol == "http":
        return Metric("http.server.request.duration", "s", "duration of HTTP server requests", "histogram", how)
    return Metric("rpc.server.duration", "ms", "duration of inbound RPC", "histogram", how)


def _durations(
    instance: Instance, operation: str, kind: int, spans: list[Span], timeline: Timeline
) -> Iterator[Stream]:
    """Yield an operation's latency histogram for each process of the instance."""
    metric = duration_metric(instance, kind)
    bounds = SECONDS_BOUNDS if metric.unit == "s" else MILLIS_BOUNDS
    cumulative = metric.temporality == CUMULATIVE
    for exports, mine in _processes(instance, spans, metric.unit, timeline):
        labels = _labels(instance, operation, kind)
        yield Stream(instance, metric, explicit_points(mine, bounds, exports, labels, cumulative=cumulative))


def _labels(instance: Instance, operation: str, kind: int) -> Attributes:
    """Return the attributes of an operation's metrics."""
    if kind == CONSUMER:
        return {"messaging.system": "kafka", "messaging.destination.name": operation.partition(" ")[0]}
    if instance.service.protocol == "http":
        method, _, route = operation.partition(" ")
        return {"http.request.method": method, "http.route": route}
    return {
        "rpc.system": "grpc",
        "rpc.service": f"shop.{instance.service.name.capitalize()}Service",
        "rpc.method": operation,
    }


def _totals(instance: Instance, spans: list[Span], timeline: Timeline) -> Iterator[Stream]:
    """Yield an instance's requests by outcome, and how many are open at each export."""
    how = temporality(instance.service.language)
    requests = Metric("shop.requests", "{request}", "requests answered", "sum", how, monotonic=True)
    active = Metric("shop.active_requests", "{request}", "requests being answered", "sum", CUMULATIVE)
    for outcome, group in _outcomes(spans):
        for exports, mine in _processes(instance, group, "s", timeline):
            yield Stream(instance, requests, _counts(mine, exports, {"outcome": outcome}, how))
    for exports, mine in _processes(instance, spans, "s", timeline):
        open_now = open_at(mine.spans, exports.times)
        yield Stream(instance, active, int_points(exports.starts(cumulative=True), exports.times, open_now, {}))


def _outcomes(spans: list[Span]) -> Iterator[tuple[str, list[Span]]]:
    """Yield the spans that went well and those that failed, each if there are any."""
    for outcome, failed in (("ok", False), ("error", True)):
        if group := [span for span in spans if (span.failure is not None) is failed]:
            yield outcome, group


def _counts(measured: Measured, exports: Exports, labels: Attributes, how: int) -> list[Point]:
    """Return how many were finished: so far in the process, or in each period that saw any."""
    counts = np.bincount(exports.slots(measured.ends), minlength=len(exports.times)).astype(np.int64)
    if how == CUMULATIVE:
        counts = counts.cumsum()
    told = np.flatnonzero(counts)
    starts = exports.starts(cumulative=how == CUMULATIVE)
    return int_points(starts[told], exports.times[told], counts[told], labels)


def _calls(instance: Instance, peer: str, spans: list[Span], timeline: Timeline) -> Iterator[Stream]:
    """Yield the latency of an instance's calls to one peer as an exponential histogram."""
    how = temporality(instance.service.language)
    metric = Metric("rpc.client.duration", "ms", "duration of outbound RPC", "exponential_histogram", how)
    for exports, mine in _processes(instance, spans, metric.unit, timeline):
        points = exponential_points(mine, exports, {"peer.service": peer}, cumulative=how == CUMULATIVE)
        yield Stream(instance, metric, points)


def _processes(
    instance: Instance, spans: list[Span], unit: str, timeline: Timeline
) -> Iterator[tuple[Exports, Measured]]:
    """Yield each process of the instance that has finished any of the spans, with what it finished."""
    measured = measure(spans, NANOS[unit])
    for process in instance.runs:
        exports = timeline.exports(process)
        mine = measured.within(exports)
        if len(mine.ends):
            yield exports, mine
