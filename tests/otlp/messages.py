"""Hypothesis strategies for any valid OTLP message."""

import math
from typing import Any

from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import (
    AnyValue,
    ArrayValue,
    EntityRef,
    InstrumentationScope,
    KeyValue,
    KeyValueList,
)
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ResourceLogs, ScopeLogs
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    Exemplar,
    ExponentialHistogram,
    ExponentialHistogramDataPoint,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
    Summary,
    SummaryDataPoint,
)
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span, Status

from neve.model.signals import Signal

Strategy = st.SearchStrategy[Any]

NOW = 1_760_000_000_000_000_000

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
int64 = st.integers(-(2**63), 2**63 - 1)
uint64 = st.integers(0, 2**64 - 1)
uint32 = st.integers(0, 2**32 - 1)
int32 = st.integers(-(2**31), 2**31 - 1)
doubles = st.floats(allow_nan=False) | st.just(math.nan)
# A field without presence can't say minus zero through every protobuf library: ours writes plain zero.
plain_doubles = doubles.map(lambda number: number + 0.0)
times = st.integers(1, NOW)
maybe_times = st.just(0) | times
ids8 = st.binary(min_size=8, max_size=8).filter(any)
ids16 = st.binary(min_size=16, max_size=16).filter(any)


def maybe(strategy: Strategy) -> Strategy:
    """The strategy, or nothing: an absent field."""
    return st.none() | strategy


def some(strategy: Strategy, most: int = 2) -> Strategy:
    """A short list."""
    return st.lists(strategy, max_size=most)


scalars = st.one_of(
    st.builds(AnyValue),
    st.builds(AnyValue, string_value=text),
    st.builds(AnyValue, bool_value=st.booleans()),
    st.builds(AnyValue, int_value=int64),
    st.builds(AnyValue, double_value=doubles),
    st.builds(AnyValue, bytes_value=st.binary(max_size=4)),
)


def _nest(inner: Strategy) -> Strategy:
    entry = st.builds(KeyValue, key=text, value=maybe(inner))
    return st.builds(AnyValue, array_value=st.builds(ArrayValue, values=some(inner))) | st.builds(
        AnyValue, kvlist_value=st.builds(KeyValueList, values=some(entry))
    )


any_values = st.recursive(scalars, _nest, max_leaves=5)
attributes = st.lists(
    st.builds(KeyValue, key=text, value=maybe(any_values)), max_size=4, unique_by=lambda entry: entry.key
)

entity_refs = st.builds(EntityRef, schema_url=text, type=text, id_keys=some(text), description_keys=some(text))
resources = st.builds(
    Resource, attributes=attributes, dropped_attributes_count=uint32, entity_refs=some(entity_refs, most=1)
)
scopes = st.builds(
    InstrumentationScope, name=text, version=text, attributes=attributes, dropped_attributes_count=uint32
)

events = st.builds(Span.Event, time_unix_nano=uint64, name=text, attributes=attributes, dropped_attributes_count=uint32)
links = st.builds(
    Span.Link,
    trace_id=ids16,
    span_id=ids8,
    trace_state=text,
    attributes=attributes,
    dropped_attributes_count=uint32,
    flags=uint32,
)
spans = st.builds(
    Span,
    trace_id=ids16,
    span_id=ids8,
    parent_span_id=st.just(b"") | ids8,
    trace_state=text,
    flags=uint32,
    name=text,
    kind=st.integers(0, 5),
    start_time_unix_nano=times,
    end_time_unix_nano=uint64,
    attributes=attributes,
    dropped_attributes_count=uint32,
    events=some(events),
    dropped_events_count=uint32,
    links=some(links),
    dropped_links_count=uint32,
    status=maybe(st.builds(Status, message=text, code=st.integers(0, 2))),
)
logs = st.builds(
    LogRecord,
    time_unix_nano=maybe_times,
    observed_time_unix_nano=maybe_times,
    severity_number=st.integers(0, 24),
    severity_text=text,
    body=maybe(any_values),
    attributes=attributes,
    dropped_attributes_count=uint32,
    flags=uint32,
    trace_id=st.just(b"") | ids16,
    span_id=st.just(b"") | ids8,
    event_name=text,
)

