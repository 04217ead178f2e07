"""Metrics say the same as the spans that they are counted from."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    ExponentialHistogramDataPoint,
    HistogramDataPoint,
    NumberDataPoint,
)

from neve.demo.metric_points import CUMULATIVE, DELTA, Point, Stream
from neve.demo.spans import CLIENT, CONSUMER, SECOND, SERVER, Span

if TYPE_CHECKING:
    from neve.demo.simulation import Simulation

DURATIONS = ("http.server.request.duration", "rpc.server.duration", "messaging.process.duration")


def total(stream: Stream) -> float:
    """Return what a stream has counted in the end: the sum of its changes, or its last total."""
    values = [amount(point) for point in stream.points]
    return sum(values) if stream.metric.temporality == DELTA else values[-1]


def amount(point: Point) -> float:
    """Return what a point counts."""
    if isinstance(point, NumberDataPoint):
        return point.as_int if point.WhichOneof("value") == "as_int" else point.as_double
    return point.count


def named(streams: list[Stream], *names: str) -> list[Stream]:
    """Return the streams of some metrics."""
    return [stream for stream in streams if stream.metric.name in names]


def served(simulation: Simulation) -> list[Span]:
    """Return the spans of answered requests and messages."""
    return [span for span in simulation.spans if span.kind in (SERVER, CONSUMER)]


def test_every_type_and_temporality_occurs(streams: list[Stream]) -> None:
    """Gauges, sums, both histograms and summaries; what has a temporality comes in both."""
    seen = {(stream.metric.data, stream.metric.temporality) for stream in streams}
    counted = {(data, how) for data in ("sum", "histogram", "exponential_histogram") for how in (DELTA, CUMULATIVE)}
    assert seen == {("gauge", 0), ("summary", 0), *counted}


def test_sums_and_gauges_are_whole_and_fractional(streams: list[Stream]) -> None:
    """Gauges and monotonic sums come as whole numbers and as fractions, and one sum is not monotonic."""
    seen = {
        (stream.metric.data, stream.metric.monotonic, point.WhichOneof("value"))
        for stream in streams
        for point in stream.points
        if isinstance(point, NumberDataPoint)
    }
    assert seen == {
        ("gauge", False, "as_int"),
        ("gauge", False, "as_double"),
        ("sum", True, "as_int"),
        ("sum", True, "as_double"),
        ("sum", False, "as_int"),
    }


def test_histograms_count_the_spans(simulation: Simulation, streams: list[Stream]) -> None:
    """The latency histograms of each instance have counted exactly its spans, and their sum is the spans' time."""
    counted: Counter[str] = Counter()
    for stream in named(streams, *DURATIONS):
        counted[str(stream.instance.resource["k8s.pod.name"])] += int(total(stream))
    assert counted == Counter(span.instance.resource["k8s.pod.name"] for span in served(simulation))


def test_histogram_sums_are_the_time_spent(simulation: Simulation, streams: list[Stream]) -> None:
    """The histograms of HTTP servers add up to the seconds that their spans took."""
    seconds = 0.0
    for stream in named(streams, "http.server.request.duration"):
        sums = [point.sum for point in stream.points if isinstance(point, HistogramDataPoint)]
        seconds += sum(sums) if stream.metric.temporality == DELTA else sums[-1]
    spans = [span for span in served(simulation) if span.instance.service.protocol == "http"]
    assert seconds == pytest.approx(sum(span.millis for span in spans) / 1000)


def test_calls_count_the_client_spans(simulation: Simulation, streams: list[Stream]) -> None:
    """The exponential histograms have counted every call from one service to another."""
    calls = [span for span in simulation.spans if span.kind == CLIENT and "peer.service" in span.attributes]
    assert sum(total(stream) for stream in named(streams, "rpc.client.duration")) == len(calls)


def test_requests_are_counted_by_outcome(simulation: Simulation, streams: list[Stream]) -> None:
    """The counter of failed requests agrees with the spans that failed."""
    failed = 0.0
    for stream in named(streams, "shop.requests"):
        if stream.points[0].attributes[0].value.string_value == "error":
            failed += total(stream)
    assert failed == sum(span.failure is not None for span in served(simulation))


