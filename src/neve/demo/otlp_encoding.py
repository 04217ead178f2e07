"""Encode spans, logs and metrics as OTLP protobuf, and logs also as OTLP JSON lines.

In JSON, ids are hexadecimal, enumerations and other 32-bit numbers are numbers, 64-bit numbers are strings.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, InstrumentationScope, KeyValue, KeyValueList
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ResourceLogs, ScopeLogs
from opentelemetry.proto.metrics.v1 import metrics_pb2 as pb
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Status
from opentelemetry.proto.trace.v1.trace_pb2 import Span as WireSpan

from neve.demo.logs import SEVERITY_TEXTS, Log
from neve.demo.semantic_conventions import LIBRARY_VERSION, SCHEMA_URL
from neve.demo.spans import SAMPLED, SECOND, Event, Link, Span

if TYPE_CHECKING:
    from collections.abc import Iterator

    from neve.demo.fleet import Instance
    from neve.demo.metric_points import Metric, Point, Stream
    from neve.demo.spans import Attributes, Body, Value


T = TypeVar("T")
K = TypeVar("K", bound=Hashable)


def group_by(items: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    """Group items by key; groups are in the order of their first items, items keep their order."""
    groups: dict[K, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def split_by_time(items: Iterable[T], time: Callable[[T], int], edges: Sequence[int]) -> list[list[T]]:
    """Split items, in any order, into one list for each interval between edges; each list is in order of time.

    Items after the last edge go into the last list: a file is closed only when all its records have arrived.
    """
    cut: list[list[T]] = [[] for _ in edges[:-1]]
    current = 0
    for item in sorted(items, key=time):
        while current + 1 < len(cut) and time(item) >= edges[current + 1]:
            current += 1
        cut[current].append(item)
    return cut


def any_value(value: Value) -> AnyValue:
    """Return a value as an OTLP AnyValue; bool is tested before int, because it is a subclass of int."""
    match value:
        case str():
            return AnyValue(string_value=value)
        case bool():
            return AnyValue(bool_value=value)
        case int():
            return AnyValue(int_value=value)
        case float():
            return AnyValue(double_value=value)
        case _:
            return AnyValue(array_value=ArrayValue(values=[AnyValue(string_value=item) for item in value]))


@lru_cache(maxsize=16_384, typed=True)
def key_value(key: str, value: Value) -> KeyValue:
    """Return a key-value pair; `typed` distinguishes 1, 1.0 and True."""
    return KeyValue(key=key, value=any_value(value))


def key_values(attributes: Attributes) -> list[KeyValue]:
    """Return all key-value pairs, in the order of the attributes."""
    return [key_value(key, value) for key, value in attributes.items()]


def resource(attributes: Attributes) -> Resource:
    """Return the resource of an instance."""
    return Resource(attributes=key_values(attributes))


def scope(name: str, version: str) -> InstrumentationScope:
    """Return the scope of an instrumentation library."""
    return InstrumentationScope(name=name, version=version)


def traces_request(spans: Iterable[Span]) -> ExportTraceServiceRequest:
    """Return one request of all spans, grouped by instance and then by instrumentation library."""
    return ExportTraceServiceRequest(
        resource_spans=[
            ResourceSpans(
                resource=resource(instance.resource),
                scope_spans=[
                    ScopeSpans(
                        scope=scope(library, LIBRARY_VERSION),
                        spans=[wire_span(span) for span in group],
                        schema_url=SCHEMA_URL,
                    )
                    for library, group in group_by(mine, lambda span: span.library).items()
                ],
                schema_url=SCHEMA_URL,
            )
            for instance, mine in group_by(spans, lambda span: span.instance).items()
        ]
    )


def wire_span(span: Span) -> WireSpan:
    """Return a span as an OTLP message."""
    return WireSpan(
        trace_id=span.trace_id,
        span_id=span.span_id,
        parent_span_id=span.parent_id,
        trace_state=span.trace_state,
        flags=span.flags,
        name=span.name,
        kind=_enum(span.kind),
        start_time_unix_nano=span.start,
        end_time_unix_nano=span.end,
        attributes=key_values(span.attributes),
        events=[_event(event) for event in span.events],
        links=[_link(link) for link in span.links],
        status=_status(span),
    )


def _status(span: Span) -> Status | None:
    """Return the status if one was set; a failure's message is the status message."""
    if not span.status:
        return None
    return Status(code=_enum(span.status), message=span.failure.message if span.failure else "")


def _enum(number: int) -> Any:
    """Return a number where the stubs require an enumeration type; on the wire it is the number."""
    return number


def _event(event: Event) -> WireSpan.Event:
    """Return an event as an OTLP message."""
    return WireSpan.Event(time_unix_nano=event.time, name=event.name, attributes=key_values(event.attributes))


def _link(link: Link) -> WireSpan.Link:
    """Return a link as an OTLP message."""
    return WireSpan.Link(
        trace_id=link.trace_id, span_id=link.span_id, attributes=key_values(link.attributes), flags=SAMPLED
    )


Json: TypeAlias = dict[str, Any]

LOG_BATCH = 10 * SECOND


