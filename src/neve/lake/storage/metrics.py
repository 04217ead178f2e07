"""Prometheus metrics of storage calls, and a lower bound of their cost."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.registry import REGISTRY, Collector

from neve.lake.storage.call_counters import BUCKETS, CALLS, Operation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client.metrics_core import Metric
    from prometheus_client.registry import CollectorRegistry

    from neve.lake.config import PricesConfig
    from neve.lake.storage.call_counters import CallCounters, CallCounts, CallKind

LABELS = ("operation", "scheme")
LOCAL_SCHEME = "file"
BUCKET_LABELS = (*(str(edge) for edge in BUCKETS), "+Inf")


class StoreCollector(Collector):
    """Prometheus collector of the storage call counters."""

    def __init__(self, prices: PricesConfig, calls: CallCounters = CALLS) -> None:
        self._prices = prices
        self._calls = calls

    def collect(self) -> Iterator[Metric]:
        """Yield calls, failures, bytes, seconds and dollars."""
        calls = CounterMetricFamily(
            "neve_store_calls", "calls of the storage; opening a file is one call", labels=LABELS
        )
        failures = CounterMetricFamily("neve_store_failures", "failed calls of the storage", labels=LABELS)
        sizes = CounterMetricFamily("neve_store_bytes", "bytes of written and of opened files", labels=LABELS)
        seconds = HistogramMetricFamily(
            "neve_store_seconds", "duration of a call, for get until the file is open", labels=LABELS
        )
        dollars = CounterMetricFamily(
            "neve_store_dollars", "minimum cost of the calls in dollars, by the configured prices", labels=LABELS
        )
        for kind, tally in sorted(self._calls.read().items()):
            calls.add_metric(kind, tally.calls)
            failures.add_metric(kind, tally.failures)
            sizes.add_metric(kind, tally.bytes)
            seconds.add_metric(kind, list(zip(BUCKET_LABELS, accumulate(tally.by_bucket), strict=True)), tally.seconds)
            dollars.add_metric(kind, estimate_dollars(kind, tally, self._prices))
        yield from (calls, failures, sizes, seconds, dollars)


def estimate_dollars(kind: CallKind, tally: CallCounts, prices: PricesConfig) -> float:
    """Return the cost of calls. Local disks and deletions are free.

    >>> from neve.lake.config import PricesConfig
    >>> from neve.lake.storage.call_counters import CallCounts
    >>> estimate_dollars((Operation.PUT, "s3"), CallCounts(calls=2000), PricesConfig())
    0.01
    >>> estimate_dollars((Operation.PUT, "file"), CallCounts(calls=2000), PricesConfig())
    0.0
    """
    operation, scheme = kind
    if scheme == LOCAL_SCHEME or operation is Operation.DELETE:
        return 0.0
    per_1000 = {Operation.PUT: prices.put_per_1000, Operation.LIST: prices.list_per_1000}
    return tally.calls / 1000 * per_1000.get(operation, prices.get_per_1000)


def register_storage_metrics(prices: PricesConfig, registry: CollectorRegistry = REGISTRY) -> None:
    """Register the metrics of storage calls, once per process."""
    registry.register(StoreCollector(prices))
