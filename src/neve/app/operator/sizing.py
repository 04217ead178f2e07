"""Estimate what a load needs: receivers, executors, partitions, requests to object storage, bytes and dollars.

The estimate is arithmetic over measured costs for each record. `SlopesConfig` has the costs, each beside the benchmark
that measures it, and a file can replace them with the numbers of another machine.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import Field

from neve.model.settings import Section
from neve.text import format_bytes, format_count, format_share

if TYPE_CHECKING:
    from collections.abc import Iterator

    from neve.lake.config import PricesConfig

DAY_SECONDS = 86_400
MONTH_HOURS = 730
MONTH_SECONDS = MONTH_HOURS * 3600
RAW_GET_SECONDS = 2  # receivers read the report of the backlog so often, in two requests
GIGABYTE = 1e9


class SlopesConfig(Section):
    """Measured costs, each for one core. `python -m bench NAME` measures them."""

    received_per_cpu_s: float = Field(221_000, gt=0, description="records received with gzip per CPU second (receive)")
    ingested_per_cpu_s: float = Field(57_700, gt=0, description="records ingested per CPU second (stream)")
    compacted_per_cpu_s: float = Field(118_000, gt=0, description="records compacted per CPU second (compact)")
    rolled_up_per_cpu_s: float = Field(74_600, gt=0, description="metric points rolled up per CPU second (rollup)")
    traces_per_cpu_s: float = Field(41_000, gt=0, description="traces decided by tail sampling per CPU second (tail)")
    otlp_bytes: float = Field(356, gt=0, description="bytes of OTLP for each record (demo)")
    fresh_bytes: float = Field(82, gt=0, description="bytes in tables for each record before compaction (demo)")
    table_bytes: float = Field(55, gt=0, description="bytes in tables for each record after compaction (demo)")
    objects_per_receiver_s: float = Field(5, gt=0, description="objects per second that a receiver writes at most")
    kafka_bytes_per_partition_s: float = Field(10e6, gt=0, description="bytes per second of one Kafka partition")


@dataclass(frozen=True)
class Load:
    """The telemetry to plan for."""

    records_per_second: float
    metrics_share: float = 0.25
    spans_share: float = 0.55
    logs_share: float = 0.2
    spans_per_trace: float = 14.0
    organizations: int = 1
    retention_days: float = 30.0
    commit_seconds: float = 10.0
    headroom: float = 2.0
    span_buckets: int = 16


@dataclass(frozen=True)
class Need:
    """One line of an estimate: an amount, and the arithmetic behind it."""

    part: str
    name: str
    amount: float
    unit: str
    reason: str
    dollars_month: float = 0.0
    busy_cores: float = 0.0


def size_load(load: Load, slopes: SlopesConfig, prices: PricesConfig) -> list[Need]:
    """Return what a load needs, with the reason of each number."""
    needs = list(_size_processes(load, slopes, prices))
    receivers = max(2, math.ceil(_receiver_cores(load, slopes)))
    return needs + list(_size_requests(load, slopes, prices, receivers)) + list(_size_storage(load, slopes, prices))


def total_busy_cores(needs: list[Need]) -> float:
    """Return the cores that are busy on average, of all parts together."""
    return sum(need.busy_cores for need in needs)


def total_dollars(needs: list[Need]) -> float:
    """Return the dollars of a month."""
    return sum(need.dollars_month for need in needs)


def _receiver_cores(load: Load, slopes: SlopesConfig) -> float:
    return load.records_per_second / slopes.received_per_cpu_s * load.headroom


def _size_processes(load: Load, slopes: SlopesConfig, prices: PricesConfig) -> Iterator[Need]:
    """Yield cores, each with the headroom, and partitions of Kafka."""
    rate, spans = load.records_per_second, load.records_per_second * load.spans_share
    works = (
        ("receivers", "records received", rate, slopes.received_per_cpu_s, 2),
        ("ingestion", "records ingested", rate, slopes.ingested_per_cpu_s, 1),
        ("compaction", "records compacted", rate, slopes.compacted_per_cpu_s, 1),
        ("rollups", "metric points rolled up", rate * load.metrics_share, slopes.rolled_up_per_cpu_s, 1),
        ("tail sampling", "traces decided", spans / load.spans_per_trace, slopes.traces_per_cpu_s, 1),
    )
    for part, what, amount, speed, least in works:
        if not amount:
            continue
        busy = amount / speed
        cores = max(least, math.ceil(busy * load.headroom))
        reason = (
            f"{amount:,.0f} {what} a second / {speed:,.0f} per CPU second = {busy:.2f} busy, times {load.headroom:g}"
        )
        at_least = f", at least {least}" if cores == least else ""
        dollars = cores * MONTH_HOURS * prices.compute_per_core_hour
        yield Need(part, "cores", cores, "cores", reason + at_least, dollars, busy)
    arriving = rate * slopes.otlp_bytes
    partitions = max(1, math.ceil(arriving / slopes.kafka_bytes_per_partition_s))
    reason = f"{format_bytes(arriving)} of OTLP a second / {format_bytes(slopes.kafka_bytes_per_partition_s)}"
    yield Need("Kafka", "partitions", partitions, "partitions", f"{reason}, if Kafka is used instead of receivers")


def _size_requests(load: Load, slopes: SlopesConfig, prices: PricesConfig, receivers: int) -> Iterator[Need]:
    """Yield the requests to object storage in a month."""
    commits = MONTH_SECONDS / load.commit_seconds
    raw_objects = receivers * min(slopes.objects_per_receiver_s, load.records_per_second) * MONTH_SECONDS
    # Spans are bucketed by trace, the other tables have one file for each organization. A commit adds four objects of
    # metadata to a table.
    tables = [share > 0 for share in (load.spans_share, load.metrics_share, load.logs_share)]
    files = commits * load.organizations * (load.span_buckets * tables[0] + sum(tables[1:]))
    metadata = commits * sum(tables) * 4
    puts = raw_objects + files + metadata
    yield Need(
        *("object storage", "writes", puts, "requests"),
        f"{raw_objects:,.0f} raw segments, {files:,.0f} data files and {metadata:,.0f} metadata files",
        puts / 1000 * prices.put_per_1000,
    )
    reports = receivers * 2 * MONTH_SECONDS / RAW_GET_SECONDS
    gets = raw_objects + files * 2 + reports
    yield Need(
        *("object storage", "reads", gets, "requests"),
        f"raw segments once, data files twice (ingestion, compaction), {reports:,.0f} for reports of the backlog",
        gets / 1000 * prices.get_per_1000,
    )
    lists = commits * (1 + 2 * receivers + 2)
    yield Need(
        *("object storage", "lists", lists, "requests"),
        f"three and two for each of {format_count(receivers, 'receiver')} every {load.commit_seconds:g} s",
        lists / 1000 * prices.list_per_1000,
    )


def _size_storage(load: Load, slopes: SlopesConfig, prices: PricesConfig) -> Iterator[Need]:
    """Yield the bytes that are stored at a time."""
    day = load.records_per_second * DAY_SECONDS
    kept = day * slopes.table_bytes * load.retention_days
    yield Need(
        *("storage", "tables", kept, "bytes"),
        f"{day:,.0f} records a day of {slopes.table_bytes:g} bytes for {load.retention_days:g} days",
        kept / GIGABYTE * prices.storage_gb_month,
    )
    raw = load.records_per_second * 3600 * slopes.otlp_bytes + day * slopes.fresh_bytes
    share = raw / kept if kept else 0.0
    yield Need(
        *("storage", "raw zone and replaced files", raw, "bytes"),
        f"an hour of OTLP and a day of files before compaction, {format_share(share)} of the tables",
        raw / GIGABYTE * prices.storage_gb_month,
    )
