"""The spans of the tail sampling benchmark: traces of twenty-five spans each, in commits of a minute."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from bench.sizes import choose_number
from neve.lake.commit.append import append_once
from neve.lake.write.table_writer import Target, write_files
from neve.model.columns import STRING_MAP, TIMESTAMP

if TYPE_CHECKING:
    import numpy.typing as npt

    from neve.lake.lake import Lake

    Ints = npt.NDArray[np.int64]

TRACES = choose_number("BENCH_TRACES", whole=1_000_000, quick=20_000)
TRACE_SPANS = 25
COMMIT_TRACES = 20_000
START = datetime(2026, 2, 2, 9, tzinfo=UTC)
MINUTE = 60_000_000
OWNER = "acme"
SERVICES = tuple(f"service-{number:02d}" for number in range(24))
OPERATIONS = tuple(
    f"{verb} /api/v1/{noun}" for verb in ("GET", "PUT") for noun in ("carts", "orders", "users", "items")
)
VARIANTS = 2_000  # distinct maps of attributes


def fill(lake: Lake, traces: int = TRACES, first: int = 0) -> int:
    """Write so many traces, a commit of each minute; how many spans that were."""
    attributes, resources = _attributes(), _resources()
    table, spans = lake.table("spans"), 0
    for number in range(-(-traces // COMMIT_TRACES)):
        count = min(COMMIT_TRACES, traces - number * COMMIT_TRACES)
        records = _spans(first + number, count, attributes, resources)
        append_once(
            table, write_files(Target.of(table), records), batch_id=f"bench:{first + number}", operation="bench"
        )
        spans += records.num_rows
        print(f"  commit {number + 1}: {spans:,} spans", flush=True)
    return spans


def _spans(commit: int, traces: int, attributes: pa.Array, resources: pa.Array) -> pa.Table:
    chance = np.random.default_rng(commit)
    rows = traces * TRACE_SPANS
    trace, depth = np.repeat(np.arange(traces), TRACE_SPANS), np.tile(np.arange(TRACE_SPANS), traces)
    begin = int(START.timestamp() * 1e6) + commit * MINUTE
    micros = begin + np.sort(chance.integers(MINUTE - 10_000_000, size=traces))[trace] + depth * 900
    duration = np.round(chance.lognormal(3 - depth * 0.05, 1.0), 3)
    service, variant = chance.integers(len(SERVICES), size=rows), chance.integers(VARIANTS, size=rows)
    ids = _ids(chance, rows, 8)
    return pa.table(
        {
            "organization_id": pa.repeat(OWNER, rows),
            "timestamp": pa.array(micros).cast(TIMESTAMP),
            "trace_id": _ids(chance, traces, 16).take(pa.array(trace)),
            "span_id": ids,
            "parent_span_id": ids.take(pa.array(trace * TRACE_SPANS, mask=depth == 0)),
            "service_name": pa.array(SERVICES).take(pa.array(service)),
            "operation_name": pa.array(OPERATIONS).take(pa.array(variant % len(OPERATIONS))),
            "span_kind": pa.array(np.where(depth == 0, 2, 3).astype(np.int32)),
            "status_code": pa.array(np.where(chance.random(rows) < 0.0004, 2, 0).astype(np.int32)),
            "duration_ms": pa.array(duration),
            "start_time_unix_nano": pa.array(micros * 1_000),
            "end_time_unix_nano": pa.array(micros * 1_000 + (duration * 1e6).astype(np.int64)),
            "flags": pa.array(np.ones(rows, dtype=np.int64)),
            "attributes": attributes.take(pa.array(variant)),
            "resource_attrs": resources.take(pa.array(service)),
            "record_id": _ids(chance, rows, 16),
            "ingested_at": pa.array(np.full(rows, begin + MINUTE)).cast(TIMESTAMP),
        }
    )


def _ids(chance: np.random.Generator, count: int, width: int) -> pa.Array:
    data = chance.integers(0, 256, size=count * width, dtype=np.uint8).tobytes()
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(width), count, [None, pa.py_buffer(data)]).cast(pa.binary())


def _attributes() -> pa.Array:
    return _maps(
        {"http.route": OPERATIONS[number % len(OPERATIONS)], "customer.id": f"customer-{number % 400:03d}"}
        for number in range(VARIANTS)
    )


def _resources() -> pa.Array:
    return _maps({"service.name": service, "service.namespace": "shop"} for service in SERVICES)


def _maps(values: object) -> pa.Array:
    return pa.array([list(value.items()) for value in values], STRING_MAP)  # type: ignore[attr-defined]
