"""What can't be accepted is given back whole, with its reason, and costs nothing else."""

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, InstrumentationScope, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ResourceLogs, ScopeLogs
from opentelemetry.proto.metrics.v1.metrics_pb2 import Gauge, Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span

from neve.model.signals import Signal
from neve.otlp import Decoded, Intake, decode, encode
from neve.otlp.protobuf import message_class

NOW = 1_760_000_000_000_000_000
HOUR = 3_600_000_000_000
INTAKE = Intake(organization_id="acme", received_unix_nano=NOW, max_future_nanos=HOUR)
RESOURCE = Resource(attributes=[KeyValue(key="service.name", value=AnyValue(string_value="cart"))])


def good_span(**changes: object) -> Span:
    """A span that is accepted, unless a change spoils it."""
    fields = {"trace_id": b"t" * 16, "span_id": b"s" * 8, "name": "op", "start_time_unix_nano": NOW} | changes
    return Span(**fields)  # type: ignore[arg-type]


def traces(*spans: Span) -> ExportTraceServiceRequest:
    """A message of these spans under one resource and scope."""
    scope = ScopeSpans(scope=InstrumentationScope(name="lib"), spans=spans)
    return ExportTraceServiceRequest(resource_spans=[ResourceSpans(resource=RESOURCE, scope_spans=[scope])])


def decode_traces(*messages: bytes) -> Decoded:
    """Decode as the receiver would."""
    return decode(Signal.TRACES, list(messages), INTAKE)


@pytest.mark.parametrize(
    ("changes", "reason", "words"),
    [
        ({"trace_id": b""}, "invalid_trace_id", "expected 16 bytes"),
        ({"trace_id": bytes(16)}, "invalid_trace_id", "not all zero"),
        ({"trace_id": b"short"}, "invalid_trace_id", "73686f7274"),
        ({"span_id": b"s" * 9}, "invalid_span_id", "expected 8 bytes"),
        ({"start_time_unix_nano": 0}, "missing_time", "start_time_unix_nano is 0"),
        ({"start_time_unix_nano": NOW + HOUR + 1}, "timestamp_in_future", "more than 3600 s"),
        ({"start_time_unix_nano": 2**64 - 1}, "timestamp_in_future", str(2**64 - 1)),
    ],
)
def test_a_span_that_breaks_a_rule_is_refused_alone(changes: dict[str, object], reason: str, words: str) -> None:
    """The reason and the value are named, the neighbours are kept, and the refused span can be read again."""
    bad = good_span(**changes)
    decoded = decode_traces(traces(good_span(name="a"), bad, good_span(name="b")).SerializeToString())
    assert decoded.batch.column("operation_name").to_pylist() == ["a", "b"]
    [refused] = decoded.rejected
    assert (refused.reason, refused.message) == (reason, 0)
    assert words in refused.detail
    assert ExportTraceServiceRequest.FromString(refused.payload) == traces(bad)


def test_a_span_at_the_edge_of_the_future_is_kept() -> None:
    """The distance itself is still accepted."""
    decoded = decode_traces(traces(good_span(start_time_unix_nano=NOW + HOUR)).SerializeToString())
    assert decoded.batch.num_rows == 1


def test_a_malformed_message_is_refused_whole_and_numbered() -> None:
    """Messages before and after a malformed one are decoded, and each record keeps its message's number."""
    good, bad = traces(good_span()).SerializeToString(), b"\xff\xff\xff"
    spoilt = traces(good_span(trace_id=b"")).SerializeToString()
    decoded = decode_traces(good, bad, spoilt)
    assert decoded.batch.num_rows == 1
    assert [(refused.reason, refused.message) for refused in decoded.rejected] == [
        ("malformed_message", 1),
        ("invalid_trace_id", 2),
    ]
    assert decoded.rejected[0].payload == bad


def test_a_malformed_record_costs_only_itself() -> None:
    """A span whose bytes make no sense leaves the other spans of its message alone."""
    message = message_class("collector.trace.v1.ExportTraceServiceRequest")()
    message.ParseFromString(traces(good_span(name="a"), good_span(name="b")).SerializeToString())
    message.resource_spans[0].scope_spans[0].spans.insert(1, b"\xff\xff")  # type: ignore[attr-defined]
    decoded = decode_traces(message.SerializeToString())
    assert decoded.batch.column("operation_name").to_pylist() == ["a", "b"]
    assert [refused.reason for refused in decoded.rejected] == ["malformed_record"]
    assert b"\xff\xff" in decoded.rejected[0].payload


