"""Spans, logs and decisions of small traces, and a lake with them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ResourceLogs, ScopeLogs
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span, Status

from neve.explore.program import answer
from neve.lake.commit.append import append_once
from neve.lake.config import CatalogConfig, LakeConfig
from neve.lake.lake import Lake
from neve.lake.write.table_writer import Target, write_files
from neve.model.decision_tables import DECISIONS
from neve.model.signals import Signal
from neve.query.engine.program import ProgramContext
from neve.query.request import Request, TimeRange
from tests.empty_tables import create_empty_tables
from tests.query.lakes import ACME, NOW, OTHER, put, settings_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from neve.query.engine.program import StatementRequest
    from neve.query.service import QueryService

MS = 1_000_000
CHECKOUT = bytes.fromhex("c0" * 16)
ODD = bytes.fromhex("0d" * 16)
SECRET = bytes.fromhex("ee" * 16)
SERVER, CLIENT, PRODUCER, CONSUMER = 2, 3, 4, 5
OK, ERROR = 1, 2
HOSTILE = "<img src=x onerror=alert(1)>"


def span_id(number: int) -> bytes:
    """Return the id of a span."""
    return number.to_bytes(8, "big")


def make_span(number: int, parent: int = 0, trace: bytes = CHECKOUT, **more: Any) -> Span:
    """Return a span: `start` and `stop` in milliseconds after `NOW`, `kind`, `status`, `name` and `attributes`."""
    stop = more.get("stop", number + 10)
    return Span(
        trace_id=trace,
        span_id=span_id(number),
        parent_span_id=span_id(parent) if parent else b"",
        name=more.get("name", f"operation {number}"),
        kind=more.get("kind", 1),
        start_time_unix_nano=NOW + int(more.get("start", number) * MS),
        end_time_unix_nano=0 if stop is None else NOW + int(stop * MS),
        status=Status(code=more.get("status", 0)),
        attributes=list_attributes(more.get("attributes", {})),
        links=[Span.Link(trace_id=trace, span_id=span_id(one)) for one in more.get("links", ())],
        events=[Span.Event(time_unix_nano=NOW, name=name) for name in more.get("events", ())],
    )


def list_attributes(values: dict[str, str]) -> list[KeyValue]:
    """Return attributes with texts."""
    return [KeyValue(key=key, value=AnyValue(string_value=value)) for key, value in values.items()]


def pack_spans(services: dict[str, list[Span]]) -> ExportTraceServiceRequest:
    """Return the spans of services as one message."""
    return ExportTraceServiceRequest(
        resource_spans=[
            ResourceSpans(resource=name_resource(service), scope_spans=[ScopeSpans(spans=spans)])
            for service, spans in services.items()
        ]
    )


def name_resource(service: str) -> Resource:
    """Return the resource of a service."""
    return Resource(attributes=list_attributes({"service.name": service}))


def make_checkout() -> dict[str, list[Span]]:
    """Return a trace of a user, a shop, a payment service, a database and a queue."""
    return {
        "web": [
            make_span(1, kind=SERVER, start=0, stop=100, name="POST /checkout", status=ERROR),
            make_span(2, 1, kind=CLIENT, start=10, stop=80),
        ],
        "payment": [
            make_span(3, 2, kind=SERVER, start=20, stop=70, status=ERROR, events=["exception"], name=HOSTILE),
            make_span(4, 3, kind=CLIENT, start=30, stop=60, attributes={"db.system": "postgresql", "db.name": "cards"}),
            make_span(5, 3, kind=PRODUCER, start=61, stop=62, attributes={"messaging.destination.name": "receipts"}),
            make_span(6, 3, kind=CLIENT, start=63, stop=64, attributes={"peer.service": "fraud"}),
        ],
        "mailer": [make_span(7, 5, kind=CONSUMER, start=90, stop=120, attributes={"long": "x" * 40_000})],
    }


def make_logs() -> ExportLogsServiceRequest:
    """Return three logs of the checkout, one of them long after it, and one of no trace."""
    records = [
        _log(1, "started", CHECKOUT, 1),
        _log(31, HOSTILE, CHECKOUT, 3, severity=17),
        _log(2 * 3_600_000, "too late", CHECKOUT, 3),
        LogRecord(time_unix_nano=NOW, body=AnyValue(string_value="of no trace")),
    ]
    return ExportLogsServiceRequest(
        resource_logs=[ResourceLogs(resource=name_resource("payment"), scope_logs=[ScopeLogs(log_records=records)])]
    )


def _log(after_ms: int, text: str, trace: bytes, span: int, severity: int = 9) -> LogRecord:
    return LogRecord(
        time_unix_nano=NOW + after_ms * MS,
        body=AnyValue(string_value=text),
        trace_id=trace,
        span_id=span_id(span),
        severity_number=severity,  # type: ignore[arg-type]  # the enum is a number on the wire
    )


def make_trace_lake(folder: Path) -> Lake:
    """Return a lake with the checkout, its logs and two decisions of acme, and a trace and a decision of globex."""
    said = settings_of(folder)
    lake = Lake(LakeConfig.model_validate(said["lake"]), CatalogConfig.model_validate(said["catalog"]))
    create_empty_tables(lake)
    put(lake, ACME, Signal.TRACES, pack_spans(make_checkout()))
    put(lake, ACME, Signal.LOGS, make_logs())
    put(lake, OTHER, Signal.TRACES, pack_spans({"vault": [make_span(1, trace=SECRET, name="secret", kind=SERVER)]}))
    put_decisions(lake, [(ACME, CHECKOUT, 0), (ACME, CHECKOUT, 1), (OTHER, SECRET, 0)])
    return lake


def put_decisions(lake: Lake, decisions: list[tuple[str, bytes, int]]) -> None:
    """Commit decisions: organization, trace and revision."""
    rows = pa.Table.from_pylist([_decision(*one) for one in decisions], schema=DECISIONS.schema)
    table = lake.table(DECISIONS.name)
    append_once(table, write_files(Target.of(table), rows), batch_id="decisions", operation="test")


def _decision(organization: str, trace: bytes, revision: int) -> dict[str, Any]:
    at = pa.scalar(NOW // 1000 + revision, pa.timestamp("us", "UTC")).as_py()
    return {
        "organization_id": organization,
        "decided_at": at,
        "selector": "default",
        "decision": "sampled",
        "policy": "errors",
        "reason": "a span has the status error",
        "adjusted_count": 1.0,
        "probability": 1.0,
        "revision": revision,
        "kind": "late" if revision else "decided",
        "late_spans": 2 * revision,
        "ready_at": at,
        "ready_because": "inactive",
        "duration_ms": 120.0,
        "trace_id": trace,
        "span_count": 7,
        "spans_bytes": 0,
        "start_time_unix_nano": NOW,
        "end_time_unix_nano": NOW + 120 * MS,
        "first_seen": at,
        "last_seen": at,
        "has_error": True,
        "facts": [1],
        "head_threshold": 0,
        "source": "spans",
        "policies_hash": "0" * 64,
        "cycle": 1,
    }


def run_program(
    lake: QueryService,
    memory_bytes: int = 10**9,
    check: Callable[[], None] = lambda: None,
    organization: str = ACME,
    **arguments: Any,
) -> Any:
    """Answer a request in this process, of acme unless another organization is given."""

    def read(wanted: StatementRequest) -> pa.RecordBatchReader:
        bounds = TimeRange(wanted.since, wanted.until)
        running = lake.start(Request(wanted.sql, organization, parameters=wanted.parameters, time=bounds))
        return pa.RecordBatchReader.from_batches(running.schema, running.batches())

    batches = answer(arguments, ProgramContext(read, memory_bytes, check))
    return json.loads(b"".join(piece for batch in batches for piece in batch.column("body").to_pylist()))
