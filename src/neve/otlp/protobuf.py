"""Protobuf handlers for OTLP, and parsing of columns of messages.

Handlers are made from copies of the OTLP descriptors in which some messages are left as bytes. A field of type
message and a field of type bytes look the same on the wire, so a copy of the descriptors may stop at any depth.
Neve stops three times:

- at `AnyValue.array_value` and `kvlist_value`, because values are recursive and Arrow types are not;
- at the resource, the scope and the records of a message, so that each record keeps its own bytes: `record_id`
  hashes them, quarantine stores them, and a record that can't be parsed costs only itself;
- at the data points of a metric, for the same reason.

Parsing isolates malformed values: one malformed value costs only itself, and many cost only a little each.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError, Message
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2
from opentelemetry.proto.common.v1 import common_pb2
from opentelemetry.proto.logs.v1 import logs_pb2
from opentelemetry.proto.metrics.v1 import metrics_pb2
from opentelemetry.proto.resource.v1 import resource_pb2
from opentelemetry.proto.trace.v1 import trace_pb2
from ptars import HandlerPool

from neve.model.signals import Signal

MODULES = (
    common_pb2,
    resource_pb2,
    trace_pb2,
    logs_pb2,
    metrics_pb2,
    trace_service_pb2,
    logs_service_pb2,
    metrics_service_pb2,
)
MESSAGES = {
    Signal.TRACES: "collector.trace.v1.ExportTraceServiceRequest",
    Signal.LOGS: "collector.logs.v1.ExportLogsServiceRequest",
    Signal.METRICS: "collector.metrics.v1.ExportMetricsServiceRequest",
}
RECORDS = {Signal.TRACES: "trace.v1.Span", Signal.LOGS: "logs.v1.LogRecord", Signal.METRICS: "metrics.v1.Metric"}
POINTS = {
    "gauge": "metrics.v1.NumberDataPoint",
    "sum": "metrics.v1.NumberDataPoint",
    "histogram": "metrics.v1.HistogramDataPoint",
    "exponential_histogram": "metrics.v1.ExponentialHistogramDataPoint",
    "summary": "metrics.v1.SummaryDataPoint",
}

NESTED_VALUES = frozenset({("AnyValue", "array_value"), ("AnyValue", "kvlist_value")})
RECORD_BYTES = frozenset(
    {
        ("ResourceSpans", "resource"),
        ("ResourceLogs", "resource"),
        ("ResourceMetrics", "resource"),
        ("ScopeSpans", "scope"),
        ("ScopeLogs", "scope"),
        ("ScopeMetrics", "scope"),
        ("ScopeSpans", "spans"),
        ("ScopeLogs", "log_records"),
        ("ScopeMetrics", "metrics"),
        ("Gauge", "data_points"),
        ("Sum", "data_points"),
        ("Histogram", "data_points"),
        ("ExponentialHistogram", "data_points"),
        ("Summary", "data_points"),
    }
)
# Indexes into a dictionary that only the profiles signal has.
PROFILES_ONLY = frozenset({("AnyValue", "string_value_strindex"), ("KeyValue", "key_strindex")})

Field = tuple[str, str]


class Handler(Protocol):
    """Converter of protobuf messages to Arrow rows and back."""

    def schema(self) -> pa.Schema:
        """Return the Arrow schema of the message."""
        ...

    def array_to_record_batch(self, array: pa.Array) -> pa.RecordBatch:
        """Decode one message a value."""
        ...

    def record_batch_to_array(self, batch: pa.RecordBatch) -> pa.Array:
        """Encode one message a row."""
        ...


class ReaderPanic(ValueError):
    """Raised when the reader into Arrow panics instead of reporting an error."""


def read_messages(wire: Handler, column: pa.BinaryArray) -> pa.RecordBatch:
    """Decode one message a value; raises `ValueError` if one of them is malformed.

    The reader panics on a length near 2**64. The raised object is no `Exception`, so that no handler would catch it.
    """
    try:
        return wire.array_to_record_batch(column)
    except BaseException as error:
        if type(error).__name__ == "PanicException":
            raise ReaderPanic(f"the reader failed: {error}") from None
        raise


@cache
def handler(name: str, *, whole: bool = False) -> Handler:
    """Return the handler of an OTLP message; `whole` decodes records in place instead of leaving them as bytes."""
    pool, handlers = _pools(whole)
    found: Handler = handlers.get_for_message(pool.FindMessageTypeByName(f"opentelemetry.proto.{name}"))
    return found


@cache
def message_class(name: str, *, whole: bool = False) -> type[Message]:
    """Return the Python class of an OTLP message that leaves the same fields as bytes as its handler."""
    pool, _handlers = _pools(whole)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"opentelemetry.proto.{name}"))


@cache
def _pools(whole: bool) -> tuple[descriptor_pool.DescriptorPool, HandlerPool]:
    opaque = NESTED_VALUES if whole else NESTED_VALUES | RECORD_BYTES
    pool = descriptor_pool.DescriptorPool()
    for module in MODULES:
        file = descriptor_pb2.FileDescriptorProto()
        module.DESCRIPTOR.CopyToProto(file)
        for message in file.message_type:
            _rewrite(message, opaque)
        pool.Add(file)
    services = (module.DESCRIPTOR.name for module in MODULES[-3:])
    return pool, HandlerPool([pool.FindFileByName(name) for name in services])


def _rewrite(message: descriptor_pb2.DescriptorProto, opaque: frozenset[Field]) -> None:
    fields = [field for field in message.field if (message.name, field.name) not in PROFILES_ONLY]
    del message.field[:]
    message.field.extend(fields)
    for field in message.field:
        if (message.name, field.name) in opaque:
            _leave_as_bytes(message, field)
    for nested in message.nested_type:
        _rewrite(nested, opaque)


def _leave_as_bytes(message: descriptor_pb2.DescriptorProto, field: descriptor_pb2.FieldDescriptorProto) -> None:
    field.type = descriptor_pb2.FieldDescriptorProto.TYPE_BYTES
    field.ClearField("type_name")
    repeated = field.label == descriptor_pb2.FieldDescriptorProto.LABEL_REPEATED
    if not repeated and not field.HasField("oneof_index"):
        # A message field records whether it was sent. Plain bytes don't, but an optional field does.
        field.proto3_optional = True
        field.oneof_index = len(message.oneof_decl)
        message.oneof_decl.add(name=f"_{field.name}")


Indices = npt.NDArray[np.int64]

# The reader into Arrow recurses into groups, which no OTLP message has. A hundred thousand of them crash the process. A
# group takes at least a byte: up to this size a value can't hold enough of them.
SAFE_BYTES = 16 * 1024
FEW = 64  # malformed values that are found by bisection


@dataclass(frozen=True)
class Parsed:
    """Rows that could be parsed, their places, and the errors of the others."""

    batch: pa.RecordBatch
    index: Indices
    malformed: dict[int, str]


def parse_messages(name: str, column: pa.BinaryArray) -> Parsed:
    """Decode all valid values as the OTLP message `name`."""
    bad = find_unsafe(message_class(name), column)
    good = other_rows(len(column), bad)
    rest = column.take(pa.array(good)) if bad else column
    try:
        return Parsed(read_messages(handler(name), rest), good, bad)
    except ValueError:
        found = find_malformed(name, rest)
    bad |= {int(good[row]): detail for row, detail in found.items()}
    good = other_rows(len(column), bad)
    return Parsed(read_messages(handler(name), column.take(pa.array(good))), good, bad)


def find_unsafe(kind: type[Message], column: pa.BinaryArray) -> dict[int, str]:
    """Return long values, which may crash the reader into Arrow, that protobuf's own reader refuses."""
    lengths = pc.binary_length(column).fill_null(0).to_numpy(zero_copy_only=False)
    return find_refused(kind, column, np.flatnonzero(lengths > SAFE_BYTES).tolist())


