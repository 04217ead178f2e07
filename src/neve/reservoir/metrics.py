"""Prometheus metrics of the samplers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import Counter, Histogram

if TYPE_CHECKING:
    from neve.reservoir.results import TableRunResult, WindowResult


WINDOWS = Counter("neve_reservoir_windows", "sampled windows", ["signal"])
RECORDS = Counter("neve_reservoir_records", "records of sampled windows", ["signal"])
KEPT = Counter("neve_reservoir_kept", "kept records", ["signal"])
BYTES = Counter("neve_reservoir_bytes", "bytes of sample files", ["signal"])
AS_ONE = Counter("neve_reservoir_counted_as_one", "records with an invalid weight, which count as 1", ["signal"])
FAILURES = Counter("neve_reservoir_failures", "failed runs", ["signal"])
BUCKETS = (0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1800)
SECONDS = Histogram(
    "neve_reservoir_window_seconds", "seconds to sample a window and write its files", ["signal"], buckets=BUCKETS
)


def count_window(signal: str, result: WindowResult) -> None:
    """Count a sampled window."""
    WINDOWS.labels(signal).inc()
    RECORDS.labels(signal).inc(result.records)
    KEPT.labels(signal).inc(result.kept)
    BYTES.labels(signal).inc(result.bytes)
    AS_ONE.labels(signal).inc(result.counted_as_one)
    SECONDS.labels(signal).observe(result.seconds)


def count_run(result: TableRunResult) -> None:
    """Count a finished run."""
    for counter, number in (
        (WINDOWS, len(result.windows)),
        (RECORDS, result.records),
        (KEPT, result.kept_records),
        (BYTES, result.bytes),
        (AS_ONE, result.counted_as_one),
    ):
        counter.labels(result.source).inc(number)


def count_failure(table: str) -> None:
    """Count a failed run."""
    FAILURES.labels(table).inc()
