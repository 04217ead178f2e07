"""Spans for the benchmark of TraceQL: most of two hours, the others of the 90 days before, six spans a trace."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from bench.sizes import choose_number
from neve.lake.commit.append import append_once
from neve.lake.write.table_writer import Target, write_files
from neve.model.tables import SPANS

if TYPE_CHECKING:
    import numpy.typing as npt

    from neve.lake.lake import Lake

    Words = npt.NDArray[np.uint64]

ROWS = choose_number("BENCH_ROWS", whole=5_000_000, quick=60_000)
TRACE_SPANS = 6
DAYS = 90
OLD_SHARE = 0.2  # of the spans, over the days before
RECENT_TRACES = int(ROWS * (1 - OLD_SHARE)) // TRACE_SPANS
DAY_TRACES = int(ROWS * OLD_SHARE) // TRACE_SPANS // DAYS
COMMITS = 8
SECONDS = 7200
START_S = int(datetime(2026, 2, 2, 9, tzinfo=UTC).timestamp())
END_S = START_S + SECONDS
OWNER = "acme"
SERVICES = ("gateway", "web", "cart", "pay", "stock", "database")
NAMES = ("GET /", "POST /checkout", "GET /cart", "charge", "reserve", "SELECT")
KINDS = (2, 3, 2, 3, 2, 3)
PARENTS = (None, 0, 1, 2, 1, 4)  # a tree: gateway > web > (cart > pay), (stock > database)
VARIANTS = 1000


def make_ids(traces: Words) -> npt.NDArray[np.void]:
    """Return ids of 16 bytes, spread like random ones."""
    words = np.stack([traces * 0x9E3779B97F4A7C15, (traces + 1) * 0xC2B2AE3D27D4EB4F], axis=1).astype(np.uint64)
    return words.view("V16").reshape(-1)


def find_trace(day: int) -> str:
    """Return the id of a trace of a day before the last hours."""
    first = RECENT_TRACES + day * DAY_TRACES
    return make_ids(np.array([first + DAY_TRACES // 2], np.uint64)).tobytes().hex()


def make_spans(first: int, last: int, start_s: int, seconds: int) -> pa.Table:
    """Return the spans of traces `[first, last)`, which start within a time range."""
    chance = np.random.default_rng(first)
    traces = np.repeat(np.arange(first, last, dtype=np.uint64), TRACE_SPANS)
    count = len(traces)
    place = np.tile(np.arange(TRACE_SPANS), last - first)
    begin = np.repeat(np.linspace(0, seconds, last - first, endpoint=False), TRACE_SPANS)
    nanos = ((start_s + begin) * 10**9).astype(np.int64) + place * 1_000_000
    length = (chance.exponential(20, count) * 1_000_000).astype(np.int64) + 1_000_000
    has_failed = chance.random(count) < 0.01
    parents = np.array([0 if one is None else one + 1 for one in PARENTS])[place]
    variants = pa.array(chance.integers(0, VARIANTS, count))
    columns: dict[str, pa.Array] = {field.name: pa.nulls(count, field.type) for field in SPANS.schema}
    micros = pa.array(nanos // 1000)
    columns |= {
        "organization_id": pa.repeat(OWNER, count),
        "timestamp": micros.cast(SPANS.schema.field("timestamp").type),
        "ingested_at": micros.cast(SPANS.schema.field("ingested_at").type),
        "start_time_unix_nano": pa.array(nanos),
        "end_time_unix_nano": pa.array(nanos + length),
        "duration_ms": pa.array(length / 1e6),
        "trace_id": _to_binary(make_ids(traces)),
        "span_id": _to_binary((traces * 8 + place.astype(np.uint64) + 1).view("V8")),
        "parent_span_id": _to_binary((traces * 8 + parents.astype(np.uint64)).view("V8"), parents == 0),
        "service_name": pa.array(SERVICES).take(pa.array(place)),
        "operation_name": pa.array(NAMES).take(pa.array(place)),
        "span_kind": pa.array(KINDS, pa.int32()).take(pa.array(place)),
        "status_code": pa.array(np.where(has_failed, 2, 0).astype(np.int32)),
        "attributes": _make_attributes().take(variants),
        "attribute_types": _make_types().take(variants),
        "resource_attrs": _make_resources().take(pa.array(place)),
        "record_id": _to_binary(np.stack([traces, place.astype(np.uint64)], axis=1).view("V16").reshape(-1)),
    }
    for name in ("resource_attr_types", "scope_attrs", "scope_attr_types", "events", "links"):
        columns[name] = pa.array([[]], SPANS.schema.field(name).type).take(pa.array(np.zeros(count, np.int64)))
    return pa.table([columns[one.name].cast(one.type) for one in SPANS.schema], SPANS.schema)


def _make_attributes() -> pa.Array:
    routes = [
        [
            ("http.status_code", ("200", "200", "200", "404", "500")[one % 5]),
            ("http.route", f"/route/{one % 40}"),
            ("user.id", f"user-{one}"),
        ]
        for one in range(VARIANTS)
    ]
    return pa.array(routes, SPANS.schema.field("attributes").type)


def _make_types() -> pa.Array:
    return pa.array([[("http.status_code", "int")]] * VARIANTS, SPANS.schema.field("attribute_types").type)


def _make_resources() -> pa.Array:
    pairs = [[("service.name", one), ("cloud.region", "eu-west-1")] for one in SERVICES]
    return pa.array(pairs, SPANS.schema.field("resource_attrs").type)


def _to_binary(values: npt.NDArray[np.void], is_missing: npt.NDArray[np.bool_] | None = None) -> pa.Array:
    size = values.dtype.itemsize
    found = pa.Array.from_buffers(pa.binary(size), len(values), [None, pa.py_buffer(values.tobytes())])
    found = found.cast(pa.binary())
    return found if is_missing is None else pa.compute.if_else(pa.array(is_missing), None, found)


def fill_lake(lake: Lake) -> None:
    """Commit the spans of each day, then those of the last hours."""
    table = lake.table(SPANS.name)
    for day in range(DAYS):
        first = RECENT_TRACES + day * DAY_TRACES
        rows = make_spans(first, first + DAY_TRACES, START_S - (day + 1) * 86_400, 3600 * 12)
        append_once(table, write_files(Target.of(table), rows), batch_id=f"day {day}", operation="bench")
    edges = np.linspace(0, RECENT_TRACES, COMMITS + 1).astype(int).tolist()
    part = SECONDS // COMMITS
    for number in range(COMMITS):
        rows = make_spans(edges[number], edges[number + 1], START_S + number * part, part)
        append_once(table, write_files(Target.of(table), rows), batch_id=f"recent {number}", operation="bench")
