"""Protobuf handlers for OTLP, made from copies of its descriptors in which some messages are left as bytes.

A field of type message and a field of type bytes look the same on the wire, so a copy of the descriptors may stop at
any depth. Neve stops three times:

- at `AnyValue.array_value` and `kvlist_value`, because values are recursive and Arrow types are not;
- at the resource, the scope and the records of a message, so that each record keeps its own bytes: they are what
  `record_id` hashes and what quarantine stores, and a record that can't be parsed costs only itself;
- at the data points of a metric, for the same reason.
"""

from functools import cache
from typing import Protocol

import pyarrow as pa
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import Message
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
    """Turns protobuf messages into Arrow rows and back."""

    def schema(self) -> pa.Schema:
        """The Arrow schema of the message."""
        ...

    def array_to_record_batch(self, array: pa.Array) -> pa.RecordBatch:
        """Decode one message a value."""
        ...

    def record_batch_to_array(self, batch: pa.RecordBatch) -> pa.Array:
        """Encode one message a row."""
        ...


class ReaderPanic(ValueError):
    """Raised when the reader into Arrow gives up instead of saying what is wrong."""


def read(wire: Handler, column: pa.BinaryArray) -> pa.RecordBatch:
    """Decode one message a value; raises `ValueError` when one of them is malformed.

    The reader panics on a length near 2**64. What that raises is no `Exception`, so that it would pass every net.
    """
    try:
        return wire.array_to_record_batch(column)
    except BaseException as error:
        if type(error).__name__ == "PanicException":
            raise ReaderPanic(f"the reader gave up: {error}") from None
        raise


@cache
def handler(name: str, *, whole: bool = False) -> Handler:
    """The handler for an OTLP message; `whole` decodes records in place instead of leaving them as bytes."""
    pool, handlers = _pools(whole)
    found: Handler = handlers.get_for_message(pool.FindMessageTypeByName(f"opentelemetry.proto.{name}"))
    return found


@cache
def message_class(name: str, *, whole: bool = False) -> type[Message]:
    """The Python class of an OTLP message that leaves as bytes what its handler does."""
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
    kept = [field for field in message.field if (message.name, field.name) not in PROFILES_ONLY]
    del message.field[:]
    message.field.extend(kept)
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
        # A message knows whether it was sent; plain bytes don't. An optional field does.
        field.proto3_optional = True
        field.oneof_index = len(message.oneof_decl)
        message.oneof_decl.add(name=f"_{field.name}")
