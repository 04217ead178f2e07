"""A small lake of two organizations, made without a JVM."""

import shutil
from pathlib import Path

import pyarrow as pa
from google.protobuf.message import Message
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import SEVERITY_NUMBER_ERROR, LogRecord, ResourceLogs, ScopeLogs
from opentelemetry.proto.metrics.v1.metrics_pb2 import Gauge, Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span

from neve.lake.catalog import sqlite_path
from neve.lake.commit.append import append_once
from neve.lake.config import CatalogConfig, LakeConfig
from neve.lake.lake import Lake
from neve.lake.write.table_writer import Target, write_files
from neve.model.signals import Signal
from neve.otlp import Intake, decode
from tests.empty_tables import create_empty_tables

NOW = 1_760_000_000_123_456_789  # 2025-10-09 08:53:20.123456789
TRACES = tuple(bytes([number]) * 16 for number in range(1, 9))
ACME, OTHER = "acme", "globex"


def settings_of(folder: Path) -> dict[str, dict[str, str]]:
    """The part of a configuration that puts a lake into a folder."""
    return {"lake": {"warehouse": str(folder / "warehouse")}, "catalog": {"path": str(folder / "catalog.db")}}


def make_lake(folder: Path) -> Lake:
    """A lake with eight spans, two logs and a metric point of one organization, and a span and a log of another."""
    said = settings_of(folder)
    lake = Lake(LakeConfig.model_validate(said["lake"]), CatalogConfig.model_validate(said["catalog"]))
    create_empty_tables(lake)
    put(lake, ACME, Signal.TRACES, spans(*TRACES))
    put(lake, ACME, Signal.LOGS, logs("first, with a comma", "second"))
    put(lake, ACME, Signal.METRICS, metric(float("nan")))
    put(lake, OTHER, Signal.TRACES, spans(b"\xff" * 16))
    put(lake, OTHER, Signal.LOGS, logs("secret"))
    return lake


def fork_lake(lake: Lake, folder: Path) -> Lake:
    """A lake with the tables of another, and a catalog of its own: what changes in one does not change in the other.

    They share the folder of files, so that nobody may remove files of either.
    """
    path = folder / "catalog.db"
    shutil.copyfile(sqlite_path(lake.catalog_config), path)
    return Lake(lake.lake, lake.catalog_config.model_copy(update={"path": str(path)}), lake.s3)


def put(lake: Lake, organization: str, signal: Signal, message: Message, *, batch: str = "") -> None:
    """Write and commit the records of a message."""
    decoded = decode(signal, [message.SerializeToString()], Intake(organization, NOW))
    assert decoded.rejected == ()
    table = lake.table(signal.table)
    files = write_files(Target.of(table), pa.Table.from_batches([decoded.batch]))
    append_once(table, files, batch_id=f"{organization}-{signal}{batch}", operation="test")


def spans(*trace_ids: bytes) -> ExportTraceServiceRequest:
    """A span for each trace."""
    some = [Span(trace_id=trace, span_id=trace[:8], name="get", start_time_unix_nano=NOW) for trace in trace_ids]
    return ExportTraceServiceRequest(
        resource_spans=[ResourceSpans(resource=_resource(), scope_spans=[ScopeSpans(spans=some)])]
    )


def logs(*messages: str) -> ExportLogsServiceRequest:
    """A log for each message; the first has attributes."""
    records = [
        LogRecord(time_unix_nano=NOW, severity_number=SEVERITY_NUMBER_ERROR, body=AnyValue(string_value=text))
        for text in messages
    ]
    records[0].attributes.append(KeyValue(key="user", value=AnyValue(int_value=7)))
    return ExportLogsServiceRequest(
        resource_logs=[ResourceLogs(resource=_resource(), scope_logs=[ScopeLogs(log_records=records)])]
    )


def metric(value: float) -> ExportMetricsServiceRequest:
    """One point of a gauge."""
    point = NumberDataPoint(time_unix_nano=NOW, as_double=value)
    metrics = [Metric(name="load", gauge=Gauge(data_points=[point]))]
    return ExportMetricsServiceRequest(
        resource_metrics=[ResourceMetrics(resource=_resource(), scope_metrics=[ScopeMetrics(metrics=metrics)])]
    )


def _resource() -> Resource:
    return Resource(attributes=[KeyValue(key="service.name", value=AnyValue(string_value="cart"))])
