"""Random traces as plain values, as OTLP, and as a table that statements of TraceQL run on."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from random import Random
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, InstrumentationScope, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span, Status

from neve.model.signals import Signal
from neve.otlp import Intake, decode
from neve.traceql.storage.span_reader import SpanReader

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from neve.traceql.storage.span_reader import TimeWindow

BASE = 1_760_000_000_000_000_000
MS = 1_000_000
KEYS = ("a", "b", "c")
TEXTS = ("x", "y", "xy", "")
NAMES = ("get", "put", "query")
SERVICES = ("cart", "pay")
ARRAYS: tuple[list[Any], ...] = ([1, 2], ["x", "y"], [True, False], [0.25, 1.0], ["x"], [], [3, "x"])

Value = str | int | float | bool | list[Any]


@dataclass(frozen=True)
class PlainSpan:
    """Span of plain values. Times are milliseconds after `BASE`."""

    trace: int
    number: int
    parent: int | None
    start: int
    duration: int
    service: str = "cart"
    name: str = "get"
    kind: int = 1
    status: int = 0
    message: str = ""
    attributes: Mapping[str, Value] = field(default_factory=dict)
    resource: Mapping[str, Value] = field(default_factory=dict)
    scope: Mapping[str, Value] = field(default_factory=dict)
    scope_name: str = ""
    events: tuple[tuple[int, str, Mapping[str, Value]], ...] = ()
    links: tuple[tuple[int, int, Mapping[str, Value]], ...] = ()

    @property
    def start_ns(self) -> int:
        """Return the start in nanoseconds."""
        return BASE + self.start * MS


def trace_id(number: int) -> bytes:
    """Return the id of a trace."""
    return number.to_bytes(16, "big")


def span_id(number: int) -> bytes:
    """Return the id of a span."""
    return number.to_bytes(8, "big")


def to_value(value: Value) -> AnyValue:
    """Return a value of OTLP."""
    match value:
        case bool():
            return AnyValue(bool_value=value)
        case int():
            return AnyValue(int_value=value)
        case float():
            return AnyValue(double_value=value)
        case str():
            return AnyValue(string_value=value)
    return AnyValue(array_value=ArrayValue(values=[to_value(one) for one in value]))


def to_pairs(values: Mapping[str, Value]) -> list[KeyValue]:
    """Return attributes of OTLP."""
    return [KeyValue(key=key, value=to_value(one)) for key, one in values.items()]


def to_otlp(spans: Sequence[PlainSpan]) -> ExportTraceServiceRequest:
    """Return spans as a message, each in a group of its own."""
    return ExportTraceServiceRequest(
        resource_spans=[
            ResourceSpans(
                resource=Resource(attributes=to_pairs({"service.name": one.service, **one.resource})),
                scope_spans=[
                    ScopeSpans(
                        scope=InstrumentationScope(name=one.scope_name, attributes=to_pairs(one.scope)),
                        spans=[_to_span(one)],
                    )
                ],
            )
            for one in spans
        ]
    )


def _to_span(one: PlainSpan) -> Span:
    return Span(
        trace_id=trace_id(one.trace),
        span_id=span_id(one.number),
        parent_span_id=b"" if one.parent is None else span_id(one.parent),
        name=one.name,
        kind=one.kind,  # type: ignore[arg-type]  # an enumeration on the wire
        start_time_unix_nano=one.start_ns,
        end_time_unix_nano=one.start_ns + one.duration * MS,
        status=Status(code=one.status, message=one.message),  # type: ignore[arg-type]  # as above
        attributes=to_pairs(one.attributes),
        events=[
            Span.Event(time_unix_nano=one.start_ns + after * MS, name=name, attributes=to_pairs(pairs))
            for after, name, pairs in one.events
        ],
        links=[
            Span.Link(trace_id=trace_id(trace), span_id=span_id(span), attributes=to_pairs(pairs))
            for trace, span, pairs in one.links
        ],
    )


def open_spans(spans: Sequence[PlainSpan], **limits: Any) -> SpanReader:
    """Return a reader of spans. Its statements run on DuckDB, over the rows that the codec makes of the message."""
    connection = duckdb.connect()
    connection.execute("SET threads = 1; SET TimeZone = 'UTC'")
    connection.register("every", pa.Table.from_batches([decode_spans(spans)]))

    def run(sql: str, parameters: Sequence[Any], window: TimeWindow) -> pa.RecordBatchReader:
        given = zip((">=", "<"), window, strict=True)
        where = " AND ".join(f"timestamp {sign} '{one.isoformat()}'" for sign, one in given if one is not None)
        connection.execute(f"CREATE OR REPLACE TEMP VIEW spans AS SELECT * FROM every WHERE {where or 'true'}")
        return connection.execute(sql, list(parameters)).to_arrow_reader(1000)

    return SpanReader(run, **limits)


def decode_spans(spans: Sequence[PlainSpan]) -> pa.RecordBatch:
    """Return spans as rows of the lake."""
    decoded = decode(Signal.TRACES, [to_otlp(spans).SerializeToString()], Intake("acme", BASE + 10**12))
    assert decoded.rejected == ()
    return decoded.batch


def random_value(draw: Random) -> Value:
    """Return a value of an attribute. Floats are quarters, so that sums of them are exact."""
    match draw.randrange(8):
        case 0 | 1 | 2:
            return draw.choice(TEXTS)
        case 3 | 4:
            return draw.randint(-3, 5)
        case 5:
            return draw.randint(-8, 8) / 4
        case 6:
            return draw.random() < 0.5
    return draw.choice(ARRAYS)


def random_pairs(draw: Random, most: int) -> dict[str, Value]:
    """Return attributes with few names."""
    return {key: random_value(draw) for key in draw.sample(KEYS, draw.randint(0, most))}


@lru_cache(maxsize=256)
def random_spans(seed: int) -> tuple[PlainSpan, ...]:
    """Return spans of four traces: with missing parents, cycles, several roots and ids that occur twice."""
    draw = Random(seed)
    return tuple(one for trace in range(1, 5) for one in _random_trace(draw, trace))


def _random_trace(draw: Random, trace: int) -> Iterator[PlainSpan]:
    count = draw.randint(1, 8)
    starts = draw.sample(range(count), count)
    for index in range(count):
        above = draw.choice((None, draw.randint(1, max(index, 1)), draw.randint(1, max(index, 1)), draw.randint(1, 9)))
        yield PlainSpan(
            trace,
            index + 1 if draw.random() < 0.9 else max(index, 1),
            above,
            starts[index] * 10 + trace,
            draw.randint(0, 20),
            draw.choice(SERVICES),
            draw.choice(NAMES),
            draw.randint(0, 5),
            draw.randint(0, 2),
            draw.choice(TEXTS),
            random_pairs(draw, 2),
            random_pairs(draw, 1),
            random_pairs(draw, 1),
            draw.choice(("", "shop")),
            tuple((draw.randint(0, 3), draw.choice(NAMES), random_pairs(draw, 1)) for _ in range(draw.randint(0, 2))),
            tuple((draw.randint(1, 2), draw.randint(1, 3), random_pairs(draw, 1)) for _ in range(draw.randint(0, 2))),
        )


@lru_cache(maxsize=256)
def open_random(seed: int) -> SpanReader:
    """Return a reader of random spans, which many queries share."""
    return open_spans(random_spans(seed), spans_left=1 << 60, bytes_left=1 << 60)
