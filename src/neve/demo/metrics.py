"""Metrics of the shop: requests, runtime, connection pools and business, every 15 seconds from every instance.

Request and business metrics are counted from the spans, so that metrics and traces agree.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np
from opentelemetry.proto.metrics.v1.metrics_pb2 import SummaryDataPoint

from neve.demo.metric_points import (
    CUMULATIVE,
    DELTA,
    MILLIS_BOUNDS,
    PERIOD,
    SECONDS_BOUNDS,
    Exports,
    Floats,
    Ints,
    Metric,
    Point,
    SpanDurations,
    Stream,
    Timeline,
    count_open,
    explicit_points,
    exponential_points,
    measure,
    number_points,
    plan_timeline,
    sum_by_slot,
    temporality,
)
from neve.demo.otlp_encoding import key_values
from neve.demo.shop import ORDERS
from neve.demo.simulation import Simulation, make_random
from neve.demo.spans import CLIENT, CONSUMER, INTERNAL, PRODUCER, SERVER, Span

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from neve.demo.fleet import Fleet, Instance
    from neve.demo.incident import Incident
    from neve.demo.spans import Attributes
    from neve.demo.topology import Pool, Topic


NANOS = {"s": 1e9, "ms": 1e6}


def request_streams(spans: Iterable[Span], timeline: Timeline) -> Iterator[Stream]:
    """Yield durations, counts and concurrency of served requests, and durations of calls."""
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
    """Return the conventional duration metric of an instance: for HTTP, gRPC or a topic."""
    temporality_code = temporality(instance.service.language)
    if kind == CONSUMER:
        return Metric(
            "messaging.process.duration", "s", "duration of processing a message", "histogram", temporality_code
        )
    if instance.service.protocol == "http":
        return Metric(
            "http.server.request.duration", "s", "duration of HTTP server requests", "histogram", temporality_code
        )
    return Metric("rpc.server.duration", "ms", "duration of inbound RPC", "histogram", temporality_code)


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
    """Yield an instance's requests by outcome, and the open requests at each export."""
    temporality_code = temporality(instance.service.language)
    requests = Metric("shop.requests", "{request}", "requests answered", "sum", temporality_code, monotonic=True)
    active = Metric("shop.active_requests", "{request}", "requests being answered", "sum", CUMULATIVE)
    for outcome, group in _outcomes(spans):
        for exports, mine in _processes(instance, group, "s", timeline):
            yield Stream(instance, requests, _counts(mine, exports, {"outcome": outcome}, temporality_code))
    for exports, mine in _processes(instance, spans, "s", timeline):
        open_now = count_open(mine.spans, exports.times)
        yield Stream(instance, active, number_points(exports.starts(cumulative=True), exports.times, open_now, {}))


def _outcomes(spans: list[Span]) -> Iterator[tuple[str, list[Span]]]:
    """Yield the successful spans and the failed spans, each if there are any."""
    for outcome, failed in (("ok", False), ("error", True)):
        if group := [span for span in spans if (span.failure is not None) is failed]:
            yield outcome, group


def _counts(measured: SpanDurations, exports: Exports, labels: Attributes, temporality_code: int) -> list[Point]:
    """Return the number of finished spans: in total since the process start, or in each interval with any."""
    counts = np.bincount(exports.slots(measured.ends), minlength=len(exports.times)).astype(np.int64)
    if temporality_code == CUMULATIVE:
        counts = counts.cumsum()
    nonzero = np.flatnonzero(counts)
    starts = exports.starts(cumulative=temporality_code == CUMULATIVE)
    return number_points(starts[nonzero], exports.times[nonzero], counts[nonzero], labels)


def _calls(instance: Instance, peer: str, spans: list[Span], timeline: Timeline) -> Iterator[Stream]:
    """Yield the latency of an instance's calls to one peer as an exponential histogram."""
    temporality_code = temporality(instance.service.language)
    metric = Metric("rpc.client.duration", "ms", "duration of outbound RPC", "exponential_histogram", temporality_code)
    for exports, mine in _processes(instance, spans, metric.unit, timeline):
        points = exponential_points(mine, exports, {"peer.service": peer}, cumulative=temporality_code == CUMULATIVE)
        yield Stream(instance, metric, points)


def _processes(
    instance: Instance, spans: list[Span], unit: str, timeline: Timeline
) -> Iterator[tuple[Exports, SpanDurations]]:
    """Yield each process of the instance that finished any of the spans, with its spans."""
    measured = measure(spans, NANOS[unit])
    for process in instance.runs:
        exports = timeline.exports(process)
        mine = measured.within(exports)
        if len(mine.ends):
            yield exports, mine


MEMORY_MIB = {
    "cpp": 24, "dotnet": 180, "go": 64, "java": 420, "nodejs": 210, "python": 260, "ruby": 150, "rust": 18,
}  # fmt: skip
MEMORY_LIMIT_MIB = 1024
GC_LANGUAGES = ("go", "java")  # languages that report the pauses of their garbage collector
QUANTILES = (0.0, 0.5, 0.9, 0.99, 1.0)

