"""A decoder that a message can kill, as a fault of a native library would."""

import os
import signal

import pyarrow as pa
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ResourceLogs, ScopeLogs

from neve.ingest.decoder import decode_all
from neve.model.signals import Signal
from neve.otlp import Decoded, Intake
from tests.telemetry import NOW

POISON = b"this message kills its worker"


def message() -> bytes:
    """A message that kills the process that decodes it."""
    record = LogRecord(time_unix_nano=NOW, body=AnyValue(string_value=POISON.decode()))
    group = ResourceLogs(scope_logs=[ScopeLogs(log_records=[record])])
    return ExportLogsServiceRequest(resource_logs=[group]).SerializeToString()


def decode(kind: Signal, messages: pa.BinaryArray, intake: Intake) -> Decoded:
    """Decode messages; one that holds the poison ends the process, with nothing to catch."""
    if any(POISON in message for message in messages.to_pylist()):
        os.kill(os.getpid(), signal.SIGKILL)
    return decode_all(kind, messages, intake)