def test_revenue_is_what_was_ordered(simulation: Simulation, streams: list[Stream]) -> None:
    """Revenue over all currencies adds up to the orders that were placed."""
    placed = [span for span in simulation.spans if span.operation == "PlaceOrder" and span.failure is None]
    amounts = sum(float(str(span.attributes["app.order.amount"])) for span in placed)
    assert sum(total(stream) for stream in named(streams, "shop.revenue")) == pytest.approx(amounts)
    assert sum(total(stream) for stream in named(streams, "shop.orders")) == len(placed)


def test_buckets_add_up(streams: list[Stream]) -> None:
    """In every histogram point the buckets add up to the count, and the extremes enclose the mean."""
    for stream in streams:
        for point in stream.points:
            if isinstance(point, HistogramDataPoint):
                assert len(point.bucket_counts) == len(point.explicit_bounds) + 1
                assert sum(point.bucket_counts) == point.count > 0
                assert point.min <= point.sum / point.count * (1 + 1e-9)
                assert point.sum / point.count <= point.max * (1 + 1e-9)
            elif isinstance(point, ExponentialHistogramDataPoint):
                assert sum(point.positive.bucket_counts) == point.count > 0


def test_exemplars_point_to_spans_of_their_point(simulation: Simulation, streams: list[Stream]) -> None:
    """An exemplar names a span that exists, and its value is that span's duration in the metric's unit."""
    spans = {(span.trace_id, span.span_id): span for span in simulation.spans}
    units = {"s": 1e9, "ms": 1e6}
    seen = 0
    for stream in named(streams, *DURATIONS, "rpc.client.duration"):
        for point in stream.points:
            assert isinstance(point, HistogramDataPoint | ExponentialHistogramDataPoint)
            for exemplar in point.exemplars:
                span = spans[exemplar.trace_id, exemplar.span_id]
                assert span.instance is stream.instance
                assert exemplar.as_double == pytest.approx((span.end - span.start) / units[stream.metric.unit])
                seen += 1
    assert seen > 100


def test_a_restart_resets_the_counters(streams: list[Stream]) -> None:
    """One pod of `ad` is restarted: the same series begins anew, with a later start and a smaller value."""
    mine = [stream for stream in named(streams, "process.cpu.time") if stream.instance.service.name == "ad"]
    restarted = [stream for stream in mine if len(stream.instance.runs) == 2]
    assert len(restarted) == 2
    first, second = restarted
    assert first.instance is second.instance
    assert second.points[0].start_time_unix_nano > first.points[-1].time_unix_nano
    assert amount(second.points[0]) < amount(first.points[-1])


def test_points_come_every_fifteen_seconds(streams: list[Stream]) -> None:
    """A gauge of a process that runs all the time has a point every 15 seconds."""
    for stream in named(streams, "process.memory.usage"):
        if stream.instance.service.name == "catalog":
            times = [point.time_unix_nano for point in stream.points]
            assert {later - earlier for earlier, later in pairwise(times)} == {15 * SECOND}


def test_delta_points_do_not_overlap(streams: list[Stream]) -> None:
    """Delta points of one series cover separate stretches of time, in order."""
    for stream in streams:
        if stream.metric.temporality == DELTA:
            for earlier, later in pairwise(stream.points):
                assert earlier.start_time_unix_nano < earlier.time_unix_nano <= later.start_time_unix_nano


def test_the_pool_is_full_only_in_the_window(simulation: Simulation, streams: list[Stream]) -> None:
    """The gauge of used connections stands at its maximum throughout the window, and nowhere else."""
    incident = simulation.incident
    for stream in named(streams, "db.client.connection.count"):
        for point in stream.points:
            assert isinstance(point, NumberDataPoint)
            if point.attributes[1].value.string_value != "used":
                continue
            pool = stream.instance.service.pool
            assert pool is not None
            caught = incident.is_leaking_release(stream.instance.service.name, stream.instance.version)
            if caught and incident.window.contains(point.time_unix_nano):
                assert point.as_int == pool.size
            elif not caught:
                assert point.as_int <= pool.size // 2
