"""What a file is, told by its content where the name leaves it open."""

import re

import pyarrow as pa
from google.protobuf.message import DecodeError, Message
from google.protobuf.unknown_fields import UnknownFieldSet
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from neve.model.signals import Signal
from neve.otlp.envelope import open_messages

LOOK_AT_BYTES = 64 * 1024
LOOK_AT_RECORDS = 64
CLASSES: dict[Signal, type[Message]] = {Signal.TRACES: Span, Signal.LOGS: LogRecord, Signal.METRICS: Metric}
TOP_FIELDS = {"resourceSpans": Signal.TRACES, "resourceLogs": Signal.LOGS, "resourceMetrics": Signal.METRICS}
TOP = re.compile(rb'^\s*\{\s*"(resourceSpans|resourceLogs|resourceMetrics)"\s*:')


def is_otlp_json(data: bytes) -> bool:
    """Whether the first document begins as an OTLP message does."""
    return TOP.match(data[:LOOK_AT_BYTES]) is not None


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
    leftovers = {signal: _leftover(signal, messages.slice(0, 1)) for signal in Signal}
    fits = {signal: count for signal, count in leftovers.items() if count is not None}
    best = [signal for signal, count in fits.items() if count == min(fits.values())]
    return best[0] if len(best) == 1 else None


def _leftover(signal: Signal, message: pa.BinaryArray) -> int | None:
    """How many fields of some records are unknown when they are read as this signal's; nothing where they can't be."""
    try:
        records = open_messages(signal, message).records.slice(0, LOOK_AT_RECORDS).to_pylist()
        read = [CLASSES[signal].FromString(record) for record in records]
    except (ValueError, DecodeError):
        return None
    return sum(len(UnknownFieldSet(record)) for record in read) if read else None
