"""A lake with log lines of two services, and of another organization."""

import time
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ResourceLogs, ScopeLogs
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from neve.lake.commit.append import append_once
from neve.lake.config import CatalogConfig, LakeConfig
from neve.lake.lake import Lake
from neve.lake.write.table_writer import Target, write_files
from neve.model.signals import Signal
from neve.otlp import Intake, decode
from tests.empty_tables import create_empty_tables
from tests.query.lakes import ACME, NOW, OTHER, put, settings_of

SECOND = 1_000_000_000
START = NOW // (60 * SECOND) * 60 * SECOND - 600 * SECOND  # a whole minute, before the intake
COUNT = 20
GAP = 10 * SECOND
END = START + COUNT * GAP
TRACE = bytes(range(16))


def attributes(pairs: Mapping[str, str]) -> list[KeyValue]:
    """Return attributes of texts."""
    return [KeyValue(key=key, value=AnyValue(string_value=value)) for key, value in pairs.items()]


def record(index: int, text: str, severity: int = 9, pairs: Mapping[str, str] | None = None) -> LogRecord:
    """Return a line."""
    return LogRecord(
        time_unix_nano=START + index * GAP + 1,
        body=AnyValue(string_value=text),
        severity_number=severity,  # type: ignore[arg-type]  # an enumeration on the wire
        attributes=attributes(pairs or {}),
        trace_id=TRACE if index == 3 else b"",
    )


def message(service: str, records: list[LogRecord], **resource: str) -> ExportLogsServiceRequest:
    """Return the lines of a service."""
    found = {"service.name": service, **{key.replace("__", "."): value for key, value in resource.items()}}
    scope = ScopeLogs(scope=InstrumentationScope(name="shop"), log_records=records)
    return ExportLogsServiceRequest(
        resource_logs=[ResourceLogs(resource=Resource(attributes=attributes(found)), scope_logs=[scope])]
    )


def cart_lines() -> list[LogRecord]:
    """Return JSON lines, one of them broken."""
    lines = []
    for index in range(COUNT):
        text = f'{{"method":"GET","status":{200 if index % 4 else 500},"took":"{index}ms"}}'
        lines.append(record(index, text, pairs={"http.route": "/a"}))
    return [*lines, record(5, "out of memory in pod 7", 17)]


def pay_lines() -> list[LogRecord]:
    """Return lines of logfmt."""
    return [record(index, f"level=info msg=paid amount={index} user=u{index % 2}") for index in range(COUNT)]


def ingest(lake: Lake, organization: str, request: ExportLogsServiceRequest) -> None:
    """Write and commit lines as if they were received now."""
    moment = time.time_ns()
    decoded = decode(Signal.LOGS, [request.SerializeToString()], Intake(organization, moment))
    table = lake.table(Signal.LOGS.table)
    files = write_files(Target.of(table), pa.Table.from_batches([decoded.batch]))
    append_once(table, files, batch_id=f"{organization}-{moment}", operation="test")


def make_log_lake(folder: Path) -> Lake:
    """Return a lake with lines of one organization, and a line of another."""
    said = settings_of(folder)
    lake = Lake(LakeConfig.model_validate(said["lake"]), CatalogConfig.model_validate(said["catalog"]))
    create_empty_tables(lake)
    put(lake, ACME, Signal.LOGS, message("cart", cart_lines(), k8s__pod__name="cart-1", host__name="h1"), batch="-cart")
    put(lake, ACME, Signal.LOGS, message("pay", pay_lines()), batch="-pay")
    put(lake, OTHER, Signal.LOGS, message("vault", [record(1, "secret")]), batch="-secret")
    return lake
