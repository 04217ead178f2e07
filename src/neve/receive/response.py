"""Responses to clients: records accepted and rejected, or the refusal, encoded as the request was."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import RetryInfo  # type: ignore[import-untyped]
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from neve.model.signals import Signal
from neve.raw.frame import Encoding

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from neve.receive.refusal import Refusal


@dataclass(frozen=True)
class Answer:
    """Number of records of a message, of quarantined records by reason, and for some reasons the detail of one."""

    signal: Signal
    records: int = 0
    rejected: Mapping[str, int] = field(default_factory=dict)
    details: Mapping[str, str] = field(default_factory=dict)
    warning: str = ""  # about a message that was accepted without records

    @property
    def rejected_count(self) -> int:
        """Number of rejected records."""
        return sum(self.rejected.values())

    @property
    def message(self) -> str:
        """Summary of the rejected records, or the warning; empty if there are neither.

        >>> from neve.model.signals import Signal
        >>> Answer(Signal.TRACES, 500, {"missing_time": 1, "invalid_trace_id": 2}).message
        '3 of 500 spans were rejected and stored in quarantine: 2 invalid_trace_id, 1 missing_time'
        >>> Answer(Signal.TRACES, 2, {"unknown_enum": 1}, {"unknown_enum": "kind is 'X'"}).message
        "1 of 2 spans were rejected and stored in quarantine: 1 unknown_enum (kind is 'X')"
        """
        if not self.rejected:
            return self.warning
        ordered = sorted(self.rejected.items(), key=lambda item: (-item[1], item[0]))
        reasons = ", ".join(f"{count} {reason}{self._format_detail(reason)}" for reason, count in ordered)
        return (
            f"{self.rejected_count} of {self.records} {self.signal.record} were rejected and stored in quarantine: "
            f"{reasons}"
        )

    def _format_detail(self, reason: str) -> str:
        return f" ({self.details[reason]})" if reason in self.details else ""


CONTENT_TYPES = {Encoding.PROTOBUF: "application/x-protobuf", Encoding.JSON: "application/json"}
REJECTED = {
    Signal.TRACES: "rejectedSpans",
    Signal.LOGS: "rejectedLogRecords",
    Signal.METRICS: "rejectedDataPoints",
}


def encode_answer(answer: Answer, encoding: Encoding) -> bytes:
    """Encode the OTLP response; it is empty if no records were rejected and there is no warning."""
    if encoding is Encoding.JSON:
        return _encode_answer_json(answer)
    return PARTIAL[answer.signal](answer) if answer.message else b""


def encode_refusal(refusal: Refusal, encoding: Encoding, retry_after_seconds: int | None = None) -> bytes:
    """Encode the `Status` of a refusal, with the retry delay if one is given and the client should retry."""
    if encoding is Encoding.JSON:
        details = {"details": list(refusal.details)} if refusal.details else {}
        return json.dumps({"code": refusal.verdict.grpc, "message": refusal.message, **details}).encode()
    status = Status(code=refusal.verdict.grpc, message=refusal.message)
    if retry_after_seconds is not None and refusal.verdict.is_retryable:
        packed = AnyMessage()
        seconds = refusal.retry_after_seconds or retry_after_seconds
        packed.Pack(RetryInfo(retry_delay=Duration(seconds=seconds)))
        status.details.append(packed)
    wire: bytes = status.SerializeToString()
    return wire


def _encode_answer_json(answer: Answer) -> bytes:
    if not answer.message:
        return b"{}"
    # The standard maps 64-bit integers to JSON text.
    partial = {REJECTED[answer.signal]: str(answer.rejected_count), "errorMessage": answer.message}
    return json.dumps({"partialSuccess": partial}).encode()


def _partial_traces(answer: Answer) -> bytes:
    response = ExportTraceServiceResponse()
    response.partial_success.rejected_spans = answer.rejected_count
    response.partial_success.error_message = answer.message
    return response.SerializeToString()


def _partial_logs(answer: Answer) -> bytes:
    response = ExportLogsServiceResponse()
    response.partial_success.rejected_log_records = answer.rejected_count
    response.partial_success.error_message = answer.message
    return response.SerializeToString()


def _partial_metrics(answer: Answer) -> bytes:
    response = ExportMetricsServiceResponse()
    response.partial_success.rejected_data_points = answer.rejected_count
    response.partial_success.error_message = answer.message
    return response.SerializeToString()


PARTIAL: dict[Signal, Callable[[Answer], bytes]] = {
    Signal.TRACES: _partial_traces,
    Signal.LOGS: _partial_logs,
    Signal.METRICS: _partial_metrics,
}
