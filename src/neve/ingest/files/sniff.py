"""What a file is, told by its content where the name leaves it open."""

import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pyarrow as pa
from google.protobuf.message import DecodeError, Message
from google.protobuf.unknown_fields import UnknownFieldSet
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from neve.model.signals import Signal
from neve.otlp.envelope import NAMES
from neve.otlp.wire import MESSAGES, message_class

LOOK_AT_BYTES = 64 * 1024
LOOK_AT_RECORDS = 64
CLASSES: dict[Signal, type[Message]] = {Signal.TRACES: Span, Signal.LOGS: LogRecord, Signal.METRICS: Metric}
TOP_FIELDS = {"resourceSpans": Signal.TRACES, "resourceLogs": Signal.LOGS, "resourceMetrics": Signal.METRICS}
# A field of the document itself: nothing opens between the document and it.
TOP = re.compile(rb'\s*\{[^{}\[\]]*"(resourceSpans|resourceLogs|resourceMetrics)"\s*:')


def is_otlp_json(data: bytes) -> bool:
    """Whether one of the first documents is an OTLP message; a spoilt first line does not decide."""
    head = data[:LOOK_AT_BYTES]
    return TOP.match(head) is not None or any(TOP.match(line) for line in head.splitlines())


def json_signals(data: bytes) -> set[Signal]:
    """The signals that an OTLP JSON text speaks of."""
    return {signal for field, signal in TOP_FIELDS.items() if f'"{field}"'.encode() in data}


def json_signal(line: bytes) -> Signal | None:
    """The signal of one OTLP JSON document."""
    match = TOP.match(line[:LOOK_AT_BYTES])
    return TOP_FIELDS[match[1].decode()] if match else None


def proto_signal(messages: pa.BinaryArray) -> Signal | None:
    """The signal that the first message's records fit best; nothing where none or several do.

    A parser passes over fields that it does not know, so a log record can be read as a span; but then it leaves fields
    over. The right reading leaves the fewest.
    """
    if len(messages) == 0:
        return None
    first = messages[0].as_py()
    leftovers = {signal: _leftover(signal, first) for signal in Signal}
    fits = {signal: count for signal, count in leftovers.items() if count is not None}
    best = [signal for signal, count in fits.items() if count == min(fits.values())]
    return best[0] if len(best) == 1 else None


def _leftover(signal: Signal, message: bytes) -> int | None:
    """How many fields of some records are unknown when they are read as this signal's; nothing where they can't be."""
    try:
        read = [CLASSES[signal].FromString(record) for record in islice(_records(signal, message), LOOK_AT_RECORDS)]
    except DecodeError:
        return None
    return sum(len(UnknownFieldSet(record)) for record in read) if read else None


def _records(signal: Signal, message: bytes) -> Iterator[bytes]:
    """The bytes of a message's records, one by one."""
    resources, scopes, records = NAMES[signal]
    opened: Any = message_class(MESSAGES[signal]).FromString(message)
    for resource in getattr(opened, resources):
        for scope in getattr(resource, scopes):
            yield from getattr(scope, records)
