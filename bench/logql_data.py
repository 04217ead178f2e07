"""Log lines for the benchmark of LogQL: an hour of 100 streams, as Arrow and as OTLP."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench.sizes import choose_number
from neve.lake.commit.append import append_once
from neve.lake.write.table_writer import Target, write_files
from neve.model.series_identity import make_stream_ids
from neve.model.signals import Signal
from neve.model.tables import LOGS
from neve.otlp import encode

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from neve.lake.lake import Lake

    Ints = npt.NDArray[np.int64]

ROWS = choose_number("BENCH_ROWS", whole=5_000_000, quick=50_000)
SERVICES, PODS = 10, 10
STREAMS = SERVICES * PODS
START_S = int(datetime(2026, 2, 2, 9, tzinfo=UTC).timestamp())
SECONDS = 3600
END_S = START_S + SECONDS
COMMITS = 12
MESSAGE_ROWS = 20_000  # of one OTLP request
OWNER = "acme"
RARE = "heliotrope"
RARE_EVERY = 500_000  # rows
SEVERITIES = ((9, "INFO"), (9, "INFO"), (9, "INFO"), (9, "INFO"), (13, "WARN"), (17, "ERROR"))
STATUSES = ("200", "200", "200", "201", "404", "500")


def draw(numbers: Ints, salt: int, count: int) -> Ints:
    """Return a value below `count` for each row: the same one, whatever rows it is made with."""
    words = (numbers.astype(np.uint64) * np.uint64(8) + np.uint64(salt)) * np.uint64(0x9E3779B97F4A7C15)
    words = (words ^ (words >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    return ((words ^ (words >> np.uint64(32))) % np.uint64(count)).astype(np.int64)


def make_lines(first: int, last: int) -> pa.Table:
    """Return lines `[first, last)` in order of time: JSON in half of the services, logfmt in the others."""
    numbers = np.arange(first, last)
    count = len(numbers)
    stream = numbers % STREAMS
    nanos = START_S * 10**9 + numbers * (SECONDS * 10**9 // ROWS)
    kinds = draw(numbers, 1, len(SEVERITIES))
    columns: dict[str, pa.Array] = {field.name: pa.nulls(count, field.type) for field in LOGS.schema}
    resources = pa.array(
        [
            [
                ("service.name", f"service-{one // PODS}"),
                ("k8s.pod.name", f"pod-{one}"),
                ("host.name", f"host-{one % 7}"),
            ]
            for one in range(STREAMS)
        ],
        LOGS.schema.field("resource_attrs").type,
    )
    places = pa.array(stream)
    micros = pa.array(nanos // 1000)
    ids = np.stack([numbers, nanos], axis=1).astype(np.int64).tobytes()
    columns |= {
        "organization_id": pa.repeat(OWNER, count),
        "timestamp": micros.cast(LOGS.schema.field("timestamp").type),
        "ingested_at": micros.cast(LOGS.schema.field("ingested_at").type),
        "time_unix_nano": pa.array(nanos),
        "observed_time_unix_nano": pa.array(nanos),
        "service_name": pa.array([f"service-{one // PODS}" for one in range(STREAMS)]).take(places),
        "stream_id": make_stream_ids(resources).take(places),
        "severity_number": pa.array([number for number, _ in SEVERITIES], pa.int32()).take(pa.array(kinds)),
        "severity_text": pa.array([text for _, text in SEVERITIES]).take(pa.array(kinds)),
        "message": _write_texts(numbers, stream),
        "resource_attrs": resources.take(places),
        "record_id": pa.Array.from_buffers(pa.binary(16), count, [None, pa.py_buffer(ids)]).cast(pa.binary()),
    }
    for name in ("resource_attr_types", "attributes", "attribute_types", "scope_attrs", "scope_attr_types"):
        columns[name] = pa.array([[]], LOGS.schema.field(name).type).take(pa.array(np.zeros(count, np.int64)))
    return pa.table([columns[one.name].cast(one.type) for one in LOGS.schema], LOGS.schema)


def _write_texts(numbers: Ints, stream: Ints) -> pa.Array:
    parts = {
        "method": pa.array(["GET", "POST", "PUT"]).take(pa.array(draw(numbers, 2, 3))),
        "status": pa.array(STATUSES).take(pa.array(draw(numbers, 3, len(STATUSES)))),
        "took": pa.array(1 + draw(numbers, 4, 899)).cast(pa.string()),
        "route": pa.array([f"/api/v1/route-{one}" for one in range(20)]).take(pa.array(draw(numbers, 5, 20))),
        "request": pa.array(draw(numbers, 6, 2**40)).cast(pa.string()),
        "note": pc.if_else(pa.array(numbers % RARE_EVERY == 7), RARE, "connection accepted"),
    }
    json_text = pc.binary_join_element_wise(
        '{"method":"', parts["method"], '","route":"', parts["route"], '","status":', parts["status"], ',"took":"',
        parts["took"], 'ms","request":"', parts["request"], '","note":"', parts["note"], '"}', "",
    )  # fmt: skip
    logfmt_text = pc.binary_join_element_wise(
        "method=", parts["method"], " route=", parts["route"], " status=", parts["status"], " took=",
        parts["took"], "ms request=", parts["request"], ' note="', parts["note"], '"', "",
    )  # fmt: skip
    return pc.if_else(pa.array(stream // PODS % 2 == 0), json_text, logfmt_text)


def fill_lake(lake: Lake) -> None:
    """Commit all lines, as ingestion would."""
    table = lake.table(LOGS.name)
    edges = np.linspace(0, ROWS, COMMITS + 1).astype(int).tolist()
    for first, last in pairwise(edges):
        files = write_files(Target.of(table), make_lines(first, last))
        append_once(table, files, batch_id=f"lines {first}", operation="bench")


def write_messages() -> Iterator[bytes]:
    """Yield the lines as OTLP, in order of time within each stream."""
    for first in range(0, ROWS, MESSAGE_ROWS):
        rows = make_lines(first, min(first + MESSAGE_ROWS, ROWS))
        in_order = rows.sort_by([("stream_id", "ascending"), ("time_unix_nano", "ascending")])
        yield encode(Signal.LOGS, in_order.combine_chunks().to_batches()[0])
