"""Traces whose spans arrive in any order, in several messages, some of them more than once."""

from __future__ import annotations

import hashlib
import itertools
from functools import cache
from random import Random
from typing import TYPE_CHECKING

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span

from tests.tail.oracle import recording
from tests.tail.oracle.cases import HERE, Case, read_cases
from tests.tail.oracle.values import MILLISECOND, START, pairs

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

POLICIES = HERE / "order.yaml"
DECISIONS = HERE / "order_decisions.json"
SEED = 21
TRACES, MESSAGES = 300, 120
REPEATED = 0.15  # spans that arrive more than once


def cases() -> list[Case]:
    """Return the cases for these traces."""
    return read_cases(POLICIES)


@cache
def messages() -> tuple[bytes, ...]:
    """Return the messages in the order of arrival; the same at every call."""
    random = Random(SEED)
    lots: list[list[Span]] = [[] for _ in range(MESSAGES)]
    for number in range(TRACES):
        for span in _trace(random, number):
            lots[random.randrange(MESSAGES)].append(span)
            while random.random() < REPEATED:
                lots[random.randrange(MESSAGES)].append(span)
    for lot in lots:
        random.shuffle(lot)
    return tuple(_message(random, lot).SerializeToString(deterministic=True) for lot in lots if lot)


def build_message(spans: Sequence[tuple[int, int, int, int]]) -> bytes:
    """Return a message of some spans: the number of each, that of its trace, its start and its length in ms."""
    some = [
        _span((trace + 1).to_bytes(16, "big"), place, start * MILLISECOND, (start + length) * MILLISECOND)
        for place, trace, start, length in spans
    ]
    return _message(Random(0), some).SerializeToString(deterministic=True)


def frames() -> bytes:
    """Return all messages as one stream, each after its length in four bytes."""
    return b"".join(len(each).to_bytes(4, "big") + each for each in messages())


def digest() -> str:
    """Return what tells these messages from others."""
    return hashlib.sha256(frames()).hexdigest()


@cache
def trace_ids() -> list[str]:
    """Return the ids of the traces in hex, by first appearance."""
    return list(dict.fromkeys(span.trace_id.hex() for message in messages() for span in _spans(message)))


@cache
def decisions() -> recording.Recording:
    """Return all that the collector said of these traces."""
    return recording.read(DECISIONS, trace_ids())


def count_repeats() -> int:
    """Return the number of spans that are in the messages again."""
    sent = [span.SerializeToString(deterministic=True) for message in messages() for span in _spans(message)]
    return len(sent) - len(set(sent))


def _spans(message: bytes) -> Iterator[Span]:
    for group in ExportTraceServiceRequest.FromString(message).resource_spans:
        for scope in group.scope_spans:
            yield from scope.spans


def _trace(random: Random, number: int) -> list[Span]:
    """Return the spans of a trace: calls within calls, of one to twelve spans."""
    trace_id = Random(f"{SEED} {number}").randbytes(16)
    longest = random.choice((10, 60, 110, 250, 500)) * MILLISECOND
    spans = []
    for place in range(random.choice((1, 2, 3, 4, 5, 6, 8, 12))):
        start = random.randrange(longest) if place else 0
        end = start + random.randrange(longest - start + 1)
        spans.append(_span(trace_id, place, start, longest if place == 0 else end))
    return spans


def _span(trace_id: bytes, place: int, start: int, end: int) -> Span:
    return Span(
        trace_id=trace_id,
        span_id=(place + 1).to_bytes(8, "big"),
        parent_span_id=b"" if place == 0 else (1).to_bytes(8, "big"),
        name=f"call {place}",
        start_time_unix_nano=START + start,
        end_time_unix_nano=START + end,
        attributes=pairs({"place": place}),
    )


def _message(random: Random, spans: Sequence[Span]) -> ExportTraceServiceRequest:
    """Return a message of one to three resources, in which the spans keep their order."""
    cuts = sorted({0, len(spans), *(random.randrange(len(spans)) for _ in range(random.randrange(3)))})
    resource = Resource(attributes=pairs({"service.name": "shop"}))
    scope = InstrumentationScope(name="lib")
    groups = [
        ResourceSpans(resource=resource, scope_spans=[ScopeSpans(scope=scope, spans=spans[low:high])])
        for low, high in itertools.pairwise(cuts)
    ]
    return ExportTraceServiceRequest(resource_spans=groups)
