"""OTLP metrics of all types that a test sends to Neve and to Prometheus: seeded, with resets, gaps and stale marks."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.metrics.v1 import metrics_pb2 as pb
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from tests.promql.storage.otlp_metrics import CUMULATIVE, DELTA, attributes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

START_MS = 1_759_989_600_000  # 2025-10-09T06:00Z, before the intake of test lakes
GAP_MS = 15_000
COUNT = 121  # half an hour
END_MS = START_MS + (COUNT - 1) * GAP_MS
BOUNDS = [0.05, 0.1, 0.5, 1, 5]
RESOURCES = (
    {
        "service.name": "cart",
        "service.namespace": "shop",
        "service.instance.id": "c1",
        "host.name": "h1",
        "region": "eu",
    },
    {
        "service.name": "cart",
        "service.namespace": "shop",
        "service.instance.id": "c2",
        "host.name": "h2",
        "region": "us",
    },
    {"service.name": "mail", "service.instance.id": "m1", "host.name": "h1", "größe.x": "groß"},
    {"service.name": "bare"},
)
# Never empty: of buckets that are all empty, Prometheus keeps one, which moves a quantile of 0 by 1e-128.
POSITIVE, NEGATIVE = (1, 0, 0, 0, 0, 0, 0, 0), (1, 0, 0)
PATHS = ("/a", "/b", "")


def _nanos(index: int) -> int:
    return (START_MS + index * GAP_MS) * 1_000_000


@dataclass
class Target:
    """One resource and the state of its counters."""

    resource: dict[str, str]
    chance: random.Random
    started: int = 0  # index of the first point since the last reset
    counts: dict[str, float] = field(default_factory=dict)
    observations: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS) + 1))
    sum: float = 0.0
    native: list[int] = field(default_factory=lambda: list(POSITIVE))
    negative: list[int] = field(default_factory=lambda: list(NEGATIVE))
    zeros: int = 0
    native_sum: float = 0.0
    level: float = 100.0

    def metrics(self, index: int) -> list[pb.Metric]:
        """Return the points of one export."""
        chance = self.chance
        if index and chance.random() < 0.03:
            self._reset(index)
        return [
            self._requests(index),
            self._jobs(index),
            self._gauges(index),
            pb.Metric(name="load", unit="1", gauge=pb.Gauge(data_points=[self._number(index, chance.random())])),
            self._queue(index),
            self._latency(index),
            self._sizes(index),
            self._old(index),
        ]

    def _reset(self, index: int) -> None:
        self.started, self.counts, self.sum, self.native_sum, self.zeros = index, {}, 0.0, 0.0, 0
        self.observations = [0] * (len(BOUNDS) + 1)
        self.native, self.negative = list(POSITIVE), list(NEGATIVE)

    def _number(self, index: int, value: float, flags: int = 0, **pairs: str) -> pb.NumberDataPoint:
        return pb.NumberDataPoint(
            attributes=attributes(pairs),
            time_unix_nano=_nanos(index),
            start_time_unix_nano=_nanos(self.started) - 1_000_000_000,
            as_double=value,
            flags=flags,
        )

    def _requests(self, index: int) -> pb.Metric:
        points = []
        for path in PATHS:
            for code in ("200", "500"):
                key = f"{path} {code}"
                self.counts[key] = self.counts.get(key, 0.0) + self.chance.choice((0, 1, 2.5, 10))
                if code == "500" and self.chance.random() < 0.3:
                    continue
                point = self._number(index, self.counts[key], code=code)
                point.attributes.extend(attributes({"http.path": path}))
                if self.chance.random() < 0.2:
                    point.exemplars.append(self._exemplar(index, self.counts[key]))
                points.append(point)
        total = pb.Sum(is_monotonic=True, aggregation_temporality=CUMULATIVE, data_points=points)
        return pb.Metric(name="http.requests", unit="{request}", description="Requests.", sum=total)

    def _jobs(self, index: int) -> pb.Metric:
        point = self._number(index, float(self.chance.randint(0, 5)))
        point.start_time_unix_nano = _nanos(index - 1)
        return pb.Metric(name="jobs", sum=pb.Sum(is_monotonic=True, aggregation_temporality=DELTA, data_points=[point]))

    def _gauges(self, index: int) -> pb.Metric:
        self.level += self.chance.uniform(-5, 5)
        values = {"rss": self.level, "heap": self.level / 2}
        points = [self._number(index, value, kind=kind) for kind, value in values.items() if self.chance.random() < 0.9]
        if index % 40 == 39:
            points = [self._number(index, 0.0, pb.DATA_POINT_FLAGS_NO_RECORDED_VALUE_MASK, kind="rss")]
        elif self.chance.random() < 0.05:
            points.append(self._number(index, self.chance.choice((float("nan"), float("inf"))), kind="odd"))
        return pb.Metric(name="memory", unit="By", gauge=pb.Gauge(data_points=points or [self._number(index, 1.0)]))

    def _queue(self, index: int) -> pb.Metric:
        point = self._number(index, float(self.chance.randint(-3, 9)))
        total = pb.Sum(is_monotonic=False, aggregation_temporality=CUMULATIVE, data_points=[point])
        return pb.Metric(name="queue.length", sum=total)

    def _latency(self, index: int) -> pb.Metric:
        exemplars = []
        for _ in range(self.chance.randint(0, 4)):
            value = self.chance.choice((0.01, 0.07, 0.3, 0.9, 3.0, 20.0))
            self.observations[sum(value > bound for bound in BOUNDS)] += 1
            self.sum += value
            exemplars.append(self._exemplar(index, value))
        point = pb.HistogramDataPoint(
            time_unix_nano=_nanos(index),
            start_time_unix_nano=_nanos(self.started) - 1_000_000_000,
            count=sum(self.observations),
            sum=self.sum,
            bucket_counts=self.observations,
            explicit_bounds=BOUNDS,
            exemplars=sorted(exemplars[:1], key=lambda one: one.as_double),
        )
        histogram = pb.Histogram(aggregation_temporality=CUMULATIVE, data_points=[point])
        return pb.Metric(name="latency", unit="s", histogram=histogram)

    def _sizes(self, index: int) -> pb.Metric:
        for _ in range(self.chance.randint(0, 5)):
            place = self.chance.randrange(8)
            self.native[place] += 1
            self.native_sum += 2.0 ** (place / 2)
        self.negative[self.chance.randrange(3)] += self.chance.randint(0, 1)
        self.zeros += self.chance.randint(0, 1)
        buckets = pb.ExponentialHistogramDataPoint.Buckets
        point = pb.ExponentialHistogramDataPoint(
            time_unix_nano=_nanos(index),
            start_time_unix_nano=_nanos(self.started) - 1_000_000_000,
            count=sum(self.native) + sum(self.negative) + self.zeros,
            sum=self.native_sum,
            scale=1,
            zero_count=self.zeros,
            positive=buckets(offset=-2, bucket_counts=self.native),
            negative=buckets(offset=0, bucket_counts=self.negative),
        )
        histogram = pb.ExponentialHistogram(aggregation_temporality=CUMULATIVE, data_points=[point])
        return pb.Metric(name="size", unit="By", exponential_histogram=histogram)

    def _old(self, index: int) -> pb.Metric:
        quantile = pb.SummaryDataPoint.ValueAtQuantile
        point = pb.SummaryDataPoint(
            time_unix_nano=_nanos(index),
            count=index + 1,
            sum=2.0 * index,
            quantile_values=[quantile(quantile=one, value=one * index) for one in (0.5, 0.99)],
        )
        return pb.Metric(name="old", summary=pb.Summary(data_points=[point]))

    def _exemplar(self, index: int, value: float) -> pb.Exemplar:
        return pb.Exemplar(
            time_unix_nano=_nanos(index) - self.chance.randrange(10) * 1_000_000_000,
            as_double=value,
            trace_id=self.chance.randbytes(16),
            span_id=self.chance.randbytes(8),
            filtered_attributes=attributes({"user.id": f"u{self.chance.randrange(5)}"}),
        )


def requests(seed: int) -> Iterator[ExportMetricsServiceRequest]:
    """Yield one request for each time, in order."""
    targets = [Target(resource, random.Random(f"{seed} {index}")) for index, resource in enumerate(RESOURCES)]
    for index in range(COUNT):
        found: list[pb.ResourceMetrics] = []
        for target in targets:
            metrics = target.metrics(index)
            if target.chance.random() < 0.05:  # an export that was lost, but for the deltas, which a loss would change
                metrics = [one for one in metrics if one.name == "jobs"]
            scope = pb.ScopeMetrics(metrics=metrics)
            found.append(
                pb.ResourceMetrics(resource=Resource(attributes=attributes(target.resource)), scope_metrics=[scope])
            )
        yield ExportMetricsServiceRequest(resource_metrics=found)


def merge(messages: Sequence[ExportMetricsServiceRequest]) -> ExportMetricsServiceRequest:
    """Return all requests in one."""
    whole = ExportMetricsServiceRequest()
    for one in messages:
        whole.resource_metrics.extend(one.resource_metrics)
    return whole
