"""The baseline of decoding: parse messages with protobuf's own classes and walk them in Python, to the same columns."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import xxhash
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from neve.model.signals import Signal
from neve.model.tables import BY_SIGNAL
from neve.otlp.values import render_array, render_map

if TYPE_CHECKING:
    from collections.abc import Iterable

    from neve.otlp import Intake

Row = dict[str, Any]
Pairs = list[tuple[str, str | None]]


def walk(signal: Signal, messages: Iterable[bytes], intake: Intake) -> pa.RecordBatch:
    """One batch of the signal's table."""
    rows = [row for message in messages for row in _WALKERS[signal](message)]
    schema = BY_SIGNAL[signal].schema
    own = {"organization_id": intake.organization_id, "ingested_at": intake.received_unix_nano // 1000}
    columns = [pa.array([own.get(field.name, row.get(field.name)) for row in rows], field.type) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _attributes(entries: Any) -> tuple[Pairs, Pairs]:
    texts: dict[str, str | None] = {}
    types: dict[str, str] = {}
    for entry in entries:
        text, kind = _value(entry.value)
        texts[entry.key] = text
        if kind:
            types[entry.key] = kind
    return list(texts.items()), list(types.items())


def _value(value: Any) -> tuple[str | None, str | None]:  # noqa: PLR0911 - one for each type
    match value.WhichOneof("value"):
        case "string_value":
            return value.string_value, None
        case "int_value":
            return str(value.int_value), "int"
        case "double_value":
            return repr(value.double_value), "double"
        case "bool_value":
            return str(value.bool_value).lower(), "bool"
        case "bytes_value":
            return base64.b64encode(value.bytes_value).decode(), "bytes"
        case "array_value":
            return render_array(value.array_value.SerializeToString())
        case "kvlist_value":
            return render_map(value.kvlist_value.SerializeToString())
    return None, "empty"


def _context(resource: Any, scope: Any) -> Row:
    resource_attrs, resource_types = _attributes(resource.resource.attributes)
    scope_attrs, scope_types = _attributes(scope.scope.attributes)
    return {
        "service_name": dict(resource_attrs).get("service.name"),
        "resource_attrs": resource_attrs,
        "resource_attr_types": resource_types,
        "resource_dropped_attributes_count": resource.resource.dropped_attributes_count,
        "resource_entity_refs": [],
        "resource_schema_url": resource.schema_url or None,
        "scope_name": scope.scope.name,
        "scope_version": scope.scope.version or None,
        "scope_attrs": scope_attrs,
        "scope_attr_types": scope_types,
        "scope_dropped_attributes_count": scope.scope.dropped_attributes_count,
        "scope_schema_url": scope.schema_url or None,
    }


def _spans(message: bytes) -> Iterable[Row]:
    for resource in ExportTraceServiceRequest.FromString(message).resource_spans:
        for scope in resource.scope_spans:
            context = _context(resource, scope)
            for span in scope.spans:
                yield context | _span(span)


def _span(span: Any) -> Row:
    attributes, types = _attributes(span.attributes)
    return {
        "timestamp": span.start_time_unix_nano // 1000,
        "trace_id": span.trace_id,
        "span_id": span.span_id,
        "parent_span_id": span.parent_span_id or None,
        "operation_name": span.name,
        "span_kind": span.kind,
        "status_code": span.status.code,
        "duration_ms": (span.end_time_unix_nano - span.start_time_unix_nano) / 1e6,
        "start_time_unix_nano": span.start_time_unix_nano,
        "end_time_unix_nano": span.end_time_unix_nano,
        "status_message": span.status.message,
        "trace_state": span.trace_state or None,
        "flags": span.flags,
        "attributes": attributes,
        "attribute_types": types,
        "dropped_attributes_count": span.dropped_attributes_count,
        "events": [_event(event) for event in span.events],
        "dropped_events_count": span.dropped_events_count,
        "links": [_link(link) for link in span.links],
        "dropped_links_count": span.dropped_links_count,
        "record_id": xxhash.xxh3_128_digest(span.SerializeToString()),
    }


def _event(event: Any) -> Row:
    attributes, types = _attributes(event.attributes)
    return {
        "time_unix_nano": event.time_unix_nano,
        "name": event.name,
        "attributes": attributes,
        "attribute_types": types,
        "dropped_attributes_count": event.dropped_attributes_count,
    }


def _link(link: Any) -> Row:
    attributes, types = _attributes(link.attributes)
    return {
        "trace_id": link.trace_id,
        "span_id": link.span_id,
        "trace_state": link.trace_state or None,
        "attributes": attributes,
        "attribute_types": types,
        "dropped_attributes_count": link.dropped_attributes_count,
        "flags": link.flags,
    }


def _logs(message: bytes) -> Iterable[Row]:
    for resource in ExportLogsServiceRequest.FromString(message).resource_logs:
        for scope in resource.scope_logs:
            context = _context(resource, scope)
            for record in scope.log_records:
                yield context | _log(record)


def _log(record: Any) -> Row:
    attributes, types = _attributes(record.attributes)
    text, kind = _value(record.body)
    return {
        "timestamp": (record.time_unix_nano or record.observed_time_unix_nano) // 1000,
        "severity_number": record.severity_number,
        "severity_text": record.severity_text or None,
        "message": text,
        "trace_id": record.trace_id or None,
        "span_id": record.span_id or None,
        "event_name": record.event_name or None,
        "time_unix_nano": record.time_unix_nano,
        "observed_time_unix_nano": record.observed_time_unix_nano,
        "body_type": kind,
        "flags": record.flags,
        "attributes": attributes,
        "attribute_types": types,
        "dropped_attributes_count": record.dropped_attributes_count,
        "record_id": xxhash.xxh3_128_digest(record.SerializeToString()),
    }


def _points(message: bytes) -> Iterable[Row]:
    for resource in ExportMetricsServiceRequest.FromString(message).resource_metrics:
        for scope in resource.scope_metrics:
            context = _context(resource, scope)
            for metric in scope.metrics:
                kind = str(metric.WhichOneof("data"))
                data = getattr(metric, kind)
                shared = context | _metric(metric, kind, data)
                for point in data.data_points:
                    yield shared | _point(kind, point)


def _metric(metric: Any, kind: str, data: Any) -> Row:
    metadata, types = _attributes(metric.metadata)
    return {
        "metric_name": metric.name,
        "metric_type": kind,
        "unit": metric.unit or None,
        "description": metric.description or None,
        "metadata": metadata,
        "metadata_types": types,
        "aggregation_temporality": getattr(data, "aggregation_temporality", None),
        "is_monotonic": getattr(data, "is_monotonic", None),
    }


def _point(kind: str, point: Any) -> Row:
    attributes, types = _attributes(point.attributes)
    row = {
        "timestamp": point.time_unix_nano // 1000,
        "time_unix_nano": point.time_unix_nano,
        "start_time_unix_nano": point.start_time_unix_nano,
        "flags": point.flags,
        "attributes": attributes,
        "attribute_types": types,
        "record_id": xxhash.xxh3_128_digest(point.SerializeToString()),
    }
    if kind in ("gauge", "sum"):
        is_int = point.HasField("as_int")
        row |= {
            "value": float(point.as_int) if is_int else point.as_double,
            "value_int": point.as_int if is_int else None,
        }
    else:
        row |= {"count": point.count, "sum": point.sum}
    if kind == "histogram":
        row |= {"bucket_counts": list(point.bucket_counts), "explicit_bounds": list(point.explicit_bounds)}
    if kind in ("histogram", "exponential_histogram"):
        row |= {"min": point.min, "max": point.max}
    if kind == "exponential_histogram":
        row |= {"scale": point.scale, "zero_count": point.zero_count, "zero_threshold": point.zero_threshold}
        row |= {"positive": _buckets(point.positive), "negative": _buckets(point.negative)}
    if kind == "summary":
        row["quantile_values"] = [{"quantile": q.quantile, "value": q.value} for q in point.quantile_values]
    else:
        row["exemplars"] = [_exemplar(exemplar) for exemplar in point.exemplars]
    return row


def _buckets(buckets: Any) -> Row:
    return {"offset": buckets.offset, "bucket_counts": list(buckets.bucket_counts)}


def _exemplar(exemplar: Any) -> Row:
    attributes, types = _attributes(exemplar.filtered_attributes)
    is_int = exemplar.HasField("as_int")
    return {
        "time_unix_nano": exemplar.time_unix_nano,
        "value": float(exemplar.as_int) if is_int else exemplar.as_double,
        "value_int": exemplar.as_int if is_int else None,
        "trace_id": exemplar.trace_id or None,
        "span_id": exemplar.span_id or None,
        "attributes": attributes,
        "attribute_types": types,
    }


_WALKERS = {Signal.TRACES: _spans, Signal.LOGS: _logs, Signal.METRICS: _points}
