"""Prometheus metrics of queries over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import Counter, Histogram

if TYPE_CHECKING:
    from neve.api.query.errors import Failure
    from neve.query.execution import RunningQuery

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
QUERIES = Counter(
    "neve_query_queries",
    "Finished queries, by engine and outcome; engine none: it failed before an engine was chosen",
    ["state", "engine", "cache"],
)
SECONDS = Histogram("neve_query_seconds", "Duration of queries", ["engine"], buckets=BUCKETS)
READ = Counter("neve_query_read_bytes", "Bytes of files that queries read", ["engine"])
PRUNED = Counter("neve_query_pruned_bytes", "Bytes of files that queries skipped", ["engine"])
ROWS = Counter("neve_query_rows", "Rows of results", ["engine"])
REFUSED = Counter("neve_query_refused", "Rejected requests, by code and limit", ["code", "limit"])
ABANDONED = Counter("neve_query_abandoned", "Queries whose client disconnected or stopped reading")


def count_ended(running: RunningQuery) -> None:
    """Count the end of a query."""
    statistics = running.statistics
    engine = statistics.engine or "none"
    QUERIES.labels(running.state, engine, statistics.cache or "none").inc()
    SECONDS.labels(engine).observe(statistics.seconds)
    READ.labels(engine).inc(statistics.bytes)
    PRUNED.labels(engine).inc(statistics.pruned_bytes)
    ROWS.labels(engine).inc(statistics.rows)


def count_not_started(failure: Failure) -> None:
    """Count a query that failed before its first row."""
    QUERIES.labels("cancelled" if failure.code == "cancelled" else "failed", "none", "none").inc()


def count_refused(failure: Failure) -> None:
    """Count a request that was rejected, or whose response is incomplete."""
    REFUSED.labels(failure.code, failure.limit or "none").inc()