CPU = Metric("process.cpu.utilization", "1", "share of one processor in use", "gauge")
CPU_TIME = Metric("process.cpu.time", "s", "processor time used", "sum", CUMULATIVE, monotonic=True)
MEMORY = Metric("process.memory.usage", "By", "resident memory", "gauge")
PAUSES = Metric("process.runtime.gc.pause", "ms", "pauses for garbage collection", "summary")


def runtime_streams(instance: Instance, ends: Ints, timeline: Timeline, rng: np.random.Generator) -> Iterator[Stream]:
    """Yield the runtime metrics of an instance that has finished requests at the given instants."""
    for number, process in enumerate(instance.runs):
        exports = timeline.exports(process)
        dying = number + 1 < len(instance.runs)
        cpu = _cpu(exports, ends, rng)
        times = exports.times
        seconds = np.cumsum(cpu * (times - exports.previous) / 1e9)
        yield Stream(instance, CPU, number_points(None, times, cpu, {"cpu.mode": "user"}))
        yield Stream(instance, CPU_TIME, number_points(exports.starts(cumulative=True), times, seconds, {}))
        yield Stream(instance, MEMORY, number_points(None, times, _memory(instance, exports, rng, dying=dying), {}))
        if instance.service.language in GC_LANGUAGES:
            yield Stream(instance, PAUSES, _pauses(instance, exports, rng))


def _cpu(exports: Exports, ends: Ints, rng: np.random.Generator) -> Floats:
    """Return the CPU utilization at each export: a base, and a part for each request served since the last."""
    mine = ends[(ends > exports.process.start) & (ends <= exports.times[-1])]
    served = np.bincount(exports.slots(mine), minlength=len(exports.times))
    seconds = np.maximum(exports.times - exports.previous, PERIOD / 15) / 1e9
    noise = rng.normal(0.0, 0.012, len(served))
    share: Floats = 0.04 + 0.05 * served / seconds + noise
    return share.clip(0.005, 0.99).round(4)


def _memory(instance: Instance, exports: Exports, rng: np.random.Generator, *, dying: bool) -> Ints:
    """Return resident bytes: a sawtooth at the language's usual size, or a climb to the limit in a dying process."""
    size, base = len(exports.times), float(MEMORY_MIB[instance.service.language])
    saw = 0.12 * ((np.arange(size) * 7 + int(rng.integers(20))) % 20) / 20
    climb = np.linspace(0.0, MEMORY_LIMIT_MIB / base - 1.15, size) if dying else np.zeros(size)
    mib = base * (1.0 + saw + climb + rng.normal(0.0, 0.01, size))
    return (np.minimum(mib, MEMORY_LIMIT_MIB) * 2**20).astype(np.int64)


def _pauses(instance: Instance, exports: Exports, rng: np.random.Generator) -> list[Point]:
    """Return summaries of pauses: totals since the process start, quantiles of the last interval."""
    labels = key_values({"gc.name": "G1 Young Generation" if instance.service.language == "java" else "mark-sweep"})
    scale = 6.0 if instance.service.language == "java" else 0.4
    counts = rng.poisson(3.0, len(exports.times)) + 1
    quantiles = np.sort(rng.lognormal(np.log(scale), 0.5, (len(counts), len(QUANTILES))), axis=1)
    sums = np.cumsum(quantiles.mean(axis=1) * counts)
    rows = zip(
        exports.times.tolist(), counts.cumsum().tolist(), sums.tolist(), quantiles.round(3).tolist(), strict=True
    )
    return [
        SummaryDataPoint(
            start_time_unix_nano=exports.process.start,
            time_unix_nano=time,
            count=count,
            sum=total,
            quantile_values=[
                SummaryDataPoint.ValueAtQuantile(quantile=quantile, value=value)
                for quantile, value in zip(QUANTILES, values, strict=True)
            ],
            attributes=labels,
        )
        for time, count, total, values in rows
    ]


CONNECTIONS = Metric("db.client.connection.count", "{connection}", "connections by state", "gauge")
LIMIT = Metric("db.client.connection.max", "{connection}", "connections allowed", "gauge")
PENDING = Metric("db.client.connection.pending_requests", "{request}", "borrowers that wait", "gauge")


def pool_streams(
    instance: Instance, borrows: Sequence[Span], incident: Incident, timeline: Timeline, rng: np.random.Generator
) -> Iterator[Stream]:
    """Yield the gauges of an instance's pool, if it has one; pending requests are counted from the waiting spans."""
    pool = instance.service.pool
    if pool is None:
        return
    name: Attributes = {"db.client.connection.pool.name": pool.name}
    for process in instance.runs:
        times = timeline.exports(process).times
        used = _count_used(instance, pool, times, incident, rng)
        yield Stream(instance, CONNECTIONS, number_points(None, times, used, {**name, "state": "used"}))
        yield Stream(instance, CONNECTIONS, number_points(None, times, pool.size - used, {**name, "state": "idle"}))
        yield Stream(instance, LIMIT, number_points(None, times, np.full_like(times, pool.size), name))
        yield Stream(instance, PENDING, number_points(None, times, count_open(borrows, times), name))


