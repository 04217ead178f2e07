"""Prometheus metrics of queries: admission, limits and the query log."""

from __future__ import annotations

from prometheus_client import Counter, Gauge

from neve.query.limits import QueryMeter

RUNNING = Gauge("neve_query_running", "queries that have a place")
QUEUED = Gauge("neve_query_waiting", "queries that wait for a place")
LIMITED = Counter("neve_query_limited_total", "queries that ran into a limit", ["limit"])
LOG_ENTRIES = Counter("neve_query_log_entries", "entries of the query log, by what became of them", ["outcome"])


class PrometheusMeter(QueryMeter):
    """Meter of a server."""

    def add_running(self, change: int) -> None:
        """Change the number of queries that run."""
        RUNNING.inc(change)

    def add_waiting(self, change: int) -> None:
        """Change the number of queries that wait."""
        QUEUED.inc(change)

    def count_refused(self, limit: str) -> None:
        """Count a query that exceeded a limit."""
        LIMITED.labels(limit).inc()
