"""No marker reaches a file: through HTTP, gRPC, the raw zone, files of every format, and Kafka."""

from __future__ import annotations

import asyncio
import csv
import gzip
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc  # type: ignore[import-untyped]
import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2_grpc import LogsServiceStub
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2_grpc import MetricsServiceStub
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub

from neve.api.otlp_grpc import build_grpc_server
from neve.api.otlp_http import build_application
from neve.app.serve.receiver import receiver_parts
from neve.app.settings import Settings
from neve.ingest.batch_writer import Publisher
from neve.ingest.files.job import FileRequest, ingest_files
from neve.ingest.stream.raw_zone import RawFeed, RawStream
from neve.ingest.stream.segment_job import SegmentJob
from neve.ingest.stream.writer import StreamWriter
from neve.model.signals import Signal
from neve.otlp.json import CLASSES, to_json
from neve.raw.zone import OTLP, RawZone
from tests.erase.copies import find_marker
from tests.ingest.stream.test_kafka import Topics
from tests.ingest.stream.test_kafka import run as run_kafka
from tests.redaction.fill import NOW, filled

if TYPE_CHECKING:
    from neve.lake.lake import Lake
    from tests.parts.kafka import Kafka

MARKER = "ada.lovelace-4711@example.com"
RULES = {
    "salt": "0123456789abcdef",
    "rules": [{"pattern": r"\b[\w.+-]+@[\w-]+\.[a-z]+\b", "action": "hash"}, {"keys": ["password"], "action": "drop"}],
}
STUBS: dict[Signal, Any] = {
    Signal.TRACES: TraceServiceStub,
    Signal.LOGS: LogsServiceStub,
    Signal.METRICS: MetricsServiceStub,
}


def make_settings(folder: Path, lake: Lake) -> Settings:
    """Rules for all organizations, with a raw zone and a state store in the folder."""
    return Settings.model_validate(
        {
            "organization": "acme",
            "lake": {"warehouse": lake.lake.location},
            "state": {"path": str(folder / "state.db")},
            "raw": {"location": str(folder / "raw"), "min_free_bytes": 0},
            "ingest": {"redaction": RULES, "checkpoints": str(folder / "checkpoints")},
            "receiver": {"grpc_port": 0, "check_processes": 1, "large_bytes": 100_000},
        }
    )


def json_with_unknown_enum() -> bytes:
    """A document with one record that protobuf can't represent."""
    document = json.loads(to_json(Signal.LOGS, filled(Signal.LOGS, f"enum {MARKER}")))
    records = document["resourceLogs"][0]["scopeLogs"][0]["logRecords"]
    records.append({**records[0], "severityNumber": "SEVERITY_NUMBER_LOUD"})
    return json.dumps(document).encode()


