"""Metrics for the benchmark of PromQL: many series of some hours, and few of a month, as Arrow and as OTLP."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from bench.sizes import choose_number
from neve.lake.commit.append import append_once
from neve.lake.write.table_writer import Target, write_files
from neve.model.series_identity import make_series_ids
from neve.model.signals import Signal
from neve.model.tables import METRICS
from neve.otlp import encode

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from neve.lake.lake import Lake

ROWS = choose_number("BENCH_ROWS", whole=1_440_000, quick=120_000)
SERVICES, PODS, ROUTES = 10, 10, 10
SERIES = SERVICES * PODS * ROUTES
POINTS = max(ROWS // SERIES, 120)  # of a series
GAP_S = 15
START_S = int(datetime(2026, 2, 2, 9, tzinfo=UTC).timestamp())
END_S = START_S + (POINTS - 1) * GAP_S
COMMITS = 6
OWNER = "acme"
COUNTER = "http.server.requests"

MONTH_SERIES, MONTH_GAP_S, MONTH_DAYS = 20, GAP_S, 30
MONTH_POINTS = MONTH_DAYS * 86_400 // MONTH_GAP_S if ROWS >= 1_000_000 else 3 * 86_400 // MONTH_GAP_S
MONTH_START_S = START_S // 86_400 * 86_400 - MONTH_POINTS * MONTH_GAP_S
GAUGE = "queue.depth"


def make_recent(first: int, last: int) -> pa.Table:
    """Return points `[first, last)` of all series of a counter, in order of time."""
    numbers = np.arange(SERIES)
    series = build_series(
        COUNTER,
        [
            [("service.name", f"service-{one // 100}"), ("service.instance.id", f"pod-{one // 10}")]
            for one in numbers.tolist()
        ],
        [[("http.route", f"/route/{one % 10}"), ("pod", f"pod-{one // 10}")] for one in numbers.tolist()],
        is_counter=True,
    )
    steps = np.repeat(np.arange(first, last), SERIES)
    owner = np.tile(numbers, last - first)
    growth = 1.0 + owner % 7
    return build_points(series, owner, START_S + steps * GAP_S, (steps + 1) * growth, START_S)


def make_month(first: int, last: int) -> pa.Table:
    """Return points `[first, last)` of a gauge, half a gap after multiples of it."""
    numbers = np.arange(MONTH_SERIES)
    series = build_series(
        GAUGE,
        [[("service.name", f"service-{one % 4}")] for one in numbers.tolist()],
        [[("queue", f"queue-{one}")] for one in numbers.tolist()],
        is_counter=False,
    )
    steps = np.repeat(np.arange(first, last), MONTH_SERIES)
    owner = np.tile(numbers, last - first)
    values = 50.0 + owner + 40.0 * np.sin(steps / 2800.0 + owner)
    return build_points(series, owner, MONTH_START_S + steps * MONTH_GAP_S + MONTH_GAP_S // 2 + 1, values)


def build_series(
    name: str, resources: list[list[tuple[str, str]]], attributes: list[list[tuple[str, str]]], *, is_counter: bool
) -> pa.Table:
    """Return one row for each series, without the columns of points."""
    count = len(resources)
    schema = METRICS.schema
    columns = {field.name: pa.nulls(count, field.type) for field in schema}
    columns |= {
        "organization_id": pa.array([OWNER] * count),
        "metric_name": pa.array([name] * count),
        "metric_type": pa.array(["sum" if is_counter else "gauge"] * count),
        "service_name": pa.array([dict(one)["service.name"] for one in resources]),
        "resource_attrs": pa.array(resources, schema.field("resource_attrs").type),
        "resource_attr_types": pa.array([[]] * count, schema.field("resource_attr_types").type),
        "attributes": pa.array(attributes, schema.field("attributes").type),
        "attribute_types": pa.array([[]] * count, schema.field("attribute_types").type),
    }
    if is_counter:
        columns["aggregation_temporality"] = pa.array([2] * count, pa.int32())
        columns["is_monotonic"] = pa.array([True] * count)
    columns["series_id"] = make_series_ids(columns)
    return pa.table(columns)


def build_points(
    series: pa.Table,
    owner: npt.NDArray[np.int64],
    seconds: npt.NDArray[np.int64],
    values: npt.NDArray[np.float64],
    started: int = 0,
) -> pa.Table:
    """Return the points of series. `owner` is the row of the series of each point."""
    rows = series.take(pa.array(owner))
    nanos = seconds.astype(np.int64) * 1_000_000_000
    ids = np.stack([owner.astype(np.int64), nanos], axis=1).tobytes()
    own = {
        "timestamp": pa.array(seconds.astype(np.int64) * 1_000_000).cast(METRICS.schema.field("timestamp").type),
        "time_unix_nano": pa.array(nanos),
        "start_time_unix_nano": pa.array(np.full(len(owner), started * 1_000_000_000, np.int64)),
        "flags": pa.array(np.zeros(len(owner), np.int64)),
        "value": pa.array(values.astype(np.float64)),
        "record_id": pa.Array.from_buffers(pa.binary(16), len(owner), [None, pa.py_buffer(ids)]).cast(pa.binary()),
        "ingested_at": pa.array(seconds.astype(np.int64) * 1_000_000).cast(METRICS.schema.field("ingested_at").type),
    }
    return pa.table(
        [own.get(field.name, rows.column(field.name)).cast(field.type) for field in METRICS.schema], METRICS.schema
    )


def fill_lake(lake: Lake) -> None:
    """Commit both sets of points, as ingestion would: each file in order of its series."""
    table = lake.table(METRICS.name)
    edges = np.linspace(0, POINTS, COMMITS + 1).astype(int).tolist()
    for first, last in pairwise(edges):
        files = write_files(Target.of(table), make_recent(first, last))
        append_once(table, files, batch_id=f"recent {first}", operation="bench")
    day = 86_400 // MONTH_GAP_S
    for first in range(0, MONTH_POINTS, day):
        files = write_files(Target.of(table), make_month(first, min(first + day, MONTH_POINTS)))
        append_once(table, files, batch_id=f"month {first}", operation="bench")


_next_points = itertools.count(POINTS)


def commit_next(lake: Lake) -> None:
    """Commit one more point of each series of the counter, after all others."""
    table, point = lake.table(METRICS.name), next(_next_points)
    append_once(
        table, write_files(Target.of(table), make_recent(point, point + 1)), batch_id=f"next {point}", operation="bench"
    )


def write_messages() -> Iterator[bytes]:
    """Yield the points of the counter as OTLP, in order of time."""
    for first in range(0, POINTS, 20):
        rows = make_recent(first, min(first + 20, POINTS))
        in_order = rows.sort_by([("service_name", "ascending"), ("series_id", "ascending"), ("timestamp", "ascending")])
        yield encode(Signal.METRICS, in_order.combine_chunks().to_batches()[0])
