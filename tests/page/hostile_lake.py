"""Telemetry, jobs and views that are markup in every field, in an hour of its own of the demo's lake."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ResourceLogs, ScopeLogs
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    AggregationTemporality,
    Exemplar,
    Gauge,
    Metric,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span, Status

from neve.errors import LakeError
from neve.jobs.job import Task
from neve.jobs.queue import JobQueue
from neve.jobs.transitions import Retry
from neve.model.signals import Signal
from tests.page.operator_lake import LEASE_SECONDS

if TYPE_CHECKING:
    from neve.state.documents import Documents
    from tests.page.demo_lake import DemoLake

MARKUP = "<img src=x onerror=\"window.hacked=1\"><script>window.hacked=1</script>{@html 'x'}"
LINK, HARMLESS_LINK = "javascript:window.hacked=1", "https://example.invalid/a?b"
NANOS = 1_760_000_000_000_000_000  # 2025-10-09 08:53:20, apart from the demo's run
HOSTILE_RANGE = "from=2025-10-09T08:50:00.000Z&to=2025-10-09T09:00:00.000Z"
TRACE_ID, ROOT_ID, CHILD_ID = b"\xbd" * 16, b"\xbd" * 8, b"\xbe" * 8
SECOND, MS = 1_000_000_000, 1_000_000
_VALUE = AnyValue(string_value=MARKUP)
_ATTRIBUTES = [
    KeyValue(key=MARKUP, value=_VALUE),
    KeyValue(key="link", value=AnyValue(string_value=LINK)),
    KeyValue(key="page", value=AnyValue(string_value=HARMLESS_LINK)),
    KeyValue(key="db.system", value=_VALUE),
    KeyValue(key="peer.service", value=_VALUE),
]
_RESOURCE = Resource(attributes=[KeyValue(key="service.name", value=_VALUE), KeyValue(key=MARKUP, value=_VALUE)])
_SCOPE = InstrumentationScope(name=MARKUP, version=MARKUP)


def fill_hostile_lake(demo: DemoLake, documents: Documents) -> None:
    """Commit a log, two spans and two metrics, and store a job that failed."""
    demo.commit(Signal.LOGS, [make_logs().SerializeToString()], "hostile")
    demo.commit(Signal.TRACES, [make_spans().SerializeToString()], "hostile")
    demo.commit(Signal.METRICS, [make_metrics().SerializeToString()], "hostile")
    fail_job(documents)


def make_logs() -> ExportLogsServiceRequest:
    """Return a log of the trace."""
    record = LogRecord(
        time_unix_nano=NANOS,
        severity_number=17,  # type: ignore[arg-type]
        severity_text=MARKUP,
        body=_VALUE,
        event_name=MARKUP,
        attributes=_ATTRIBUTES,
        trace_id=TRACE_ID,
        span_id=CHILD_ID,
    )
    scope = ScopeLogs(scope=_SCOPE, log_records=[record])
    return ExportLogsServiceRequest(resource_logs=[ResourceLogs(resource=_RESOURCE, scope_logs=[scope])])


def make_spans() -> ExportTraceServiceRequest:
    """Return a span that calls a database, below another one."""
    root = _span(ROOT_ID, b"", 2, NANOS)
    child = _span(CHILD_ID, ROOT_ID, 3, NANOS + MS)
    scope = ScopeSpans(scope=_SCOPE, spans=[root, child])
    return ExportTraceServiceRequest(resource_spans=[ResourceSpans(resource=_RESOURCE, scope_spans=[scope])])


def _span(span_id: bytes, parent: bytes, kind: int, start: int) -> Span:
    return Span(
        trace_id=TRACE_ID,
        span_id=span_id,
        parent_span_id=parent,
        trace_state=f"a={MARKUP}",
        name=MARKUP,
        kind=kind,  # type: ignore[arg-type]
        start_time_unix_nano=start,
        end_time_unix_nano=start + 10 * MS,
        attributes=_ATTRIBUTES,
        events=[Span.Event(time_unix_nano=start, name=MARKUP, attributes=_ATTRIBUTES)],
        links=[Span.Link(trace_id=TRACE_ID, span_id=ROOT_ID, trace_state=MARKUP, attributes=_ATTRIBUTES)],
        status=Status(code=2, message=MARKUP),  # type: ignore[arg-type]
    )


def make_metrics() -> ExportMetricsServiceRequest:
    """Return a gauge and a counter with an exemplar, over two minutes."""
    exemplar = Exemplar(
        time_unix_nano=NANOS, as_double=1.0, trace_id=TRACE_ID, span_id=CHILD_ID, filtered_attributes=_ATTRIBUTES
    )
    points = [
        NumberDataPoint(
            start_time_unix_nano=NANOS - SECOND,
            time_unix_nano=NANOS + 15 * number * SECOND,
            as_double=number,
            attributes=_ATTRIBUTES,
            exemplars=[exemplar],
        )
        for number in range(8)
    ]
    counter = Sum(
        data_points=points,
        is_monotonic=True,
        aggregation_temporality=AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE,
    )
    metrics = [
        Metric(name=f"gauge {MARKUP}", unit=MARKUP, description=MARKUP, gauge=Gauge(data_points=points)),
        Metric(name="hostile_counter", unit="1", description=MARKUP, sum=counter),
    ]
    scope = ScopeMetrics(scope=_SCOPE, metrics=metrics)
    return ExportMetricsServiceRequest(resource_metrics=[ResourceMetrics(resource=_RESOURCE, scope_metrics=[scope])])


def fail_job(documents: Documents) -> None:
    """Store a job whose reason, owner, error and hint are markup."""
    queue = JobQueue(documents, retry=Retry(attempts=1))
    wanted = queue.request(Task.MAINTAIN, "metrics", reason=MARKUP)
    job = queue.claim(
        MARKUP, [Task.MAINTAIN], LEASE_SECONDS, allowed=lambda one: None if one.id == wanted.id else "another one"
    )
    assert job is not None
    queue.fail(job, LakeError(MARKUP, hint=MARKUP))
