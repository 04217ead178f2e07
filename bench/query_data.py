"""The lake of the query benchmark: three days of spans, logs and gauges of two organizations, twenty million rows.

Logs belong to spans, spans to traces. Texts and maps come from pools of some thousand values, as in real telemetry; ids
are random. One word is in five logs of all, one sentence in those of a quarter of an hour.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench.sizes import choose_number
from neve.lake.commit.append import append_once
from neve.lake.write.table_writer import Target, write_files
from neve.model.columns import STRING_MAP

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt

    from neve.lake.lake import Lake

    Ints = npt.NDArray[np.int64]

ROWS = choose_number("BENCH_ROWS", whole=20_100_000, quick=200_000)
SPANS, LOGS, POINTS = (int(ROWS * share) for share in (0.45, 0.40, 0.15))
DAYS, COMMITS = 3, 24
START = datetime(2026, 2, 2, tzinfo=UTC)
END = START + timedelta(days=DAYS)
WINDOW_MICROS = DAYS * 86_400_000_000 // COMMITS

OWNER, OTHER = "acme", "globex"
OTHERS = 0.1  # the share of the second organization
TRACE_SPANS = 6
SERVICES = tuple(f"service-{number:02d}" for number in range(24))
ENDPOINTS = tuple(f"/api/v1/{noun}/{verb}" for noun in ("carts", "orders") for verb in ("get", "put", "list", "drop"))
GAUGES = tuple(f"process.gauge.{number}" for number in range(8))
VARIANTS = 4_000  # distinct maps of attributes
PODS = 8  # of a service
CUSTOMERS = 400
STATUSES = ("200", "200", "200", "200", "200", "201", "204", "404", "500", "503")
RARE, RARE_ROWS = "heliotrope", 5
PHRASE, PHRASE_COMMIT = "certificate chain revoked", 17
TEMPLATES = (
    ("connection pool exhausted after ", " ms, request ", " gave up"),
    ("GET /api/v1/carts/", " HTTP/1.1 200, request ", " in 12 ms"),
    ("could not send order ", " to the broker: timeout, message ", " is kept"),
    ("user ", " signed in, session ", " from 10.1.2.3"),
    ("payment of ", " EUR accepted, transaction ", " by visa"),
    ("cache miss for product ", ", key ", ", loading it"),
    ("certificate ", " was renewed, chain ", " has not expired"),
    ("retrying batch ", " of stream ", " after an error"),
)
SEVERITIES = (
    (9, "INFO"),
    (9, "INFO"),
    (9, "INFO"),
    (9, "INFO"),
    (5, "DEBUG"),
    (5, "DEBUG"),
    (13, "WARN"),
    (17, "ERROR"),
)


@dataclass(frozen=True)
class Made:
    """What questions need to know of the rows: traces, each with the moment that it began."""

    traces: tuple[tuple[str, datetime], ...]
    rows: dict[str, int]


class Pools:
    """Values that rows take theirs from."""

    def __init__(self) -> None:
        chance = np.random.default_rng(1)
        customers = np.minimum(chance.zipf(1.3, VARIANTS), CUSTOMERS)
        self.attributes = _maps(
            {
                "http.request.method": ("GET", "POST", "PUT")[number % 3],
                "http.route": ENDPOINTS[number % len(ENDPOINTS)],
                "http.response.status_code": STATUSES[int(chance.integers(len(STATUSES)))],
                "customer.id": f"customer-{customers[number]:03d}",
                "server.address": f"10.0.{number % 16}.{number % 200}",
            }
            for number in range(VARIANTS)
        )
        self.resources = _maps(
            {
                "service.name": service,
                "service.namespace": "shop",
                "service.version": f"1.{pod % 3}.0",
                "service.instance.id": f"{service}-7f9c{pod:04d}",
                "host.name": f"node-{pod}",
            }
            for service in SERVICES
            for pod in range(PODS)
        )
        self.services, self.endpoints = pa.array(SERVICES), pa.array(ENDPOINTS)
        self.owners = pa.array([OWNER, OTHER])
        self.severities = pa.array([number for number, _text in SEVERITIES], pa.int32())
        self.severity_texts = pa.array([text for _number, text in SEVERITIES])
        self.templates = tuple(pa.array(words) for words in zip(*TEMPLATES, strict=True))


def fill(lake: Lake) -> Made:
    """Write all rows, in commits that follow each other in time."""
    pools = Pools()
    traces: list[tuple[str, datetime]] = []
    rows = dict.fromkeys(("spans", "logs", "metrics"), 0)
    for number in range(COMMITS):
        chance = np.random.default_rng(number + 100)
        begin = int(START.timestamp() * 1e6) + number * WINDOW_MICROS
        spans = _spans(chance, pools, begin)
        traces += _some_traces(spans)
        logs = _logs(chance, pools, spans, number)
        for name, records in (("spans", spans), ("logs", logs), ("metrics", _points(chance, pools, begin))):
            table = lake.table(name)
            append_once(table, write_files(Target.of(table), records), batch_id=f"bench:{number}", operation="bench")
            rows[name] += records.num_rows
        print(f"  commit {number + 1} of {COMMITS}: {sum(rows.values()):,} rows", flush=True)
    return Made(tuple(traces), rows)


def _spans(chance: np.random.Generator, pools: Pools, begin: int) -> pa.Table:
    """Traces of six spans, spread over the window of a commit."""
    traces = max(10, SPANS // COMMITS // TRACE_SPANS)
    rows = traces * TRACE_SPANS
    trace = np.repeat(np.arange(traces), TRACE_SPANS)
    began = np.sort(chance.integers(WINDOW_MICROS - 5_000_000, size=traces))[trace]
    depth = np.tile(np.arange(TRACE_SPANS), traces)
    micros = begin + began + depth * 1_500 + chance.integers(1_000, size=rows)
    duration = np.round(chance.lognormal(3 - depth * 0.2, 0.8), 3)
    variant, service = chance.integers(VARIANTS, size=rows), chance.integers(len(SERVICES), size=rows)
    ids = _ids(chance, rows, 8)
    return pa.table(
        {
            "organization_id": pools.owners.take(pa.array((chance.random(traces) < OTHERS)[trace].astype(np.int8))),
            "timestamp": _moments(micros),
            "trace_id": _ids(chance, traces, 16).take(pa.array(trace)),
            "span_id": ids,
            "parent_span_id": ids.take(pa.array(trace * TRACE_SPANS, mask=depth == 0)),
            "service_name": pools.services.take(pa.array(service)),
            "operation_name": pools.endpoints.take(pa.array(variant % len(ENDPOINTS))),
            "span_kind": pa.array(np.where(depth == 0, 2, 3).astype(np.int32)),
            "status_code": pa.array(np.where(chance.random(rows) < 0.02, 2, 0).astype(np.int32)),
            "duration_ms": pa.array(duration),
            "start_time_unix_nano": pa.array(micros * 1_000),
            "end_time_unix_nano": pa.array(micros * 1_000 + (duration * 1e6).astype(np.int64)),
            "flags": pa.array(np.ones(rows, dtype=np.int64)),
            "attributes": pools.attributes.take(pa.array(variant)),
            "resource_attrs": pools.resources.take(pa.array(service * PODS + chance.integers(PODS, size=rows))),
            **_taken_in(chance, rows, begin),
        }
    )


def _logs(chance: np.random.Generator, pools: Pools, spans: pa.Table, commit: int) -> pa.Table:
    """Logs of spans, of the same service and a little later; a quarter belongs to no trace."""
    rows = max(100, LOGS // COMMITS)
    chosen = np.sort(chance.integers(spans.num_rows, size=rows))
    span = spans.select(("organization_id", "timestamp", "service_name", "trace_id", "span_id")).take(pa.array(chosen))
    micros = span["timestamp"].cast(pa.int64()).to_numpy() + chance.integers(1_000, size=rows)
    severity, alone = chance.integers(len(SEVERITIES), size=rows), chance.random(rows) < 0.25
    service = pc.index_in(span["service_name"], pools.services).to_numpy()
    places = pa.array(service * PODS + chance.integers(PODS, size=rows))
    severities = pa.array(severity)
    return pa.table(
        {
            "organization_id": span["organization_id"],
            "timestamp": _moments(micros),
            "service_name": span["service_name"],
            "severity_number": pools.severities.take(severities),
            "severity_text": pools.severity_texts.take(severities),
            "message": _messages(chance, pools, span["organization_id"], commit),
            "trace_id": pc.if_else(pa.array(alone), pa.scalar(None, pa.binary()), span["trace_id"]),
            "span_id": pc.if_else(pa.array(alone), pa.scalar(None, pa.binary()), span["span_id"]),
            "time_unix_nano": pa.array(micros * 1_000),
            "observed_time_unix_nano": pa.array(micros * 1_000 + 50_000),
            "attributes": pools.attributes.take(pa.array(chance.integers(VARIANTS, size=rows))),
            "resource_attrs": pools.resources.take(places),
            **_taken_in(chance, rows, int(micros[0])),
        }
    )


def _messages(chance: np.random.Generator, pools: Pools, owners: pa.ChunkedArray, commit: int) -> pa.Array:
    """What logs say: about four of them have an id in common."""
    rows = len(owners)
    kind = pa.array(chance.integers(len(TEMPLATES), size=rows))
    begin, middle, end = (words.take(kind) for words in pools.templates)
    numbers = pa.array(chance.integers(100_000, size=rows)).cast(pa.string())
    requests = _hexes(chance, rows // 4 + 1).take(pa.array(chance.integers(rows // 4 + 1, size=rows)))
    texts = pc.binary_join_element_wise(begin, numbers, middle, requests, end, "")
    own = np.flatnonzero(pc.equal(owners, OWNER).to_numpy())
    if commit % (COMMITS // RARE_ROWS) == 0 and commit // (COMMITS // RARE_ROWS) < RARE_ROWS:
        texts = _said(texts, own[len(own) // 2 :][:1], f"disk {RARE} reports bad blocks")
    if commit == PHRASE_COMMIT:
        texts = _said(texts, own[: len(own) // 12 : 50], f"handshake failed: {PHRASE}, closing")
    return texts


def _said(texts: pa.Array, places: Ints, words: str) -> pa.Array:
    """The texts with other words at some places."""
    there = np.zeros(len(texts), dtype=bool)
    there[places] = True
    return pc.if_else(pa.array(there), words, texts)


def _points(chance: np.random.Generator, pools: Pools, begin: int) -> pa.Table:
    """A point of every gauge at each of some moments; the second organization has one gauge only."""
    owner, gauge, service = _series()
    moments = max(2, POINTS // COMMITS // len(owner))
    series = np.tile(np.arange(len(owner)), moments)
    rows = len(series)
    micros = begin + np.repeat(np.arange(moments) * (WINDOW_MICROS // moments), len(owner)) + series * 1_000
    return pa.table(
        {
            "organization_id": pools.owners.take(pa.array(owner[series])),
            "timestamp": _moments(micros),
            "metric_name": pa.array(GAUGES).take(pa.array(gauge[series])),
            "metric_type": pa.repeat("gauge", rows),
            "service_name": pools.services.take(pa.array(service[series])),
            "value": pa.array(np.round(chance.lognormal(3 + series % 7 / 10, 0.6), 3)),
            "unit": pa.repeat("ms", rows),
            "time_unix_nano": pa.array(micros * 1_000),
            "start_time_unix_nano": pa.array(np.zeros(rows, dtype=np.int64)),
            "flags": pa.array(np.zeros(rows, dtype=np.int64)),
            "attributes": pools.attributes.take(pa.array(gauge[series])),
            "resource_attrs": pools.resources.take(pa.array(service[series] * PODS)),
            **_taken_in(chance, rows, begin),
        }
    )


def _series() -> tuple[Ints, Ints, Ints]:
    """Owner, gauge and service of each series, as numbers."""
    every = [(0, gauge, service) for service in range(len(SERVICES)) for gauge in range(len(GAUGES))]
    every += [(1, 0, service) for service in range(len(SERVICES))]
    owner, gauge, service = np.array(every).T
    return owner, gauge, service


def _some_traces(spans: pa.Table) -> list[tuple[str, datetime]]:
    """Every so many of the first organization's traces, each with the moment that it began."""
    roots = spans.filter(pc.and_(pc.equal(spans["organization_id"], OWNER), pc.equal(spans["span_kind"], 2)))
    chosen = roots.select(("trace_id", "timestamp")).take(pa.array(np.arange(0, len(roots), max(1, len(roots) // 9))))
    return [(row["trace_id"].hex(), row["timestamp"]) for row in chosen.to_pylist()]


def _taken_in(chance: np.random.Generator, rows: int, micros: int) -> dict[str, pa.Array]:
    return {
        "scope_name": pa.repeat("io.opentelemetry.http", rows),
        "scope_version": pa.repeat("2.1.0", rows),
        "record_id": _ids(chance, rows, 16),
        "ingested_at": _moments(np.full(rows, micros + WINDOW_MICROS)),
    }


def _moments(micros: Ints) -> pa.Array:
    return pa.array(micros).cast(pa.timestamp("us", tz="UTC"))


def _ids(chance: np.random.Generator, number: int, size: int) -> pa.Array:
    fixed = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(size), number, [None, pa.py_buffer(chance.bytes(size * number))]
    )
    return fixed.cast(pa.binary())


def _hexes(chance: np.random.Generator, number: int) -> pa.Array:
    """Ids as logs print them."""
    digits = pa.py_buffer(chance.bytes(8 * number).hex().encode())
    return pa.StringArray.from_buffers(number, pa.py_buffer(np.arange(number + 1, dtype=np.int32) * 16), digits)


def _maps(values: Iterable[dict[str, str]]) -> pa.Array:
    return pa.array([list(value.items()) for value in values], STRING_MAP)
