"""Detect the format, compression and signal of a file, by its name and, where that leaves it open, by its content."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
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
from neve.otlp.protobuf import MESSAGES, message_class


class Format(StrEnum):
    """Record format of a file."""

    OTLP_PROTO = "otlp_proto"
    OTLP_JSON = "otlp_json"
    JSON_LINES = "json_lines"
    CSV = "csv"
    PARQUET = "parquet"
    LOG = "log"  # plain lines; the first of them show the format
    SYSLOG_3164 = "syslog_3164"
    SYSLOG_5424 = "syslog_5424"
    ACCESS_COMMON = "access_common"
    ACCESS_COMBINED = "access_combined"
    APACHE_ERROR = "apache_error"
    LOGBACK = "logback"
    CRI = "cri"
    JOURNALD = "journald"
    WINDOWS_EVENTS = "windows_events"


class Compression(StrEnum):
    """Compression of a file."""

    NONE = "none"
    GZIP = "gzip"
    ZSTD = "zstd"


EXTENSIONS = {
    ".binpb": Format.OTLP_PROTO,
    ".pb": Format.OTLP_PROTO,
    ".json": Format.OTLP_JSON,
    ".jsonl": Format.JSON_LINES,
    ".ndjson": Format.JSON_LINES,
    ".csv": Format.CSV,
    ".parquet": Format.PARQUET,
    ".log": Format.LOG,
}
COMPRESSIONS = {".gz": Compression.GZIP, ".zst": Compression.ZSTD}
HINTS = (
    (Signal.TRACES, re.compile(r"(?<![a-z])(traces?|spans?)(?![a-z])")),
    (Signal.METRICS, re.compile(r"(?<![a-z])metrics?(?![a-z])")),
    (Signal.LOGS, re.compile(r"(?<![a-z])(logs?|events?)(?![a-z])")),
)


@dataclass(frozen=True)
class NameHints:
    """Properties in a file's name. The content distinguishes the two kinds of JSON."""

    format: Format | None
    compression: Compression


def read_name(path: str) -> NameHints:
    """Return the format and compression by the extensions of a name.

    >>> read_name("a/spans.otlp.jsonl.gz")
    NameHints(format=<Format.JSON_LINES: 'json_lines'>, compression=<Compression.GZIP: 'gzip'>)
    """
    name = path.rsplit("/", 1)[-1].lower()
    compression = Compression.NONE
    for ending, packed in COMPRESSIONS.items():
        if name.endswith(ending):
            name, compression = name.removesuffix(ending), packed
    form = next((form for ending, form in EXTENSIONS.items() if name.endswith(ending)), None)
    return NameHints(form, compression)


def guess_signal(path: str) -> Signal | None:
    """Return the signal in a file's name, or else in the name of its folder.

    Higher folders do not count: a project that is called logs may contain traces.

    >>> guess_signal("logs/traces-01.binpb"), guess_signal("logs/01.pb"), guess_signal("logs/2026/01.pb")
    (<Signal.TRACES: 'traces'>, <Signal.LOGS: 'logs'>, None)
    """
    for part in reversed(path.lower().split("/")[-2:]):
        for signal, pattern in HINTS:
            if pattern.search(part):
                return signal
    return None


LOOK_AT_BYTES = 64 * 1024
LOOK_AT_RECORDS = 64
RECORD_CLASSES: dict[Signal, type[Message]] = {Signal.TRACES: Span, Signal.LOGS: LogRecord, Signal.METRICS: Metric}
TOP_FIELDS = {"resourceSpans": Signal.TRACES, "resourceLogs": Signal.LOGS, "resourceMetrics": Signal.METRICS}
# A top-level field of the document: no bracket opens between the document and the field.
TOP_FIELD = re.compile(rb'\s*\{[^{}\[\]]*"(resourceSpans|resourceLogs|resourceMetrics)"\s*:')


def is_otlp_json(data: bytes) -> bool:
    """Return whether one of the first documents is an OTLP message. A damaged first line does not decide."""
    head = data[:LOOK_AT_BYTES]
    return TOP_FIELD.match(head) is not None or any(TOP_FIELD.match(line) for line in head.splitlines())


def find_json_signals(data: bytes) -> set[Signal]:
    """Return the signals in an OTLP JSON text."""
    return {signal for field, signal in TOP_FIELDS.items() if f'"{field}"'.encode() in data}


def find_json_signal(line: bytes) -> Signal | None:
    """Return the signal of one OTLP JSON document."""
    match = TOP_FIELD.match(line[:LOOK_AT_BYTES])
    return TOP_FIELDS[match[1].decode()] if match else None


def find_proto_signal(messages: pa.BinaryArray) -> Signal | None:
    """Return the signal that fits the records of the first message best, or nothing if none or several do.

    A parser skips unknown fields, so a log record can be parsed as a span, but then fields are left over. The right
    signal leaves the fewest.
    """
    if len(messages) == 0:
        return None
    first = messages[0].as_py()
    leftovers = {signal: _count_unknown_fields(signal, first) for signal in Signal}
    fits = {signal: count for signal, count in leftovers.items() if count is not None}
    best = [signal for signal, count in fits.items() if count == min(fits.values())]
    return best[0] if len(best) == 1 else None


def _count_unknown_fields(signal: Signal, message: bytes) -> int | None:
    """Count unknown fields when some records are parsed as this signal. Return nothing if they can't be parsed."""
    try:
        read = [
            RECORD_CLASSES[signal].FromString(record)
            for record in islice(_iterate_records(signal, message), LOOK_AT_RECORDS)
        ]
    except DecodeError:
        return None
    return sum(len(UnknownFieldSet(record)) for record in read) if read else None


def _iterate_records(signal: Signal, message: bytes) -> Iterator[bytes]:
    """Yield the bytes of each record of a message."""
    resources, scopes, records = NAMES[signal]
    opened: Any = message_class(MESSAGES[signal]).FromString(message)
    for resource in getattr(opened, resources):
        for scope in getattr(resource, scopes):
            yield from getattr(scope, records)
