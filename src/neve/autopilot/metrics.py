"""Prometheus metrics of the autopilot, computed from the history.

A nightly run lasts minutes, so counters that start at zero in each run would be useless. The metric names are those
of the dashboards.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from neve.autopilot.attempt import Stage
from neve.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client.metrics_core import Metric

    from neve.autopilot.attempt import Attempt
    from neve.autopilot.history import History


@dataclass(frozen=True)
class Totals:
    """Totals of the history."""

    recommendations: int
    executed: int
    scan_reduction_pct: float | None  # None until something is measured
    canary_failures: int


def compute_totals(history: History) -> Totals:
    """Count all attempts of the history."""
    attempts = history.attempts()
    delivered = [one.delivered_pct for one in history.outcomes()]
    return Totals(
        len(attempts),
        sum(any(step.stage is Stage.MERGED for step in one.steps) for one in attempts),
        fmean(delivered) if delivered else None,
        sum(map(_has_failed_canary, attempts)),
    )


class HistoryCollector(Collector):
    """Collector that reads the history at each scrape."""

    def __init__(self, history: History) -> None:
        self._history = history

    def collect(self) -> Iterator[Metric]:
        """Yield the four metrics of the service."""
        found = compute_totals(self._history)
        yield CounterMetricFamily("autopilot_recommendations", "attempted recommendations", found.recommendations)
        yield GaugeMetricFamily("autopilot_optimizations_executed", "merged layouts", found.executed)
        reduction = GaugeMetricFamily(
            "autopilot_scan_reduction_pct", "mean reduction of scanned bytes after merges, in percent"
        )
        if found.scan_reduction_pct is not None:
            reduction.add_metric([], found.scan_reduction_pct)
        yield reduction
        yield GaugeMetricFamily("autopilot_canary_failures", "attempts with a failed canary", found.canary_failures)


@contextmanager
def serve_metrics(history: History, address: str, port: int) -> Iterator[int]:
    """Serve Prometheus metrics while the context is open, and yield the port."""
    registry = CollectorRegistry()
    registry.register(HistoryCollector(history))
    try:
        server, thread = start_http_server(port, addr=address, registry=registry)
    except OSError as error:
        raise ConfigError(
            f"can't serve metrics on {address}:{port}: {error.strerror}",
            hint="set autopilot.metrics_port to another port, or to 0 for none",
        ) from error
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _has_failed_canary(attempt: Attempt) -> bool:
    """Return whether a canary was the last step before an attempt was rolled back."""
    stages = [step.stage for step in attempt.steps]
    return any(pair == (Stage.CANARY, Stage.ROLLED_BACK) for pair in pairwise(stages))
