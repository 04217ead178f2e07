"""Answers are those of the standard, in the encoding of the request."""

import json
from typing import Any

import pytest
from google.protobuf.json_format import Parse
from google.rpc.error_details_pb2 import RetryInfo  # type: ignore[import-untyped]
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from neve.model.signals import Signal
from neve.raw.frame import Encoding
from neve.receive.refusal import Refusal, Verdict
from neve.receive.response import Answer, encode_answer, encode_refusal

RESPONSES: dict[Signal, tuple[Any, str]] = {
    Signal.TRACES: (ExportTraceServiceResponse, "rejected_spans"),
    Signal.LOGS: (ExportLogsServiceResponse, "rejected_log_records"),
    Signal.METRICS: (ExportMetricsServiceResponse, "rejected_data_points"),
}


@pytest.mark.parametrize("signal", list(Signal))
def test_partial_success_says_how_many_and_why(signal: Signal) -> None:
    """In protobuf, and in JSON that protobuf's own reader takes for the same."""
    kind, field = RESPONSES[signal]
    answer = Answer(signal, 10, {"missing_time": 1, "timestamp_in_future": 2})
    response = kind.FromString(encode_answer(answer, Encoding.PROTOBUF))
    assert getattr(response.partial_success, field) == 3
    assert response.partial_success.error_message == (
        f"3 of 10 {signal.record} were rejected and stored in quarantine: 2 timestamp_in_future, 1 missing_time"
    )
    assert Parse(encode_answer(answer, Encoding.JSON), kind()) == response


@pytest.mark.parametrize("signal", list(Signal))
def test_full_success_has_no_partial_success(signal: Signal) -> None:
    """The standard wants it unset."""
    assert encode_answer(Answer(signal, 10), Encoding.PROTOBUF) == b""
    assert encode_answer(Answer(signal, 10), Encoding.JSON) == b"{}"


@pytest.mark.parametrize("verdict", list(Verdict))
def test_a_refusal_says_when_to_come_back_only_where_one_should(verdict: Verdict) -> None:
    """A status with the code and the words; clients drop what has no time to come back."""
    refusal = Refusal(verdict, "reason", "the words")
    status = Status.FromString(encode_refusal(refusal, Encoding.PROTOBUF, 7))
    assert (status.code, status.message) == (verdict.grpc, "the words")
    assert len(status.details) == (1 if verdict in (Verdict.BUSY, Verdict.UNAVAILABLE) else 0)
    for detail in status.details:
        info = RetryInfo()
        assert detail.Unpack(info)
        assert info.retry_delay.seconds == 7
    assert json.loads(encode_refusal(refusal, Encoding.JSON)) == {"code": verdict.grpc, "message": "the words"}
