"""Operations of the API of traces and services, and the models of their requests and responses."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from neve.api.control.operations import QueryParameters
from neve.api.query.models import Document, UtcTime
from neve.api.query.operations import QUERY_FAILURES, Operation
from neve.explore.trace_records import MAX_LOGS

__all__ = ["EXPLORE_OPERATIONS", "LogDocument", "LogsQuery", "RangeQuery", "ServicesQuery", "read_operation"]

EXACT = "a number, or text if a browser would round it"


class RangeQuery(QueryParameters):
    """A time range."""

    since: UtcTime = Field(None, description="an RFC 3339 time with a time zone; spans before it are excluded")
    until: UtcTime = Field(None, description="an RFC 3339 time with a time zone; spans at or after it are excluded")


class ServicesQuery(RangeQuery):
    """A time range, and one service."""

    service: str | None = Field(None, max_length=200, description="the name of the only service to describe")


class LogsQuery(QueryParameters):
    """A part of the logs of a trace."""

    span_id: str | None = Field(None, pattern="^[0-9a-f]{16}$", description="16 hexadecimal digits: logs of one span")
    limit: int = Field(MAX_LOGS, ge=1, le=MAX_LOGS, description=f"a maximum number of logs, from 1 to {MAX_LOGS}")


class SpanColumns(Document):
    """Columns of a trace's spans, ordered by start."""

    span_id: list[str | None]
    parent: list[int] = Field(description="index of the parent; -1: the span is a root, -2: the parent is not stored")
    start: list[int | str | None] = Field(description=f"nanoseconds after the start of the trace: {EXACT}")
    duration: list[int | str | None] = Field(description=f"nanoseconds, null if the span has no end: {EXACT}")
    service: list[int] = Field(description="index in `services`")
    name: list[int] = Field(description="index in `names`")
    kind: list[int] = Field(description="0 unspecified, 1 internal, 2 server, 3 client, 4 producer, 5 consumer")
    status: list[int] = Field(description="0 unset, 1 ok, 2 error")
    events: list[int] = Field(description="number of events")
    links: list[int] = Field(description="number of links")


class TraceDocument(Document):
    """One trace as columns. A trace that is not stored has no spans."""

    trace_id: str
    start_unix_nano: str = Field(description="earliest start of a span, in nanoseconds since 1970")
    duration_nano: int | str = Field(description=f"nanoseconds until the latest end: {EXACT}")
    span_count: int = Field(description="all spans of the trace")
    left_out: int = Field(description="spans of deeper levels that are not part of the answer")
    error_count: int = Field(description="spans with the status error")
    services: list[str]
    names: list[str] = Field(description="names of spans")
    spans: SpanColumns


class SpanEvent(Document):
    """An event of a span."""

    time_unix_nano: int | str | None
    name: str | None
    attributes: dict[str, str | None] | None


class SpanLink(Document):
    """A link to another span."""

    trace_id: str | None
    span_id: str | None
    attributes: dict[str, str | None] | None


class SpanDocument(Document):
    """One span in full. Long values are truncated, and end with their full length."""

    span_id: str | None
    parent_span_id: str | None
    service_name: str | None
    operation_name: str | None
    span_kind: int | None
    status_code: int | None
    status_message: str | None
    duration_ms: float | None
    start_time_unix_nano: int | str | None
    end_time_unix_nano: int | str | None
    trace_state: str | None
    flags: int | None
    attributes: dict[str, str | None] | None
    resource_attributes: dict[str, str | None] | None
    scope_name: str | None
    scope_version: str | None
    events: list[SpanEvent] | None
    event_count: int | None = Field(description="number of events; of more than 200 the first are listed")
    links: list[SpanLink] | None
    link_count: int | None = Field(description="number of links; of more than 200 the first are listed")
    dropped_attributes_count: int | None
    dropped_events_count: int | None
    dropped_links_count: int | None
    record_id: str | None
    ingested_at: str | None


class SpansDocument(Document):
    """The spans with an id: usually one, at most ten."""

    trace_id: str
    span_id: str
    spans: list[SpanDocument]


class LogDocument(Document):
    """One log record."""

    timestamp: str
    time_unix_nano: int | str | None
    observed_time_unix_nano: int | str | None
    service_name: str | None
    severity_number: int | None
    severity_text: str | None
    span_id: str | None
    message: str | None = Field(description="body; more than 2,048 characters are cut")
    record_id: str | None


class TraceLogsDocument(Document):
    """Logs of a trace, in the order of time."""

    trace_id: str
    since: str | None = Field(description="an hour before the first span; earlier logs are not searched")
    until: str | None = Field(description="an hour after the last span; later logs are not searched")
    logs: list[LogDocument]
    left_out: int = Field(description="further logs of the trace")