def _count_used(instance: Instance, pool: Pool, times: Ints, incident: Incident, rng: np.random.Generator) -> Ints:
    """Return the connections in use: a few on a good day, and more and more leaked ones in the bad release."""
    usual = np.minimum(rng.poisson(0.12 * pool.size, len(times)), pool.size // 2)
    if not incident.is_leaking_release(instance.service.name, instance.version):
        return usual.astype(np.int64)
    leaked = np.array([int(incident.leaked_share(at) * pool.size) for at in times.tolist()], dtype=np.int64)
    return np.minimum(usual + leaked, pool.size).astype(np.int64)


REVENUE = Metric("shop.revenue", "{currency}", "value of placed orders", "sum", DELTA, monotonic=True)
ORDERS_PLACED = Metric("shop.orders", "{order}", "placed orders", "sum", DELTA, monotonic=True)
DEPTH = Metric("messaging.queue.depth", "{message}", "messages not yet taken by the group", "gauge")


def find_placed_orders(spans: Sequence[Span]) -> list[Span]:
    """Return the spans that placed an order."""
    return [s for s in spans if s.operation == "PlaceOrder" and s.kind == SERVER and s.failure is None]


def business_streams(spans: Sequence[Span], fleet: Fleet, topic: Topic, timeline: Timeline) -> Iterator[Stream]:
    """Yield orders and revenue by currency of each checkout instance, and the queue depth of the topic."""
    by_currency: dict[tuple[Instance, str], list[Span]] = defaultdict(list)
    for span in find_placed_orders(spans):
        by_currency[span.instance, str(span.attributes["app.currency"])].append(span)
    for (instance, currency), orders in by_currency.items():
        yield from _sales(instance, currency, orders, timeline.exports(instance.runs[0]))
    for group in (topic.each[0], topic.batch[0]):
        reporter = next(i for i in fleet.instances if i.service.name == group)
        times = timeline.exports(reporter.runs[0]).times
        labels = {"messaging.destination.name": topic.name, "messaging.consumer.group.name": group}
        yield Stream(reporter, DEPTH, number_points(None, times, _depth(spans, group, times), labels))


def _sales(instance: Instance, currency: str, orders: list[Span], exports: Exports) -> Iterator[Stream]:
    """Yield the number of orders in each interval with any, and their revenue."""
    slots = exports.slots(np.array([span.end for span in orders], dtype=np.int64))
    amounts = np.array([span.attributes["app.order.amount"] for span in orders], dtype=np.float64)
    counts = np.bincount(slots, minlength=len(exports.times)).astype(np.int64)
    values = sum_by_slot(slots, amounts, len(exports.times))
    nonzero = np.flatnonzero(counts)
    starts, times = exports.previous[nonzero], exports.times[nonzero]
    yield Stream(instance, ORDERS_PLACED, number_points(starts, times, counts[nonzero], {"app.currency": currency}))
    yield Stream(instance, REVENUE, number_points(starts, times, values[nonzero].round(2), {"app.currency": currency}))


def _depth(spans: Sequence[Span], group: str, times: Ints) -> Ints:
    """Return the number of messages that were sent and not yet consumed by a group at each instant."""
    sent = np.sort(np.array([s.end for s in spans if s.kind == PRODUCER], dtype=np.int64))
    taken = [s.start for s in spans if s.kind == CONSUMER and s.service == group for _ in s.links]
    received = np.sort(np.array(taken, dtype=np.int64))
    return (np.searchsorted(sent, times, "right") - np.searchsorted(received, times, "right")).astype(np.int64)


def metric_streams(simulation: Simulation, seed: int) -> list[Stream]:
    """Return all streams of a run: counted from its spans where possible, else derived from the load."""
    spans = simulation.spans
    timeline = plan_timeline(simulation.run, spans[-1].end)
    rng = np.random.default_rng(make_random(seed, "metrics").getrandbits(64))
    served: dict[Instance, list[int]] = defaultdict(list)
    borrows: dict[Instance, list[Span]] = defaultdict(list)
    for span in spans:
        if span.kind in (SERVER, CONSUMER):
            served[span.instance].append(span.end)
        elif span.kind == INTERNAL and span.operation.endswith(".getConnection"):
            borrows[span.instance].append(span)
    streams = list(request_streams(spans, timeline))
    for instance in simulation.fleet.instances:
        ends = np.array(served[instance], dtype=np.int64)
        streams += runtime_streams(instance, ends, timeline, rng)
        streams += pool_streams(instance, borrows[instance], simulation.incident, timeline, rng)
    streams += business_streams(spans, simulation.fleet, ORDERS, timeline)
    return streams
