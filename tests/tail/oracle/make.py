"""The traces on which the collector and Neve are compared."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from tests.tail.oracle.chance import chance, ids
from tests.tail.oracle.edges import edges
from tests.tail.oracle.values import message

if TYPE_CHECKING:
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

BY_CHANCE = 260


@cache
def messages() -> tuple[ExportTraceServiceRequest, ...]:
    """Return one message for each trace: those made by hand, then those made by chance; the same at every call."""
    traces = [*edges(), *chance(BY_CHANCE)]
    return tuple(message(each, *trace) for each, trace in zip(ids(len(traces)), traces, strict=True))


def frames() -> bytes:
    """Return all messages as one stream, each after its length in four bytes."""
    sent = (each.SerializeToString(deterministic=True) for each in messages())
    return b"".join(len(each).to_bytes(4, "big") + each for each in sent)
