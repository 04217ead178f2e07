"""Answers and refusals as bytes, in the encoding of the request."""

from __future__ import annotations

import json
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
    from collections.abc import Callable

    from neve.receive.answer import Answer
    from neve.receive.refusal import Refusal

CONTENT_TYPES = {Encoding.PROTOBUF: "application/x-protobuf", Encoding.JSON: "application/json"}
REJECTED = {
    Signal.TRACES: "rejectedSpans",
    Signal.LOGS: "rejectedLogRecords",
    Signal.METRICS: "rejectedDataPoints",
}


def accepted(answer: Answer, encoding: Encoding) -> bytes:
    """The response of the standard; a message without refused records has the empty one."""
    if encoding is Encoding.JSON:
        return _accepted_json(answer)
    return PARTIAL[answer.signal](answer) if answer.rejected else b""


def refused(refusal: Refusal, encoding: Encoding, retry_after_seconds: int | None = None) -> bytes:
    """The `Status` of a refusal; with the time to come back where one is given and the sender should."""
    if encoding is Encoding.JSON:
        details = {"details": list(refusal.details)} if refusal.details else {}
        return json.dumps({"code": refusal.verdict.grpc, "message": refusal.message, **details}).encode()
    status = Status(code=refusal.verdict.grpc, message=refusal.message)
    if retry_after_seconds is not None and refusal.verdict.comes_back:
        packed = AnyMessage()
        seconds = refusal.retry_after_seconds or retry_after_seconds
        packed.Pack(RetryInfo(retry_delay=Duration(seconds=seconds)))
        status.details.append(packed)
    wire: bytes = status.SerializeToString()
    return wire


def _accepted_json(answer: Answer) -> bytes:
    if not answer.rejected:
        return b"{}"
    # JSON has 64-bit integers as text, as the standard wants them.
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
