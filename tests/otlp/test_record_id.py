"""`record_id`: equal for a resend, different for anything else."""

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    AGGREGATION_TEMPORALITY_CUMULATIVE,
    Gauge,
    Metric,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span

from neve.model.signals import Signal
from neve.otlp import Intake, decode

NOW = 1_760_000_000_000_000_000


def ids(signal: Signal, *messages: bytes, received: int = NOW) -> list[bytes]:
    """The record ids of some messages."""
    intake = Intake(organization_id="acme", received_unix_nano=received)
    found: list[bytes] = decode(signal, list(messages), intake).batch.column("record_id").to_pylist()
    return found


def traces(service: str | None, scope: str, *names: str) -> bytes:
    """A message with a span for each name."""
    resource = Resource(attributes=[KeyValue(key="service.name", value=AnyValue(string_value=service or ""))])
    spans = [Span(trace_id=b"t" * 16, span_id=b"s" * 8, name=name, start_time_unix_nano=NOW) for name in names]
    group = ScopeSpans(scope=InstrumentationScope(name=scope), spans=spans)
    message = ResourceSpans(resource=resource if service else None, scope_spans=[group])
    return ExportTraceServiceRequest(resource_spans=[message]).SerializeToString()


def test_a_resend_has_the_same_id_however_it_is_batched() -> None:
    """Neither the time of arrival nor the neighbours in the message count."""
    alone = [*ids(Signal.TRACES, traces("cart", "lib", "a")), *ids(Signal.TRACES, traces("cart", "lib", "b"))]
    assert ids(Signal.TRACES, traces("cart", "lib", "a", "b"), received=NOW + 5) == alone
    assert all(len(found) == 16 for found in alone)


def test_equal_records_of_one_message_are_several() -> None:
    """Nobody sends a record twice in one message: the second has an id of its own, and keeps it when it is resent."""
    first, other, second, third = ids(Signal.TRACES, traces("cart", "lib", "a", "b", "a", "a"))
    assert len({first, other, second, third}) == 4
    assert ids(Signal.TRACES, traces("cart", "lib", "a"), traces("cart", "lib", "a", "a")) == [first, first, second]


def test_the_resource_and_the_scope_belong_to_the_record() -> None:
    """The same bytes under another resource or scope are another record."""
    messages = [("cart", "lib"), ("shop", "lib"), ("cart", "other"), (None, "lib"), ("cart", "")]
    found = [ids(Signal.TRACES, traces(service, scope, "a"))[0] for service, scope in messages]
    assert len(set(found)) == len(found)


def test_the_metric_belongs_to_its_point() -> None:
    """Equal points of two metrics, or of a gauge and a sum, are different records."""
    point = [NumberDataPoint(time_unix_nano=NOW, as_int=1)]
    metrics = [
        Metric(name="a", gauge=Gauge(data_points=point)),
        Metric(name="b", gauge=Gauge(data_points=point)),
        Metric(name="a", unit="s", gauge=Gauge(data_points=point)),
        Metric(name="a", sum=Sum(data_points=point)),
        Metric(name="a", sum=Sum(data_points=point, aggregation_temporality=AGGREGATION_TEMPORALITY_CUMULATIVE)),
    ]
    message = ExportMetricsServiceRequest(
        resource_metrics=[ResourceMetrics(scope_metrics=[ScopeMetrics(metrics=metrics)])]
    )
    assert len(set(ids(Signal.METRICS, message.SerializeToString()))) == len(metrics)
