"""Batches of kept spans, and when two of them say the same."""

from typing import Any

import pyarrow as pa
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span

from neve.model.signals import Signal
from neve.otlp import Intake, decode
from tests.otlp.messages import MESSAGES
from tests.telemetry import NOW, SCOPE, resource

MAPS = ("attributes", "attribute_types", "resource_attrs", "resource_attr_types", "scope_attrs", "scope_attr_types")
READ_UNIX_NANO = NOW + 365 * 86_400 * 10**9  # after the spans of all tests: those of a later day are rejected
OF_THE_INTAKE = ("record_id", "ingested_at", "organization_id", "arrival_order", "dropped_repeats")


def decoded(*messages: bytes) -> pa.RecordBatch:
    """Messages as rows of the table `spans`."""
    result = decode(Signal.TRACES, list(messages), Intake("acme", READ_UNIX_NANO))
    assert not result.rejected, result.rejected
    return result.batch


def sorted_by_trace(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows as an export gets them."""
    return batch.take(pa.compute.sort_indices(batch, sort_keys=[("trace_id", "ascending")]))


def kept_traces(traces: int = 3, spans: int = 4) -> pa.RecordBatch:
    """Traces of several services, each of so many spans."""
    groups = []
    for place in range(spans):
        group = [
            Span(
                trace_id=(2**64 * 7 + trace + 1).to_bytes(16, "big"),
                span_id=(trace * spans + place + 1).to_bytes(8, "big"),
                parent_span_id=b"" if place == 0 else (trace * spans + place).to_bytes(8, "big"),
                name=f"step-{place}",
                kind=Span.SPAN_KIND_SERVER,
                start_time_unix_nano=NOW + place,
                end_time_unix_nano=NOW + place + 1000,
                attributes=[KeyValue(key="n", value=AnyValue(int_value=place))],
            )
            for trace in range(traces)
        ]
        scopes = [ScopeSpans(scope=SCOPE, spans=group)]
        groups.append(ResourceSpans(resource=resource(f"service-{place}"), scope_spans=scopes))
    return sorted_by_trace(decoded(ExportTraceServiceRequest(resource_spans=groups).SerializeToString()))


def spans_of(*messages: bytes) -> list[bytes]:
    """The ids of all spans in OTLP messages, in order."""
    return [
        span.span_id
        for message in messages
        for group in ExportTraceServiceRequest.FromString(message).resource_spans
        for scope in group.scope_spans
        for span in scope.spans
    ]


def rows(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """What a batch says, whatever the order of its rows and of the entries of its maps."""
    said = [_plain(row) for row in batch.drop_columns(list(OF_THE_INTAKE)).to_pylist()]
    return sorted(said, key=repr)


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    plain = dict(row)
    for name in MAPS:
        if plain.get(name) is not None:
            plain[name] = dict(sorted(plain[name]))
    for name in ("events", "links"):
        if plain.get(name):
            plain[name] = [_plain(item) for item in plain[name]]
    return plain


# Any batch that the wire can say.
any_batch = st.lists(MESSAGES[Signal.TRACES], min_size=1, max_size=2).map(
    lambda messages: sorted_by_trace(decoded(*(message.SerializeToString() for message in messages)))
)