class DecisionDocument(Document):
    """One sampling decision about a trace."""

    selector: str
    revision: int = Field(description="0 for the first decision; later ones count up")
    kind: str = Field(description="decided, late (more spans arrived) or revised (decided again)")
    decision: str = Field(description="sampled, not_sampled or dropped")
    policy: str | None
    reason: str
    adjusted_count: float | None = Field(description="number of traces that a sampled trace represents")
    probability: float | None
    late_spans: int = Field(description="spans that arrived after the previous decision")
    taken_by: str | None = Field(description="selector that sampled the trace before")
    decided_at: str
    ready_at: str
    ready_because: str = Field(description="inactive, max_duration, root_ended or memory")
    span_count: int
    duration_ms: float
    has_error: bool
    policies_hash: str
    cycle: int


class OpenTraceDocument(Document):
    """A selector that has not decided about the trace yet."""

    selector: str
    span_count: int
    first_seen: str
    last_seen: str


class DecisionsDocument(Document):
    """Sampling decisions about a trace, by selector and revision."""

    trace_id: str
    decisions: list[DecisionDocument]
    open: list[OpenTraceDocument]


class CallsDocument(Document):
    """Calls, failed calls and estimated latency."""

    calls: int
    errors: int
    p50_ms: float | None
    p95_ms: float | None
    p99_ms: float | None


class ServiceDocument(CallsDocument):
    """One service. Its calls are the requests that enter it."""

    service: str
    spans: int = Field(description="all spans of the service")


class OperationDocument(CallsDocument):
    """One operation of a service, by kind of span."""

    service: str
    operation: str
    kind: int


class ServicesDocument(Document):
    """Services and operations of a time range, those with the most calls first."""

    spans: int = Field(description="spans in the range")
    seconds: float = Field(description="length of the range; calls divided by it are the rate")
    services: list[ServiceDocument]
    operations: list[OperationDocument]
    more_services: bool = Field(description="whether there are more than 500 services")
    more_operations: bool = Field(description="whether there are more than 1,000 operations")


class EdgeDocument(CallsDocument):
    """Calls of one service by another."""

    client: str
    server: str
    connection: str = Field(description="empty, database, messaging_system, or virtual_node if one end has no spans")
    estimated_calls: int = Field(
        description="calls that the stored spans represent, by the attribute `sampling.adjusted_count` or the "
        "threshold in their trace state"
    )
    estimated_errors: int = Field(description="failed calls that the stored spans represent")


class EdgesDocument(Document):
    """Calls between services in a time range, the most frequent first."""

    spans: int = Field(description="spans in the range")
    seconds: float = Field(description="length of the range")
    share: float = Field(description="share of the traces in which calls were counted; counts are scaled by it")
    source: Literal["spans", "service_edges"] = Field(
        description="table that the calls were counted in; service_edges has whole minutes, and latency within 1.1 %"
    )
    edges: list[EdgeDocument]
    more_edges: bool = Field(description="whether there are more than 1,000 edges")


class FunctionsDocument(Document):
    """Functions that statements may call."""

    functions: list[str]


_FAILURES = tuple((status, words) for status, words in QUERY_FAILURES.items() if status not in (400, 406))
_FAILURES = ((400, "an id or a key of the query string is wrong: bad_request"), *_FAILURES)


def read_operation(path: str, name: str, summary: str, answer: type[Document], **more: Any) -> Operation:
    """Return an operation whose answer a program of a query worker makes."""
    return Operation("get", path, name, summary, answer, failures=_FAILURES, **more)


EXPLORE_OPERATIONS = (
    read_operation("/traces/{trace_id}", "getTrace", "One trace as columns, at most 100,000 spans", TraceDocument),
    read_operation("/traces/{trace_id}/spans/{span_id}", "getSpan", "One span of a trace in full", SpansDocument),
    read_operation("/traces/{trace_id}/logs", "listTraceLogs", "Logs of a trace", TraceLogsDocument, query=LogsQuery),
    read_operation(
        "/traces/{trace_id}/decisions", "listTraceDecisions", "Sampling decisions about a trace", DecisionsDocument
    ),
    read_operation(
        "/services", "listServices", "Requests, errors and latency of services", ServicesDocument, query=ServicesQuery
    ),
    read_operation("/services/edges", "listServiceEdges", "Calls between services", EdgesDocument, query=RangeQuery),
    Operation("get", "/functions", "listFunctions", "Functions of SQL", FunctionsDocument),
)