def find_malformed(name: str, column: pa.BinaryArray) -> dict[int, str]:
    """Return the values that can't be decoded, with the reasons; none may be too long to be safe.

    A few among many are found by bisection. An attempt takes as long as a hundred values. Many are therefore found by
    protobuf's own reader, one by one. The two readers agree except for oddities of which protobuf's refuses more, like
    tags of more than five bytes.
    """
    few = _halve(name, column)
    if few is not None:
        return few
    bad = find_refused(message_class(name), column, range(len(column)))
    good = other_rows(len(column), bad)
    try:
        read_messages(handler(name), column.take(pa.array(good)))
    except ValueError:  # the two readers disagree in an unknown case
        bad |= _refused_by_reader(name, column, good.tolist())
    return bad


def other_rows(count: int, rows: Iterable[int]) -> Indices:
    """Return the rows below `count` that are not among these."""
    keep = np.ones(count, dtype=np.bool_)
    keep[list(rows)] = False
    return np.flatnonzero(keep)


def _halve(name: str, column: pa.BinaryArray) -> dict[int, str] | None:
    """Return the malformed values, or None if they are many or the reader does not report the error."""
    bad: dict[int, str] = {}
    waiting = [(0, len(column))]
    while waiting and len(bad) <= FEW:
        start, size = waiting.pop()
        try:
            read_messages(handler(name), column.slice(start, size))
        except ReaderPanic:
            return None  # each panic is written to the log of the process, so it must not repeat
        except ValueError as error:
            if size == 1:
                bad[start] = str(error)
            else:
                waiting += [(start + size // 2, size - size // 2), (start, size // 2)]
    return bad if len(bad) <= FEW else None


def find_refused(kind: type[Message], column: pa.BinaryArray, rows: Iterable[int]) -> dict[int, str]:
    """Return the rows that protobuf's own reader can't read; it has a limit for everything that is nested."""
    bad: dict[int, str] = {}
    for row in rows:
        try:
            kind.FromString(column[row].as_py() or b"")
        except DecodeError as error:
            bad[row] = str(error)
    return bad


def _refused_by_reader(name: str, column: pa.BinaryArray, rows: Iterable[int]) -> dict[int, str]:
    bad: dict[int, str] = {}
    for row in rows:
        try:
            read_messages(handler(name), column.slice(row, 1))
        except ValueError as error:
            bad[row] = str(error)
    return bad