def test_a_malformed_resource_costs_only_its_group() -> None:
    """Records under a resource that can't be parsed are refused; other groups go on."""
    message = message_class("collector.trace.v1.ExportTraceServiceRequest")()
    message.ParseFromString(traces(good_span(name="a")).SerializeToString())
    message.MergeFromString(traces(good_span(name="b"), good_span(name="c")).SerializeToString())
    message.resource_spans[1].resource = b"\xff\xff"  # type: ignore[attr-defined]
    decoded = decode_traces(message.SerializeToString())
    assert decoded.batch.column("operation_name").to_pylist() == ["a"]
    assert [refused.reason for refused in decoded.rejected] == ["malformed_context"] * 2


def test_a_metric_point_without_time_is_refused_with_its_metric() -> None:
    """The point comes back inside a metric that holds it alone."""
    points = [NumberDataPoint(time_unix_nano=NOW, as_int=1), NumberDataPoint(as_int=2)]
    metric = Metric(name="requests", unit="1", gauge=Gauge(data_points=points))
    message = ExportMetricsServiceRequest(
        resource_metrics=[ResourceMetrics(resource=RESOURCE, scope_metrics=[ScopeMetrics(metrics=[metric])])]
    )
    decoded = decode(Signal.METRICS, [message.SerializeToString()], INTAKE)
    assert decoded.batch.column("value_int").to_pylist() == [1]
    [refused] = decoded.rejected
    assert refused.reason == "missing_time"
    [alone] = ExportMetricsServiceRequest.FromString(refused.payload).resource_metrics[0].scope_metrics[0].metrics
    assert (alone.name, [point.as_int for point in alone.gauge.data_points]) == ("requests", [2])


def test_metrics_without_points_are_counted() -> None:
    """A metric that holds no point makes no row, and that is said."""
    empty = [Metric(name="a", gauge=Gauge()), Metric(name="b")]
    message = ExportMetricsServiceRequest(
        resource_metrics=[ResourceMetrics(scope_metrics=[ScopeMetrics(metrics=empty)])]
    )
    decoded = decode(Signal.METRICS, [message.SerializeToString()], INTAKE)
    assert (decoded.batch.num_rows, decoded.pointless_metrics) == (0, 2)


def test_a_log_without_any_time_is_kept_under_the_time_of_ingestion() -> None:
    """The receiver is the first observer; what the record itself said stays as it was."""
    message = ExportLogsServiceRequest(
        resource_logs=[ResourceLogs(scope_logs=[ScopeLogs(log_records=[LogRecord(severity_text="INFO")])])]
    )
    decoded = decode(Signal.LOGS, [message.SerializeToString()], INTAKE)
    assert decoded.batch.column("timestamp")[0].value == NOW // 1000
    assert ExportLogsServiceRequest.FromString(encode(Signal.LOGS, decoded.batch)) == message


def test_the_last_of_duplicate_keys_is_in_the_map_and_all_are_encoded_again() -> None:
    """The standard forbids duplicate keys; the map has the last one, and the types remember the others."""
    entries = [KeyValue(key="k", value=AnyValue(int_value=number)) for number in (1, 2, 3)]
    other = KeyValue(key="other", value=AnyValue(string_value="x"))
    decoded = decode_traces(traces(good_span(attributes=[entries[0], other, *entries[1:]])).SerializeToString())
    assert dict(decoded.batch.column("attributes")[0].as_py()) == {"other": "x", "k": "3"}
    types = dict(decoded.batch.column("attribute_types")[0].as_py())
    assert types.keys() == {"k", "k (earlier)"}
    assert types["k"] == "int"
    assert decoded.duplicate_keys == 2
    back = ExportTraceServiceRequest.FromString(encode(Signal.TRACES, decoded.batch))
    assert list(back.resource_spans[0].scope_spans[0].spans[0].attributes) == [other, *entries]


def test_an_unreadable_value_before_the_last_one_rejects_its_record() -> None:
    """It could not be encoded again, so it is not forgotten silently."""
    deep = AnyValue(int_value=1)
    for _level in range(40):
        deep = AnyValue(array_value=ArrayValue(values=[deep]))
    entries = [KeyValue(key="k", value=deep), KeyValue(key="k", value=AnyValue(int_value=2))]
    decoded = decode_traces(traces(good_span(), good_span(attributes=entries)).SerializeToString())
    assert (decoded.batch.num_rows, [bad.reason for bad in decoded.rejected]) == (1, ["malformed_record"])
