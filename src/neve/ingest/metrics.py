"""Prometheus metrics of ingestion."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from prometheus_client import Counter, Gauge, Histogram

from neve.lake.ttl_cache import TtlCache
from neve.logger import get_logger

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql.streaming.query import StreamingQuery

    from neve.ingest.results import BatchResult

BATCHES = Counter("neve_ingest_batches", "committed batches", ["stream"])
MESSAGES = Counter("neve_ingest_messages", "messages read", ["stream"])
RECORDS = Counter("neve_ingest_records", "records written", ["stream", "signal"])
REJECTED = Counter("neve_ingest_rejected", "quarantined records", ["stream", "reason"])
DUPLICATES = Counter("neve_ingest_duplicates", "dropped duplicate records", ["stream", "signal"])
REPLAYED = Counter("neve_ingest_replayed", "redelivered messages that the tables already had", ["stream"])
BYTES_IN = Counter("neve_ingest_read_bytes", "bytes read", ["stream"])
BYTES_OUT = Counter("neve_ingest_written_bytes", "bytes of committed data files", ["stream"])
FILES = Counter("neve_ingest_data_files", "committed data files", ["stream"])
BATCH_SECONDS = Histogram(
    "neve_ingest_batch_seconds",
    "duration of a batch, from reading to its last commit",
    ["stream"],
    buckets=(1, 2, 5, 10, 30, 60, 300),
)
COMMIT_SECONDS = Histogram(
    "neve_ingest_commit_seconds",
    "duration of the commits of a batch",
    ["stream"],
    buckets=(0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
)
LAG_SECONDS = Gauge("neve_ingest_lag_seconds", "age of the newest message of a batch when it was committed", ["stream"])
LAG_OFFSETS = Gauge("neve_ingest_lag_offsets", "messages behind the latest offset", ["stream"])
WAITING_BYTES = Gauge("neve_ingest_waiting_bytes", "sealed bytes of the raw zone that are not ingested", ["stream"])
WAITING_SECONDS = Gauge("neve_ingest_waiting_seconds", "age of the oldest segment that is not ingested", ["stream"])
QUARANTINE_ROWS = Gauge("neve_quarantine_rows", "rows in the table quarantine")
FAILURES = Counter("neve_ingest_failures", "failures of a stream", ["stream"])
BACKLOG_CACHE_SECONDS = 15.0

log = get_logger("neve.ingest")


def count_batch(result: BatchResult) -> None:
    """Count a committed batch."""
    stream = result.stream
    BATCHES.labels(stream).inc()
    MESSAGES.labels(stream).inc(result.messages)
    REPLAYED.labels(stream).inc(result.replayed)
    BYTES_IN.labels(stream).inc(result.bytes_in)
    BYTES_OUT.labels(stream).inc(result.bytes_out)
    FILES.labels(stream).inc(result.data_files)
    BATCH_SECONDS.labels(stream).observe(result.seconds)
    COMMIT_SECONDS.labels(stream).observe(result.commit_seconds)
    for counter, counts in ((RECORDS, result.records), (REJECTED, result.rejected), (DUPLICATES, result.duplicates)):
        for label, count in counts.items():
            counter.labels(stream, label).inc(count)
    if result.lag_seconds is not None:
        LAG_SECONDS.labels(stream).set(result.lag_seconds)


def watch_backlog(stream: str, waiting: Callable[[], tuple[int, float]]) -> None:
    """Export the backlog of the raw zone at each scrape. A growing backlog shows a stream that is stuck.

    Each measurement lists the whole zone. One result is therefore cached for a while, and serves both gauges.
    """

    def measure() -> tuple[float, float]:
        try:
            return waiting()
        except Exception as error:
            # Any fault of the storage or the network: the same scrape collects all other metrics.
            log.warning("reading the backlog of the raw zone failed", stream=stream, error=str(error))
            return math.nan, math.nan

    cache = TtlCache(measure, BACKLOG_CACHE_SECONDS)
    WAITING_BYTES.labels(stream).set_function(lambda: cache.get()[0])
    WAITING_SECONDS.labels(stream).set_function(lambda: cache.get()[1])


def watch_stream(stream: str, query: StreamingQuery) -> None:
    """Export the lag of a query, if its source reports it."""
    progress: Any = query.lastProgress
    for source in (progress or {}).get("sources", []):
        waiting = (source.get("metrics") or {}).get("maxOffsetsBehindLatest")
        if waiting is not None:
            LAG_OFFSETS.labels(stream).set(float(waiting))
