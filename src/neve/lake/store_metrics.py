"""What a process asks of storage, for Prometheus, and what the requests cost at the least."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.registry import REGISTRY, Collector

from neve.lake.store_calls import BUCKETS, CALLS, Operation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client.metrics_core import Metric
    from prometheus_client.registry import CollectorRegistry

    from neve.lake.prices import PricesConfig
    from neve.lake.store_calls import Kind, StoreCalls, Tally

LABELS = ("operation", "scheme")
LOCAL = "file"
EDGES = (*(str(edge) for edge in BUCKETS), "+Inf")


class StoreCollector(Collector):
    """Tells what was counted whenever somebody asks."""

    def __init__(self, prices: PricesConfig, calls: StoreCalls = CALLS) -> None:
        self._prices = prices
        self._calls = calls

    def collect(self) -> Iterator[Metric]:
        """Calls, failures, bytes, seconds and dollars."""
        calls = CounterMetricFamily("neve_store_calls", "calls of storage; a file that is opened is one", labels=LABELS)
        failures = CounterMetricFamily("neve_store_failures", "calls of storage that failed", labels=LABELS)
        sizes = CounterMetricFamily(
            "neve_store_bytes", "bytes of files that were written, and of those that were opened", labels=LABELS
        )
        seconds = HistogramMetricFamily("neve_store_seconds", "for a call, in get until it is open", labels=LABELS)
        dollars = CounterMetricFamily(
            "neve_store_dollars", "what the calls cost by the configured prices, at the least", labels=LABELS
        )
        for kind, tally in sorted(self._calls.seen().items()):
            calls.add_metric(kind, tally.calls)
            failures.add_metric(kind, tally.failures)
            sizes.add_metric(kind, tally.bytes)
            seconds.add_metric(kind, list(zip(EDGES, accumulate(tally.by_bucket), strict=True)), tally.seconds)
            dollars.add_metric(kind, dollars_of(kind, tally, self._prices))
        yield from (calls, failures, sizes, seconds, dollars)


def dollars_of(kind: Kind, tally: Tally, prices: PricesConfig) -> float:
    """What calls cost: nothing on a disk, and nothing for a removal.

    >>> from neve.lake.prices import PricesConfig
    >>> from neve.lake.store_calls import Tally
    >>> dollars_of((Operation.PUT, "s3"), Tally(calls=2000), PricesConfig())
    0.01
    >>> dollars_of((Operation.PUT, "file"), Tally(calls=2000), PricesConfig())
    0.0
    """
    operation, scheme = kind
    if scheme == LOCAL or operation is Operation.DELETE:
        return 0.0
    per_1000 = {Operation.PUT: prices.put_per_1000, Operation.LIST: prices.list_per_1000}
    return tally.calls / 1000 * per_1000.get(operation, prices.get_per_1000)


def watch_store(prices: PricesConfig, registry: CollectorRegistry = REGISTRY) -> None:
    """Show the metrics of storage in a process; once in its life."""
    registry.register(StoreCollector(prices))