def log_lines(logs: Iterable[Log]) -> Iterator[str]:
    """Yield a request for each ten seconds of logs, as a line of JSON."""
    for batch in group_by(logs, lambda log: log.time // LOG_BATCH).values():
        yield json.dumps(logs_request(batch), separators=(",", ":"), ensure_ascii=False) + "\n"


def logs_request(logs: Iterable[Log]) -> Json:
    """Return one request of all records, grouped by instance and then by logger."""
    return {
        "resourceLogs": [
            {
                "resource": {"attributes": json_pairs(instance.resource)},
                "scopeLogs": [
                    {
                        "scope": {"name": logger, "version": LIBRARY_VERSION},
                        "logRecords": [json_log(log) for log in group],
                        "schemaUrl": SCHEMA_URL,
                    }
                    for logger, group in group_by(mine, lambda log: log.logger).items()
                ],
                "schemaUrl": SCHEMA_URL,
            }
            for instance, mine in group_by(logs, lambda log: log.instance).items()
        ]
    }


def json_log(log: Log) -> Json:
    """Return a record as OTLP JSON; empty fields are omitted."""
    record: Json = {
        "timeUnixNano": str(log.time),
        "observedTimeUnixNano": str(log.observed),
        "severityNumber": log.severity,
        "severityText": SEVERITY_TEXTS[log.severity],
        "body": json_value(log.body),
        "attributes": json_pairs(log.attributes),
    }
    if log.trace_id:
        record |= {"traceId": log.trace_id.hex(), "spanId": log.span_id.hex(), "flags": SAMPLED}
    return record


def json_value(value: Body) -> Json:
    """Return a value as an OTLP AnyValue; bool is tested before int, because it is a subclass of int."""
    match value:
        case str():
            return {"stringValue": value}
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value}
        case Mapping():
            pairs = [{"key": key, "value": json_value(item)} for key, item in value.items()]
            return {"kvlistValue": {"values": pairs}}
        case _:
            return {"arrayValue": {"values": [json_value(item) for item in value]}}


@lru_cache(maxsize=16_384, typed=True)
def _json_pair(key: str, value: Value) -> Json:
    """Return a key-value pair that must not be changed: all records with the pair share it."""
    return {"key": key, "value": json_value(value)}


def json_pairs(attributes: Attributes) -> list[Json]:
    """Return all key-value pairs, in the order of the attributes."""
    return [_json_pair(key, value) for key, value in attributes.items()]


def logs_message(logs: Iterable[Log]) -> ExportLogsServiceRequest:
    """Return one request of all records, grouped by instance and then by logger, as in the JSON."""
    return ExportLogsServiceRequest(
        resource_logs=[
            ResourceLogs(
                resource=resource(instance.resource),
                scope_logs=[
                    ScopeLogs(
                        scope=scope(logger, LIBRARY_VERSION),
                        log_records=[_log_record(log) for log in group],
                        schema_url=SCHEMA_URL,
                    )
                    for logger, group in group_by(mine, lambda log: log.logger).items()
                ],
                schema_url=SCHEMA_URL,
            )
            for instance, mine in group_by(logs, lambda log: log.instance).items()
        ]
    )


def _log_record(log: Log) -> LogRecord:
    """Return a record as an OTLP message."""
    severity: Any = log.severity  # on the wire it is the number
    return LogRecord(
        time_unix_nano=log.time,
        observed_time_unix_nano=log.observed,
        severity_number=severity,
        severity_text=SEVERITY_TEXTS[log.severity],
        body=_log_body(log.body),
        attributes=key_values(log.attributes),
        trace_id=log.trace_id,
        span_id=log.span_id,
        flags=SAMPLED if log.trace_id else 0,
    )


def _log_body(body: Body) -> AnyValue:
    """Return a body as an OTLP AnyValue: a structure contains structures, anything else is a value."""
    if isinstance(body, Mapping):
        pairs = [KeyValue(key=key, value=_log_body(value)) for key, value in body.items()]
        return AnyValue(kvlist_value=KeyValueList(values=pairs))
    if isinstance(body, str | bool | int | float):
        return any_value(body)
    return AnyValue(array_value=ArrayValue(values=[_log_body(item) for item in body]))


METER = "shop.telemetry"


class Measurement(NamedTuple):
    """One point with its instance and metric."""

    instance: Instance
    metric: Metric
    point: Point


def measurements(streams: Iterable[Stream]) -> list[Measurement]:
    """Split streams into single points, so that they can be divided by time."""
    return [Measurement(stream.instance, stream.metric, point) for stream in streams for point in stream.points]


def metrics_request(points: Iterable[Measurement]) -> ExportMetricsServiceRequest:
    """Return one request of all points, grouped by instance and then by metric."""
    return ExportMetricsServiceRequest(
        resource_metrics=[
            pb.ResourceMetrics(
                resource=resource(instance.resource),
                scope_metrics=[
                    pb.ScopeMetrics(
                        scope=scope(METER, LIBRARY_VERSION),
                        metrics=[
                            wire_metric(metric, [item.point for item in group])
                            for metric, group in group_by(mine, lambda item: item.metric).items()
                        ],
                        schema_url=SCHEMA_URL,
                    )
                ],
                schema_url=SCHEMA_URL,
            )
            for instance, mine in group_by(points, lambda item: item.instance).items()
        ]
    )


def wire_metric(metric: Metric, points: Sequence[Point]) -> pb.Metric:
    """Return a metric with its points as an OTLP message."""
    data: Any = points  # all of the metric's kind
    how: Any = metric.temporality
    wire = pb.Metric(name=metric.name, unit=metric.unit, description=metric.description)
    match metric.data:
        case "gauge":
            wire.gauge.CopyFrom(pb.Gauge(data_points=data))
        case "sum":
            wire.sum.CopyFrom(pb.Sum(data_points=data, aggregation_temporality=how, is_monotonic=metric.monotonic))
        case "histogram":
            wire.histogram.CopyFrom(pb.Histogram(data_points=data, aggregation_temporality=how))
        case "exponential_histogram":
            wire.exponential_histogram.CopyFrom(pb.ExponentialHistogram(data_points=data, aggregation_temporality=how))
        case "summary":
            wire.summary.CopyFrom(pb.Summary(data_points=data))
    return wire
