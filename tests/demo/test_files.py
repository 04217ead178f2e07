"""The files are what a collector would have written, and the official classes read them."""

from __future__ import annotations

import base64
import gzip
from typing import TYPE_CHECKING, Any

import pytest
from google.protobuf.json_format import ParseDict
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from tests.demo.conftest import read_log_lines, read_metrics, read_traces

if TYPE_CHECKING:
    from neve.demo import Telemetry
    from neve.demo.logs import Log
    from neve.demo.simulation import Simulation


def test_the_summary_counts_the_files(telemetry: Telemetry) -> None:
    """The summary names every file that is there, and their bytes."""
    found = {path for path in telemetry.out.rglob("*") if path.is_file()}
    assert set(telemetry.files) == found
    assert telemetry.bytes == sum(path.stat().st_size for path in found)
    assert {path.parent.name for path in found} == {"traces", "logs", "metrics"}
    assert {path.name for path in found if path.parent.name == "traces"} == {
        "20260202T100000Z.binpb",
        "20260202T100500Z.binpb",
    }


def test_all_spans_are_in_the_files(telemetry: Telemetry, simulation: Simulation) -> None:
    """Each span is in a file once, as it was simulated."""
    wire = {
        (span.trace_id, span.span_id): span
        for request in read_traces(telemetry.out)
        for sender in request.resource_spans
        for library in sender.scope_spans
        for span in library.spans
    }
    assert len(wire) == telemetry.spans == len(simulation.spans)
    for span in simulation.spans:
        sent = wire[span.trace_id, span.span_id]
        assert (sent.name, sent.kind, sent.status.code, sent.flags) == (span.name, span.kind, span.status, span.flags)
        assert (sent.start_time_unix_nano, sent.end_time_unix_nano) == (span.start, span.end)
        assert [pair.key for pair in sent.attributes] == list(span.attributes)
        assert (len(sent.events), len(sent.links)) == (len(span.events), len(span.links))


def test_batches_are_grouped(telemetry: Telemetry) -> None:
    """In a request each sender occurs once, and each library once for a sender."""
    for request in read_traces(telemetry.out):
        senders = [sender.resource.SerializeToString() for sender in request.resource_spans]
        assert len(senders) == len(set(senders))
        for sender in request.resource_spans:
            libraries = [library.scope.name for library in sender.scope_spans]
            assert len(libraries) == len(set(libraries))


def test_all_points_are_in_the_files(telemetry: Telemetry) -> None:
    """The metric files hold as many points as the summary says."""
    count = 0
    for request in read_metrics(telemetry.out):
        for sender in request.resource_metrics:
            for metric in sender.scope_metrics[0].metrics:
                count += len(getattr(metric, str(metric.WhichOneof("data"))).data_points)
    assert count == telemetry.points


@pytest.mark.slow
def test_log_lines_are_the_standard_json(telemetry: Telemetry, logs: list[Log]) -> None:
    """Each line is a request in OTLP's JSON: the official class reads it once the ids are as it wants them."""
    parsed = [ParseDict(with_base64_ids(line), ExportLogsServiceRequest()) for line in read_log_lines(telemetry.out)]
    records = [
        record
        for request in parsed
        for sender in request.resource_logs
        for library in sender.scope_logs
        for record in library.log_records
    ]
    assert len(records) == telemetry.logs == len(logs)
    assert {(r.trace_id, r.span_id, r.time_unix_nano, r.severity_number) for r in records} == {
        (log.trace_id, log.span_id, log.time, log.severity) for log in logs
    }
    assert {r.body.WhichOneof("value") for r in records} == {"string_value", "kvlist_value"}


def test_log_numbers_are_as_the_standard_says(telemetry: Telemetry) -> None:
    """Ids are hexadecimal, times and whole numbers are strings, severities are numbers."""
    record = next(
        record
        for line in read_log_lines(telemetry.out)
        for sender in line["resourceLogs"]
        for library in sender["scopeLogs"]
        for record in library["logRecords"]
        if "traceId" in record and any("intValue" in pair["value"] for pair in record["attributes"])
    )
    assert len(bytes.fromhex(record["traceId"])) == 16
    assert len(bytes.fromhex(record["spanId"])) == 8
    assert isinstance(record["timeUnixNano"], str)
    assert isinstance(record["severityNumber"], int)
    assert all(isinstance(pair["value"].get("intValue", ""), str) for pair in record["attributes"])


def test_lines_hold_ten_seconds_each(telemetry: Telemetry) -> None:
    """A file of logs has many lines, each a request of its own, so that a reader can split it."""
    for path in telemetry.out.glob("logs/*"):
        assert gzip.decompress(path.read_bytes()).count(b"\n") >= 6


def with_base64_ids(value: Any) -> Any:
    """Return JSON with ids in protobuf's own mapping, which is not OTLP's."""
    if isinstance(value, list):
        return [with_base64_ids(item) for item in value]
    if not isinstance(value, dict):
        return value
    ids = {key: base64.b64encode(bytes.fromhex(value[key])).decode() for key in ("traceId", "spanId") if key in value}
    return {key: with_base64_ids(item) for key, item in value.items()} | ids
