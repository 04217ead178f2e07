"""Handlers for OTLP of which most fields were taken away: a parser steps over what it does not know.

What is left is what decides whether ingestion refuses a record, so that a receiver can count those at a fraction of
the cost of decoding. Fields are only ever left out: what these handlers can't parse, the full ones can't either.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from ptars import HandlerPool

from neve.otlp.wire import MODULES, POINTS, Handler

if TYPE_CHECKING:
    from collections.abc import Iterator

    from google.protobuf.message import Message

KINDS = tuple(POINTS)
TIME = frozenset({"time_unix_nano"})
GROUP = frozenset({"resource", "scope_spans", "scope_logs", "scope_metrics", "schema_url"})
SCOPE = frozenset({"scope", "spans", "log_records", "metrics", "schema_url"})
KEPT: dict[str, frozenset[str]] = {
    **dict.fromkeys(("ResourceSpans", "ResourceLogs", "ResourceMetrics"), GROUP),
    **dict.fromkeys(("ScopeSpans", "ScopeLogs", "ScopeMetrics"), SCOPE),
    "Span": frozenset({"trace_id", "span_id", "start_time_unix_nano"}),
    "LogRecord": frozenset({"time_unix_nano", "observed_time_unix_nano"}),
    "Metric": frozenset({"name", *KINDS}),
    **dict.fromkeys(("Gauge", "Sum", "Histogram", "ExponentialHistogram", "Summary"), frozenset({"data_points"})),
    **{name.rpartition(".")[2]: TIME for name in POINTS.values()},
}
# Left as bytes: what a group shares is not looked at here.
OPAQUE = frozenset({"resource", "scope"})
PARTED = OPAQUE | {"spans", "log_records", "metrics", "data_points"}


@cache
def reduced(name: str, *, parted: bool = False) -> Handler:
    """The handler for a reduced message; `parted` leaves records and points as bytes, to parse each for itself."""
    pool, handlers = _pools(parted)
    found: Handler = handlers.get_for_message(pool.FindMessageTypeByName(f"opentelemetry.proto.{name}"))
    return found


@cache
def reduced_class(name: str, *, parted: bool = False) -> type[Message]:
    """The Python class of a reduced message: protobuf's own reader knows bounds that the handlers don't."""
    pool, _handlers = _pools(parted)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"opentelemetry.proto.{name}"))


@cache
def _pools(parted: bool) -> tuple[descriptor_pool.DescriptorPool, HandlerPool]:
    opaque = PARTED if parted else OPAQUE
    pool = descriptor_pool.DescriptorPool()
    for module in MODULES:
        file = descriptor_pb2.FileDescriptorProto()
        module.DESCRIPTOR.CopyToProto(file)
        for message in file.message_type:
            if message.name in KEPT:
                _reduce(message, opaque)
        pool.Add(file)
    services = (module.DESCRIPTOR.name for module in MODULES[-3:])
    return pool, HandlerPool([pool.FindFileByName(name) for name in services])


def _reduce(message: descriptor_pb2.DescriptorProto, opaque: frozenset[str]) -> None:
    kept = list(_kept(message, opaque))
    oneofs = sorted({field.oneof_index for field in kept if field.HasField("oneof_index")})
    declared = [message.oneof_decl[index] for index in oneofs]
    for field in kept:
        if field.HasField("oneof_index"):
            field.oneof_index = oneofs.index(field.oneof_index)
    del message.nested_type[:]
    del message.field[:]
    del message.oneof_decl[:]
    message.oneof_decl.extend(declared)
    message.field.extend(kept)


def _kept(
    message: descriptor_pb2.DescriptorProto, opaque: frozenset[str]
) -> Iterator[descriptor_pb2.FieldDescriptorProto]:
    for field in message.field:
        if field.name not in KEPT[message.name]:
            continue
        kept = descriptor_pb2.FieldDescriptorProto()
        kept.CopyFrom(field)
        if field.name in opaque:
            kept.type = descriptor_pb2.FieldDescriptorProto.TYPE_BYTES
            kept.ClearField("type_name")
        yield kept
