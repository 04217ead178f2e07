"""Prometheus metrics of compaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import Counter, Gauge, Histogram

if TYPE_CHECKING:
    from neve.compact.journal import Entry
    from neve.compact.plan import Plan
    from neve.compact.result import CompactResult

RUNS = Counter("neve_compact_runs", "finished runs", ["table", "outcome"])
GROUPS = Counter("neve_compact_groups", "groups, by outcome", ["table", "outcome"])
FILES_IN = Counter("neve_compact_files_read", "data files that were replaced", ["table"])
FILES_OUT = Counter("neve_compact_files_written", "data files that were written", ["table"])
BYTES_IN = Counter("neve_compact_read_bytes", "bytes of replaced data files", ["table"])
BYTES_OUT = Counter("neve_compact_written_bytes", "bytes of written data files", ["table"])
API_CALLS = Counter("neve_compact_api_calls", "estimated calls of object storage", ["table"])
DOLLARS = Counter("neve_compact_dollars", "cost in dollars, by the configured prices", ["table"])
DUPLICATES = Counter("neve_compact_duplicates", "removed duplicate records", ["table"])
RATIO = Gauge("neve_compact_ratio", "bytes written over bytes read in the last run", ["table"])
HEALTH = Gauge("neve_compact_health", "health of a table, 0 to 100, at its last check", ["table"])
QUEUE = Gauge("neve_compact_queue_groups", "queued and running groups of the current plan", ["table"])
BUCKETS = (0.1, 0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600)
RUN_SECONDS = Histogram("neve_compact_run_seconds", "duration of a run", ["table"], buckets=BUCKETS)
GROUP_SECONDS = Histogram("neve_compact_group_seconds", "duration of a rewrite", ["table", "executor"], buckets=BUCKETS)


def count_plan(plan: Plan) -> None:
    """Count a plan."""
    HEALTH.labels(plan.table).set(plan.health)
    QUEUE.labels(plan.table).set(len(plan.groups))


def count_group(table: str, entry: Entry) -> None:
    """Count a finished group."""
    GROUPS.labels(table, entry.stage.value).inc()
    QUEUE.labels(table).dec()
    if entry.rewritten is not None:
        GROUP_SECONDS.labels(table, entry.rewritten.executor.value).observe(entry.rewritten.seconds)


def count_run(result: CompactResult) -> None:
    """Count a finished run."""
    table = result.table
    RUNS.labels(table, "whole" if result.is_whole else "failed").inc()
    FILES_IN.labels(table).inc(result.files_in)
    FILES_OUT.labels(table).inc(result.files_out)
    BYTES_IN.labels(table).inc(result.bytes_in)
    BYTES_OUT.labels(table).inc(result.bytes_out)
    API_CALLS.labels(table).inc(result.api_calls)
    DOLLARS.labels(table).inc(result.dollars)
    DUPLICATES.labels(table).inc(result.duplicates)
    RUN_SECONDS.labels(table).observe(result.seconds)
    HEALTH.labels(table).set(result.health_after)
    QUEUE.labels(table).set(0)
    if result.bytes_in:
        RATIO.labels(table).set(result.bytes_out / result.bytes_in)