async def send_all(settings: Settings) -> list[int]:
    """Send messages with markers over HTTP and gRPC; return the statuses over HTTP."""
    statuses = []
    async with receiver_parts(settings) as parts:
        application = build_application(parts.receiver, parts.events, parts.guard)
        transport = httpx.ASGITransport(application, client=("127.0.0.1", 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost:4318") as client:
            for signal in Signal:
                body = filled(signal, MARKER)
                large = b"".join(filled(signal, f"{number} {MARKER}") for number in range(60))
                kind = {"content-type": "application/x-protobuf"}
                for headers, data in (
                    (kind, body),
                    ({**kind, "content-encoding": "gzip"}, gzip.compress(filled(signal, f"zip {MARKER}"))),
                    (kind, large),
                    (kind, body[:-3]),  # truncated
                    ({"content-type": "application/json"}, to_json(signal, filled(signal, f"json {MARKER}")).encode()),
                ):
                    answer = await client.post(f"/v1/{signal.value}", headers=headers, content=data)
                    statuses.append(answer.status_code)
            answer = await client.post(
                "/v1/logs", headers={"content-type": "application/json"}, content=json_with_unknown_enum()
            )
            statuses.append(answer.status_code)
        server = build_grpc_server(parts.receiver, parts.guard)
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            for signal in Signal:
                await STUBS[signal](channel).Export(CLASSES[signal].FromString(filled(signal, f"grpc {MARKER}")))
        await server.stop(None)
    return statuses


def ingest_raw(lake: Lake, settings: Settings) -> dict[str, int]:
    """Ingest what was received."""
    zone = RawZone.of(settings.raw.location, settings.s3, OTLP)
    writer = StreamWriter("raw", Publisher(lake, settings.ingest, "ingest-stream"))
    stream = RawStream(writer, RawFeed(zone, settings.ingest.batch_bytes, settings.raw.keep_seconds))
    return dict(SegmentJob(lake, settings.ingest, "raw", stream).run(until_caught_up=True).records)


def test_nothing_that_was_received_has_the_marker(spark_lake: Lake, tmp_path: Path) -> None:
    """Over HTTP and gRPC, packed, large, truncated and as JSON: neither in the raw zone nor in tables or quarantine."""
    settings = make_settings(tmp_path, spark_lake)
    statuses = asyncio.run(send_all(settings))
    assert statuses == [*(200, 200, 200, 400, 200) * 3, 200]
    assert find_marker(tmp_path / "raw", MARKER) == []
    records = ingest_raw(spark_lake, settings)
    # One record in each message, but one of each kind of points; plain, zip, large, JSON and gRPC, and for logs
    # the document whose other record has no valid severity.
    assert records == {"traces": 64, "logs": 65, "metrics": 64 * 5}
    assert find_marker(tmp_path, MARKER) == []
    joined = {
        row["message"] for row in spark_lake.table("logs").scan(selected_fields=("message",)).to_arrow().to_pylist()
    }
    assert all("hmac:" in message for message in joined)


def write_files(folder: Path) -> None:
    """Files of every format with markers in every place, and broken ones."""
    folder.mkdir()
    rows: list[dict[str, Any]] = [
        {"timestamp": NOW // 10**9, "message": f"mail to {MARKER}", "password": "hunter2-marker", "who": MARKER}
        for _ in range(3)
    ]
    lines = "\n".join(json.dumps({**row, "nested": {"deep": [MARKER]}}) for row in rows)
    (folder / "a.jsonl").write_text(lines + f'\n{{"broken": "{MARKER}\n')
    text = io.StringIO()
    writer = csv.DictWriter(text, rows[0])
    writer.writeheader()
    writer.writerows(rows)
    (folder / "b.csv").write_text(text.getvalue() + f'not a time,{MARKER},x,"y\n')
    pq.write_table(pa.Table.from_pylist(rows), folder / "c.parquet")
    (folder / "d.log").write_text(f"2026-01-31T10:00:00Z INFO mail to {MARKER}\n" * 3)
    (folder / "e.jsonl.gz").write_bytes(gzip.compress(lines.encode())[:-9])
    (folder / "f.parquet").write_bytes(b"PAR1" + MARKER.encode() + b"PAR1")
    for signal in Signal:
        (folder / f"{signal.value}.pb").write_bytes(filled(signal, MARKER))
        (folder / f"{signal.value}-cut.pb").write_bytes(filled(signal, MARKER)[:-3])
        (folder / f"{signal.value}.json").write_text(to_json(signal, filled(signal, f"json {MARKER}")))
    (folder / "logs-enum.json").write_bytes(json_with_unknown_enum())


def test_nothing_of_files_has_the_marker(spark_lake: Lake, tmp_path: Path) -> None:
    """JSON lines, CSV, Parquet, log lines, OTLP as JSON and protobuf; rejected ones are withheld with their reason."""
    settings = make_settings(tmp_path, spark_lake)
    write_files(tmp_path / "sources")
    result = ingest_files(spark_lake, settings.ingest, FileRequest((str(tmp_path / "sources"),), "acme"))
    assert result.rejected
    places = [path for path in tmp_path.iterdir() if path.name != "sources"]
    for marker in (MARKER, "hunter2-marker"):
        assert [found for place in places if place.is_dir() for found in find_marker(place, marker)] == []
    assert find_marker(_warehouse(spark_lake), MARKER) == []
    rejected = spark_lake.table("quarantine").scan().to_arrow().to_pylist()
    assert {row["reason"] for row in rejected} >= {"malformed_record", "malformed_message", "unreadable_file"}
    logs = spark_lake.table("logs").scan().to_arrow().to_pylist()
    assert len(logs) >= 3 * 4
    assert any("hmac:" in row["message"] for row in logs)


def _warehouse(lake: Lake) -> Path:
    return Path(lake.lake.location.removeprefix("file://"))


@pytest.mark.parts
def test_nothing_of_kafka_has_the_marker(spark_lake: Lake, tmp_path: Path, kafka: Kafka) -> None:
    """Protobuf, JSON and malformed messages."""
    topics = Topics(kafka.bootstrap)
    for signal in Signal:
        whole = filled(signal, MARKER)
        as_json = to_json(signal, filled(signal, f"json {MARKER}")).encode()
        topics.send(signal, whole, as_json, whole[:-3], as_json[:-3], b"{" + MARKER.encode())
    topics.send(Signal.LOGS, json_with_unknown_enum())
    result = run_kafka(spark_lake, tmp_path, topics, redaction=RULES)
    assert result.records["traces"] == 2
    assert sum(result.rejected.values()) >= 9
    assert find_marker(tmp_path, MARKER) == []
    assert find_marker(_warehouse(spark_lake), MARKER) == []