numbers: Strategy = st.one_of(
    st.builds(dict),
    st.builds(dict, as_double=doubles),
    st.builds(dict, as_int=int64),
)
exemplars = st.builds(
    lambda value, **rest: Exemplar(**rest, **value),
    value=numbers,
    filtered_attributes=attributes,
    time_unix_nano=uint64,
    span_id=st.just(b"") | ids8,
    trace_id=st.just(b"") | ids16,
)
common: dict[str, Strategy] = {
    "attributes": attributes,
    "start_time_unix_nano": uint64,
    "time_unix_nano": times,
    "flags": uint32,
}
spread: dict[str, Strategy] = {"sum": maybe(doubles), "min": maybe(doubles), "max": maybe(doubles)}
number_points = st.builds(
    lambda value, **rest: NumberDataPoint(**rest, **value), value=numbers, exemplars=some(exemplars), **common
)
histogram_points = st.builds(
    HistogramDataPoint,
    count=uint64,
    bucket_counts=some(uint64),
    explicit_bounds=some(doubles),
    exemplars=some(exemplars, most=1),
    **spread,
    **common,
)
buckets = st.builds(ExponentialHistogramDataPoint.Buckets, offset=int32, bucket_counts=some(uint64))
exponential_points = st.builds(
    ExponentialHistogramDataPoint,
    count=uint64,
    scale=int32,
    zero_count=uint64,
    zero_threshold=plain_doubles,
    positive=maybe(buckets),
    negative=maybe(buckets),
    exemplars=some(exemplars, most=1),
    **spread,
    **common,
)
quantiles = st.builds(SummaryDataPoint.ValueAtQuantile, quantile=plain_doubles, value=plain_doubles)
summary_points = st.builds(SummaryDataPoint, count=uint64, sum=plain_doubles, quantile_values=some(quantiles), **common)
temporality = st.integers(0, 2)
metric_data: Strategy = st.one_of(
    st.builds(dict, gauge=st.builds(Gauge, data_points=some(number_points))),
    st.builds(
        dict,
        sum=st.builds(
            Sum, data_points=some(number_points), aggregation_temporality=temporality, is_monotonic=st.booleans()
        ),
    ),
    st.builds(
        dict,
        histogram=st.builds(Histogram, data_points=some(histogram_points), aggregation_temporality=temporality),
    ),
    st.builds(
        dict,
        exponential_histogram=st.builds(
            ExponentialHistogram, data_points=some(exponential_points), aggregation_temporality=temporality
        ),
    ),
    st.builds(dict, summary=st.builds(Summary, data_points=some(summary_points))),
)
metrics = st.builds(
    lambda data, **rest: Metric(**rest, **data),
    data=metric_data,
    name=text.filter(bool),
    description=text,
    unit=text,
    metadata=attributes,
)


def _groups(resource_group: type, scope_group: type, scope_field: str, records: str) -> Any:
    def build(record: Strategy) -> Strategy:
        scope = st.builds(scope_group, scope=maybe(scopes), schema_url=text, **{records: some(record, most=3)})
        return st.builds(resource_group, resource=maybe(resources), schema_url=text, **{scope_field: some(scope)})

    return build


MESSAGES: dict[Signal, Strategy] = {
    Signal.TRACES: st.builds(
        ExportTraceServiceRequest,
        resource_spans=some(_groups(ResourceSpans, ScopeSpans, "scope_spans", "spans")(spans)),
    ),
    Signal.LOGS: st.builds(
        ExportLogsServiceRequest,
        resource_logs=some(_groups(ResourceLogs, ScopeLogs, "scope_logs", "log_records")(logs)),
    ),
    Signal.METRICS: st.builds(
        ExportMetricsServiceRequest,
        resource_metrics=some(_groups(ResourceMetrics, ScopeMetrics, "scope_metrics", "metrics")(metrics)),
    ),
}
CLASSES: dict[Signal, Any] = {
    Signal.TRACES: ExportTraceServiceRequest,
    Signal.LOGS: ExportLogsServiceRequest,
    Signal.METRICS: ExportMetricsServiceRequest,
}
