"""Inputs to begin with: messages that were drawn from the strategies of OTLP, real files, statements of the tests."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cbor2
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded_with

from neve.model.signals import Signal
from neve.otlp.json import to_json
from neve.raw.frame import Encoding, Frame, Kind, Packing
from tests.fuzz.containers import FILES, body, file, segment
from tests.ingest.samples import DOCUMENTS
from tests.otlp.damage import NOW, whole
from tests.otlp.messages import MESSAGES
from tests.query import dialect_queries
from tests.query.attacks import fixed_attacks
from tests.telemetry import MAKERS

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

SHARED = Path(__file__).parents[2].parent / "shared" / "data"
DRAWN = 12  # messages of each signal
LARGEST = 64 * 1024  # of a real file that is taken
KINDS = {Signal.TRACES: Kind.TRACES, Signal.LOGS: Kind.LOGS, Signal.METRICS: Kind.METRICS}
WORST_STATEMENTS = (
    "SELECT mode(i) FROM range(200000000) t(i)",
    "SELECT median(a.i) FROM range(9) a(i), range(9) b, range(9) c",
    'SELECT from_json(\'{}\', \'{"a":{"b":["INT"]}}\')',
    "SELECT len(json_extract('[[[]]]', '$..*..*'))",
    "SELECT repeat('a', 100) ILIKE '%_a%_a%_ab'",
    "SELECT message FROM logs WHERE timestamp > now() - INTERVAL 1 HOUR AND attributes['a'] = 'b' ORDER BY 1 LIMIT 5",
    "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 5) SELECT * FROM t, spans",
)
STRANGE_COLUMNS: dict[str, pa.Array] = {
    "time": pa.array([datetime(2025, 1, 1, tzinfo=UTC), None], pa.timestamp("ns", "UTC")),
    "ts": pa.array([1, -1], pa.timestamp("s")),
    "date": pa.array([1, None], pa.date32()),
    "clock": pa.array([1, 2], pa.time64("us")),
    "took": pa.array([timedelta(seconds=1), None], pa.duration("us")),
    "value": pa.array([float("nan"), float("inf")]),
    "half": pa.array([1.5, 2.5], pa.float32()),
    "large": pa.array([2**64 - 1, 0], pa.uint64()),
    "price": pa.array([Decimal("1.5"), Decimal("-2")], pa.decimal128(38, 9)),
    "bytes": pa.array([b"\xff\x00", None]),
    "fixed": pa.array([b"abc", b"def"], pa.binary(3)),
    "words": pa.array(["a", "a"]).dictionary_encode(),
    "labels": pa.array([[("k", "v")], []], pa.map_(pa.string(), pa.string())),
    "list": pa.array([[1, None], None], pa.list_(pa.int32())),
    "attributes": pa.array([{"a": {"b": [1]}}, None]),
    "nothing": pa.nulls(2),
    "message": pa.array(["größe \U0001f9ca", ""]),
    "Message": pa.array([True, None]),
}


def draw(strategy: SearchStrategy[Any], count: int, seed: int = 0) -> list[Any]:
    """Examples of a strategy, the same ones for the same seed."""
    found: list[Any] = []

    @seeded_with(seed)
    @settings(max_examples=count, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(strategy)
    def collect(example: Any) -> None:
        found.append(example)

    collect()
    return found


@cache
def messages(signal: Signal) -> tuple[bytes, ...]:
    """Valid messages of a signal."""
    drawn = [message.SerializeToString() for message in draw(MESSAGES[signal], DRAWN)]
    return tuple(dict.fromkeys((whole()[signal], MAKERS[signal](3), *drawn)))


def documents(signal: Signal) -> list[bytes]:
    """The same messages as JSON."""
    return [to_json(signal, message).encode() for message in messages(signal)]


@cache
def bodies() -> tuple[bytes, ...]:
    """Bodies of requests, in every encoding and packing."""
    found = []
    for signal in Signal:
        for number, (message, text) in enumerate(zip(messages(signal), documents(signal), strict=True)):
            packing = tuple(Packing)[number % 4]
            found += [body(signal, Encoding.PROTOBUF, packing, message), body(signal, Encoding.JSON, packing, text)]
    real = sorted(SHARED.glob("otlp/*.json"))
    return (*found, *(body(Signal.LOGS, Encoding.JSON, Packing.NONE, path.read_bytes()) for path in real))


def plain_bodies() -> tuple[bytes, ...]:
    """Messages and texts without packing."""
    return tuple(
        body(signal, encoding, Packing.NONE, one)
        for signal in Signal
        for encoding, given in ((Encoding.PROTOBUF, messages(signal)), (Encoding.JSON, documents(signal)))
        for one in given
    )


@cache
def files() -> tuple[bytes, ...]:
    """Files of every name."""
    found = []
    for name in FILES:
        signal = next((one for one in Signal if one.value[:-1] in name or one.table in name), Signal.LOGS)
        rows = DOCUMENTS[signal]
        if ".csv" in name:
            lines = [",".join(rows[0]), *(",".join(map(str, row.values())) for row in rows)]
            found.append(file(name, "\n".join(lines).encode()))
        elif ".parquet" in name:
            found += [file(name, parquet(pa.Table.from_pylist(rows))), file(name, parquet(pa.table(STRANGE_COLUMNS)))]
        elif "pb" in name:
            one = whole()[signal]
            found += [file(name, one), file(name, b"".join(len(part).to_bytes(4) + part for part in (one, one)))]
        else:
            found.append(file(name, "\n".join(json.dumps(row) for row in rows).encode()))
            found.append(file(name, b"\n".join([*documents(signal)[:3], *documents(Signal.METRICS)[:1]])))
    real = [path for path in sorted(SHARED.glob("otap/**/*.parquet")) if path.stat().st_size < LARGEST]
    return (*found, *(file("logs.parquet", path.read_bytes()) for path in real))


def parquet(table: pa.Table) -> bytes:
    """A table as a small Parquet file."""
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue()


@cache
def segments() -> tuple[bytes, ...]:
    """Segments of the raw zone with frames of every kind."""
    found = []
    for number in range(6):
        frames = [
            Frame(KINDS[signal], organization, NOW, open_payload(signal, number, encoding, packing), encoding, packing)
            for signal in Signal
            for organization in ("acme", "globex")
            for encoding, packing in ((Encoding.PROTOBUF, tuple(Packing)[number % 4]), (Encoding.JSON, Packing.NONE))
        ]
        found.append(segment(*frames[number : number + 4], Frame(Kind.EVENT, "acme", NOW, b"{}", Encoding.JSON)))
    return tuple(found)


def open_payload(signal: Signal, number: int, encoding: Encoding, packing: Packing) -> bytes:
    """What a frame holds: a body without the byte in front."""
    given = messages(signal) if encoding is Encoding.PROTOBUF else documents(signal)
    return body(signal, encoding, packing, given[number % len(given)])[1:]


def values() -> tuple[bytes, ...]:
    """Maps and slices of OTAP, in CBOR."""
    plain: tuple[Any, ...] = (
        *([], [1, "a", None, True, 1.5, b"x"], {}, {"a": {"b": [1, {"c": 2**64}]}}, [[[[]]]], {"k": -(2**63)}),
        *([datetime(2025, 1, 1, tzinfo=UTC)], {"a": Decimal("1.5")}, [2**70], {1: 2}, [float("nan")]),
    )
    return tuple(bytes([isinstance(one, dict)]) + cbor2.dumps(one) for one in plain)


@cache
def statements() -> tuple[bytes, ...]:
    """Statements of the tests: those that are answered, those that are refused, the worst that are known."""
    groups = [value for name, value in vars(dialect_queries).items() if name.isupper() and isinstance(value, tuple)]
    answered = [entry[1] for group in groups for entry in group if isinstance(entry, tuple) and len(entry) > 1]
    every = (*WORST_STATEMENTS, *answered, *fixed_attacks())
    return tuple(text.encode("utf-8", "replace") for text in every if len(text) < 2000)
