"""Small records of every signal, as generic documents and as OTLP messages, and the way from bytes to rows."""

import gzip
import io
import json
import struct
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
from google.protobuf.message import Message
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import SEVERITY_NUMBER_INFO, LogRecord, ResourceLogs, ScopeLogs
from opentelemetry.proto.metrics.v1.metrics_pb2 import Gauge, Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span

from neve.ingest.config import FieldsConfig
from neve.ingest.files.formats import Format
from neve.ingest.files.reader import Messages, ReadOptions, decompress, read_messages
from neve.model.signals import Signal
from neve.otlp import Intake, Rejected, decode
from neve.otlp.json import to_json

NOW = 1_760_000_000_000_000_000
AT = 1_735_689_600_123_456_789  # 2025-01-01T00:00:00.123456789Z
TRACE = "5b8efff798038103d269b633813fc60c"
SPAN = "eee19b7ec3c1b174"
INTAKE = Intake("acme", NOW, max_future_nanos=2**63)
FIELDS = FieldsConfig()

Document = dict[str, Any]
Row = dict[str, Any]

DOCUMENTS: dict[Signal, list[Document]] = {
    Signal.LOGS: [
        {"time": "2025-01-01T00:00:00.123456789Z", "level": "error", "msg": "boom", "service": "cart", "user": "ann"},
        {"time": "2025-01-01T02:00:00.123456789+02:00", "level": "info", "msg": "ok", "service": "cart", "user": "bob"},
    ],
    Signal.METRICS: [
        {"ts": str(AT), "metric": "load", "value": "1.5", "unit": "1", "service": "cart", "host": "a"},
        {"ts": str(AT), "metric": "load", "value": "2.5", "unit": "1", "service": "cart", "host": "b"},
    ],
    Signal.TRACES: [
        {"start": str(AT), "duration_ms": "2", "name": "get", "trace_id": TRACE, "span_id": SPAN, "peer": "db"},
        {"start": str(AT), "duration_ms": "3", "name": "put", "trace_id": TRACE, "span_id": SPAN[::-1], "peer": "db"},
    ],
}
# What the rows of those documents hold, whatever the format.
FOUND: dict[Signal, dict[str, list[Any]]] = {
    Signal.LOGS: {
        "time_unix_nano": [AT, AT],
        "severity_number": [17, 9],
        "message": ["boom", "ok"],
        "service_name": ["cart", "cart"],
        "attributes": [[("user", "ann")], [("user", "bob")]],
    },
    Signal.METRICS: {
        "time_unix_nano": [AT, AT],
        "metric_name": ["load", "load"],
        "value": [1.5, 2.5],
        "unit": ["1", "1"],
        "attributes": [[("host", "a")], [("host", "b")]],
    },
    Signal.TRACES: {
        "start_time_unix_nano": [AT, AT],
        "end_time_unix_nano": [AT + 2_000_000, AT + 3_000_000],
        "operation_name": ["get", "put"],
        "trace_id": [bytes.fromhex(TRACE)] * 2,
        "attributes": [[("peer", "db")]] * 2,
    },
}


def otlp(signal: Signal, name: str = "cart") -> Message:
    """A message of one record, as a real sender would write it."""
    resource = Resource(attributes=[KeyValue(key="service.name", value=AnyValue(string_value=name))])
    if signal is Signal.LOGS:
        log = LogRecord(time_unix_nano=AT, severity_number=SEVERITY_NUMBER_INFO, body=AnyValue(string_value="hello"))
        return ExportLogsServiceRequest(
            resource_logs=[ResourceLogs(resource=resource, scope_logs=[ScopeLogs(log_records=[log])])]
        )
    if signal is Signal.METRICS:
        metric = Metric(name="load", gauge=Gauge(data_points=[NumberDataPoint(time_unix_nano=AT, as_double=1.5)]))
        return ExportMetricsServiceRequest(
            resource_metrics=[ResourceMetrics(resource=resource, scope_metrics=[ScopeMetrics(metrics=[metric])])]
        )
    span = Span(trace_id=bytes.fromhex(TRACE), span_id=bytes.fromhex(SPAN), name="get", start_time_unix_nano=AT)
    return ExportTraceServiceRequest(
        resource_spans=[ResourceSpans(resource=resource, scope_spans=[ScopeSpans(spans=[span])])]
    )


def json_text(signal: Signal, message: Message, *, indent: int | None = None) -> bytes:
    """A message as OTLP JSON, on one line or pretty-printed."""
    return json.dumps(json.loads(to_json(signal, message.SerializeToString())), indent=indent).encode()


def prefixed(*messages: bytes) -> bytes:
    """Messages behind their lengths, as the collector's file exporter writes them."""
    return b"".join(struct.pack(">I", len(message)) + message for message in messages)


def lines(*documents: Document | str) -> bytes:
    """JSON lines; a text is a line as it is."""
    return "\n".join(item if isinstance(item, str) else json.dumps(item) for item in documents).encode()


def generic(form: Format, documents: list[Document]) -> bytes:
    """Documents as a generic file."""
    if form is Format.JSON_LINES:
        return lines(*documents)
    table = pa.Table.from_pylist(documents)
    return parquet(table) if form is Format.PARQUET else csv(table)


def csv(table: pa.Table) -> bytes:
    """A table as a CSV file with a header."""
    sink = io.BytesIO()
    pacsv.write_csv(table, sink)
    return sink.getvalue()


def parquet(table: pa.Table | dict[str, Any]) -> bytes:
    """A table as a Parquet file."""
    sink = io.BytesIO()
    pq.write_table(table if isinstance(table, pa.Table) else pa.table(table), sink)
    return sink.getvalue()


def pack(ending: str, data: bytes) -> bytes:
    """Bytes as a file of that ending holds them."""
    if ending == ".gz":
        return gzip.compress(data)
    if ending == ".zst":
        packed: bytes = pa.Codec("zstd").compress(data, asbytes=True)
        return packed
    return data


def read(name: str, raw: bytes, wanted: ReadOptions | None = None, fields: FieldsConfig = FIELDS) -> Messages:
    """What a file of that name and content holds."""
    return read_messages(name, decompress(name, raw), wanted or ReadOptions(), fields)[0]


def rows(found: Messages) -> list[Row]:
    """The rows of messages that are all accepted."""
    decoded = decode(found.signal, found.messages, INTAKE)
    assert decoded.rejected == ()
    listed: list[Row] = decoded.batch.to_pylist()
    return listed


def logs(*documents: Document | str, fields: FieldsConfig = FIELDS) -> list[Row]:
    """The rows of JSON lines that are logs, none of them refused."""
    found = read("logs.jsonl", lines(*documents), fields=fields)
    assert found.rejected == ()
    return rows(found)


def configured(**names: Any) -> FieldsConfig:
    """Fields as a user configures them."""
    return FieldsConfig.model_validate(names)


def reasons(rejected: Sequence[Rejected]) -> list[tuple[str, int]]:
    """Why and where."""
    return sorted((bad.reason, bad.message) for bad in rejected)
