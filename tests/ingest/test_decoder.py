"""A message that breaks the decoder costs itself only."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ResourceLogs, ScopeLogs
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from neve.ingest import decoder
from neve.ingest.decoder import decode_all, decode_within
from neve.model.signals import Signal
from neve.otlp import Decoded, Intake, decode
from neve.otlp.bounds import Bounds
from tests.telemetry import INTAKE, NOW, text, traces

if TYPE_CHECKING:
    import pytest

POISON = b"poison"


def test_a_message_that_breaks_the_decoder_is_refused_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever it stands among others, and also when there are several."""

    def brittle(signal: Signal, messages: pa.BinaryArray, intake: Intake) -> Decoded:
        if POISON in messages.to_pylist():
            raise RuntimeError("nobody has foreseen this")
        return decode(signal, messages, intake)

    monkeypatch.setattr(decoder, "decode", brittle)
    messages = pa.array([traces(2), POISON, traces(1, first=5), traces(1, first=9), POISON], pa.binary())
    found = decode_all(Signal.TRACES, messages, INTAKE)
    assert found.batch.num_rows == 4
    assert [(bad.reason, bad.message, bad.payload) for bad in found.rejected] == [
        ("undecodable_message", 1, POISON),
        ("undecodable_message", 4, POISON),
    ]
    alone = decode_all(Signal.TRACES, messages.slice(1, 1), INTAKE)
    assert (alone.batch.num_rows, alone.batch.schema) == (0, found.batch.schema)


def test_a_message_that_would_fill_the_memory_is_refused() -> None:
    """A resource of 100 kB that 30,000 records share would be 3 GB of rows."""
    resource = Resource(attributes=[text("blob", "x" * 100_000)])
    records = [LogRecord(time_unix_nano=NOW + number) for number in range(30_000)]
    group = ResourceLogs(resource=resource, scope_logs=[ScopeLogs(log_records=records)])
    message = ExportLogsServiceRequest(resource_logs=[group]).SerializeToString()
    found = decode_all(Signal.LOGS, pa.array([message, message], pa.binary()), INTAKE)
    assert [bad.reason for bad in found.rejected] == ["overgrown_message"] * 2
    assert found.batch.num_rows == 0


def test_messages_of_others_are_decoded_within_their_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """In several runs as in one; what is over a bound is refused with its place, and nothing of it is decoded."""
    monkeypatch.setattr("neve.ingest.decoder.FOREIGN_BYTES", 1)
    messages = pa.array([traces(2), traces(9, first=20), b"\xff", traces(1, first=5)], pa.binary())
    found = decode_within(Bounds(records=5), Signal.TRACES, messages, INTAKE)
    assert found.batch.num_rows == 3
    assert [(bad.reason, bad.message) for bad in found.rejected] == [("overgrown_message", 1), ("malformed_message", 2)]
    assert decode_within(Bounds(), Signal.TRACES, messages.slice(0, 0), INTAKE).batch.num_rows == 0
