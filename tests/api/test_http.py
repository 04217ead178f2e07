"""OTLP over HTTP: every status of the standard, through a real socket."""

import gzip
import http.client
import json
import socket
import zlib
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest
import zstandard
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from neve.ingest.config import IngestConfig
from neve.ingest.stream.raw_frames import open_frame
from neve.model.signals import Signal
from neve.otlp.json import to_json
from neve.otlp.json_enums import LISTS
from neve.raw.frame import Encoding, Kind, Packing
from neve.raw.zone import EVENTS
from neve.receive.response import REJECTED
from tests.api.running import JSON, PROTOBUF, Running, until
from tests.receive.doubles import deep_traces, span, traces_of
from tests.telemetry import logs, metrics, traces

MB = 1024 * 1024
SAMPLES: dict[str, tuple[Callable[..., bytes], Kind]] = {
    "traces": (traces, Kind.TRACES),
    "logs": (logs, Kind.LOGS),
    "metrics": (metrics, Kind.METRICS),
}
PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "zstd": zstandard.compress,
    "deflate": zlib.compress,
    "identity": bytes,
}


@pytest.mark.parametrize("signal", list(SAMPLES))
@pytest.mark.parametrize("packing", list(PACKERS))
def test_every_signal_is_taken_in_every_packing(open_receiver: Running, signal: str, packing: str) -> None:
    """The answer is empty, and the bytes are in the zone as they were sent."""
    make, kind = SAMPLES[signal]
    body = PACKERS[packing](make(5, service=f"{signal}-{packing}"))
    reply = open_receiver.post(f"/v1/{signal}", body, PROTOBUF | {"content-encoding": packing})
    assert (reply.status, reply.body, reply.headers["content-type"]) == (200, b"", "application/x-protobuf")
    [frame] = [frame for frame in open_receiver.frames() if frame.payload == body]
    name = "none" if packing == "identity" else packing
    assert (frame.kind, frame.organization_id, frame.encoding) == (kind, "acme", Encoding.PROTOBUF)
    assert frame.packing is Packing[name.upper()]


@pytest.mark.parametrize("signal", list(SAMPLES))
@pytest.mark.parametrize("packing", list(PACKERS))
def test_json_is_taken_and_kept_as_protobuf(open_receiver: Running, signal: str, packing: str) -> None:
    """With a charset too, as some clients send it."""
    wire = SAMPLES[signal][0](2, service=f"json-{signal}-{packing}")
    text = to_json(Signal(signal), wire).encode()
    headers = {"content-type": "application/json; charset=utf-8", "content-encoding": packing}
    reply = open_receiver.post(f"/v1/{signal}", PACKERS[packing](text), headers)
    assert (reply.status, reply.json, reply.headers["content-type"]) == (200, {}, "application/json")
    assert wire in [frame.payload for frame in open_receiver.frames()]


def test_partial_success_is_told_in_both_encodings(open_receiver: Running) -> None:
    """How many were refused and why, with status 200, even when all were."""
    wire = traces_of(span(trace_id=b"x"), span(start_time_unix_nano=2**63))
    response = ExportTraceServiceResponse.FromString(open_receiver.post("/v1/traces", wire).body)
    assert response.partial_success.rejected_spans == 2
    assert "1 invalid_trace_id, 1 timestamp_in_future" in response.partial_success.error_message
    reply = open_receiver.post("/v1/traces", to_json(Signal.TRACES, wire).encode(), JSON)
    assert (reply.status, reply.json["partialSuccess"]["rejectedSpans"]) == (200, "2")


IDS = {"traceId": "5b8efff798038103d269b633813fc60c", "spanId": "eee19b7ec3c1b174"}
TIMES = {"startTimeUnixNano": "1700000000000000000", "endTimeUnixNano": "1700000000000000001"}
POINT = {"timeUnixNano": "1700000000000000000", "asInt": "1"}
UNKNOWN: dict[str, tuple[str, dict[str, Any], dict[str, Any], int]] = {
    "kind": ("traces", IDS | TIMES, {"kind": "SPAN_KIND_BROKER"}, 1),
    "code": ("traces", IDS | TIMES, {"status": {"code": "STATUS_CODE_BAD"}}, 1),
    "severityNumber": ("logs", {"timeUnixNano": "1700000000000000000"}, {"severityNumber": "LOUD"}, 1),
    "aggregationTemporality": (
        "metrics",
        {"name": "m", "gauge": {"dataPoints": [POINT]}},
        {"gauge": None, "sum": {"aggregationTemporality": "BOTH", "dataPoints": [POINT, POINT, POINT]}},
        3,
    ),
}


@pytest.mark.parametrize("packing", ["identity", "gzip"])
@pytest.mark.parametrize("key", UNKNOWN)
def test_an_unknown_name_of_an_enum_refuses_its_record_alone(open_receiver: Running, key: str, packing: str) -> None:
    """It is counted with its name, and ingestion finds it and the others in the stored message."""
    signal, good, wrong, count = UNKNOWN[key]
    resources, scopes, records = LISTS[signal]
    document = {resources: [{scopes: [{records: [good, good | wrong, good]}]}]}
    body = PACKERS[packing](json.dumps(document).encode())
    reply = open_receiver.post(f"/v1/{signal}", body, JSON | {"content-encoding": packing})
    partial = reply.json["partialSuccess"]
    assert (reply.status, partial[REJECTED[Signal(signal)]]) == (200, str(count))
    name = next(text for text in ("SPAN_KIND_BROKER", "STATUS_CODE_BAD", "LOUD", "BOTH") if text in json.dumps(wrong))
    assert f"{count} of {count + 2} {Signal(signal).record} were rejected" in partial["errorMessage"]
    assert f"{count} unknown_enum ({key} is {name!r}, expected a number or one of " in partial["errorMessage"]
    [frame] = [frame for frame in open_receiver.frames() if frame.payload == body]
    [message], [bad] = open_frame(Signal(signal), 0, frame, IngestConfig())
    assert (bad.reason, json.loads(bad.payload)[resources][0][scopes][0][records]) == ("unknown_enum", [good | wrong])
    assert json.loads(to_json(Signal(signal), message))[resources][0][scopes][0][records] == [good, good]


def test_a_message_of_unknown_names_alone_is_stored(open_receiver: Running) -> None:
    """All of its records are refused, and all are kept for the quarantine."""
    before = len(open_receiver.frames())
    document = {"resourceLogs": [{"scopeLogs": [{"logRecords": [{"severityNumber": "LOUD"}] * 2}]}]}
    reply = open_receiver.post("/v1/logs", json.dumps(document).encode(), JSON)
    assert (reply.status, reply.json["partialSuccess"]["rejectedLogRecords"]) == (200, "2")
    assert len(open_receiver.frames()) == before + 1


@pytest.mark.parametrize(
    ("path", "body", "words"),
    [
        ("/v1/logs", {"logs": [{"body": "x"}]}, "has no resourceLogs, but logs"),
        ("/v1/traces", {"resourceLogs": []}, "has no resourceSpans, but resourceLogs, which belong to /v1/logs"),
        ("/v1/metrics", {"resource_spans": []}, "but resource_spans, which belong to /v1/traces"),
        ("/v1/logs", {"x" * 9999: 1, **{str(number): 1 for number in range(100)}}, f"but {'x' * 40}, 0, 1, 2, 3"),
        ("/v1/logs", {"padding": "x" * 70_000}, "has no records in resourceLogs"),
    ],
)
def test_json_of_unknown_fields_is_accepted_with_a_warning(
    open_receiver: Running, path: str, body: dict[str, object], words: str
) -> None:
    """OTLP lets a server ignore fields, and warn in a partial success without rejected records."""
    before = len(open_receiver.frames())
    reply = open_receiver.post(path, json.dumps(body).encode(), JSON)
    partial = reply.json["partialSuccess"]
    assert (reply.status, set(partial.values()) - {partial["errorMessage"]}) == (200, {"0"})
    assert partial["errorMessage"].startswith("nothing was stored: the message ")
    assert partial["errorMessage"].endswith(words)
    assert len(open_receiver.frames()) == before
    metric = f'neve_receiver_unrecognized_messages_total{{signal="{path.removeprefix("/v1/")}"}}'
    assert metric in open_receiver.get("/metrics").body.decode()


@pytest.mark.parametrize("body", [{}, {"resourceLogs": []}, {"resource_logs": []}, {"resourceLogs": [], "more": 1}])
def test_json_without_records_has_no_warning(open_receiver: Running, body: dict[str, object]) -> None:
    """An exporter may have nothing to send."""
    reply = open_receiver.post("/v1/logs", json.dumps(body).encode(), JSON)
    assert (reply.status, reply.json) == (200, {})


def test_an_empty_message_is_fine(open_receiver: Running) -> None:
    """There is nothing to keep."""
    before = len(open_receiver.frames())
    assert [open_receiver.post("/v1/traces", b"").status, open_receiver.post("/v1/logs", b"{}", JSON).status] == [
        200,
        200,
    ]
    assert len(open_receiver.frames()) == before


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        (PROTOBUF, b"\xff\xff\xff"),
        (PROTOBUF, traces()[:-3]),
        (PROTOBUF | {"content-encoding": "gzip"}, b"not gzip"),
        (PROTOBUF | {"content-encoding": "zstd"}, zstandard.compress(traces())[:-2]),
    ],
)
def test_malformed_protobuf_is_a_status_in_protobuf(
    open_receiver: Running, headers: dict[str, str], body: bytes
) -> None:
    """400, with the code of an invalid argument and words."""
    reply = open_receiver.post("/v1/traces", body, headers)
    status = Status.FromString(reply.body)
    assert (reply.status, reply.headers["content-type"], status.code) == (400, "application/x-protobuf", 3)
    assert status.message


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"resourceSpans": 1}', b"\x00\xff", b'{"a":' + b"[" * 10_000])
def test_malformed_json_is_a_status_in_json(open_receiver: Running, body: bytes) -> None:
    """400 as well; 10,000 brackets harm nobody."""
    reply = open_receiver.post("/v1/traces", body, JSON)
    assert (reply.status, reply.json["code"]) == (400, 3)


def test_deep_protobuf_harms_nobody(open_receiver: Running) -> None:
    """A value 10,000 levels deep is kept; ingestion puts it into quarantine."""
    assert open_receiver.post("/v1/traces", deep_traces(10_000)).status == 200
    assert open_receiver.get("/healthz").status == 200


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("POST", "/v1/traces", {"content-type": "text/plain"}, 415),
        ("POST", "/v1/traces", {}, 415),
        ("POST", "/v1/traces", PROTOBUF | {"content-encoding": "br"}, 415),
        ("GET", "/v1/traces", PROTOBUF, 405),
        ("PUT", "/v1/logs", PROTOBUF, 405),
        ("POST", "/v1/profiles", PROTOBUF, 404),
        ("POST", "/metrics", PROTOBUF, 405),
    ],
)
def test_what_is_not_served_is_said(
    open_receiver: Running, method: str, path: str, headers: dict[str, str], status: int
) -> None:
    """With a status of its own, and JSON where the client did not say what it reads."""
    reply = open_receiver.post(path, traces(), headers, method)
    assert reply.status == status
    if status == 405:
        assert "allow" in reply.headers


def test_a_message_over_size_is_refused(start: Callable[..., Running]) -> None:
    """413, whether the client says the size, sends it in chunks, or packed it."""
    receiver = start(max_message_bytes=10_000, grpc=False)
    body = traces(2000)
    assert receiver.post("/v1/traces", body).status == 413
    assert receiver.post("/v1/traces", gzip.compress(body), PROTOBUF | {"content-encoding": "gzip"}).status == 413
    chunks: Any = iter([body[:5000], body[5000:12_000], body[12_000:]])
    assert receiver.post("/v1/traces", chunks).status == 413
    assert receiver.post("/v1/traces", traces(3)).status == 200
    assert len(receiver.frames()) == 1
    assert receiver.counted("neve_receiver_refusals_total", reason="too_large") == 3


def test_a_connection_survives_a_refusal(start: Callable[..., Running]) -> None:
    """The rest of a refused body is read and thrown away, so that the next request is understood."""
    receiver = start(max_message_bytes=10_000, grpc=False)
    connection = http.client.HTTPConnection("127.0.0.1", receiver.http_port, timeout=600)
    for body, expected in ((bytes(300_000), 413), (traces(), 200), (b"\xff", 400), (traces(), 200)):
        connection.request("POST", "/v1/traces", body, PROTOBUF)
        response = connection.getresponse()
        response.read()
        assert response.status == expected
    connection.close()


@pytest.mark.slow
def test_more_than_the_budget_is_told_to_come_back(start: Callable[..., Running]) -> None:
    """429 with a time while others are being worked on; when they are gone, it is taken."""
    receiver = start(max_inflight_bytes=MB, max_message_bytes=MB // 2, retry_after_seconds=7, grpc=False)
    body = traces(6000)
    packed = gzip.compress(body)
    head = (
        b"POST /v1/traces HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/x-protobuf\r\n"
        b"content-length: 500000\r\n\r\n"
    )
    with ExitStack() as slow:
        for _ in range(2):
            connection = slow.enter_context(socket.create_connection(("127.0.0.1", receiver.http_port)))
            connection.sendall(head + bytes(450_000))
        until(lambda: receiver.counted("neve_receiver_inflight_bytes") >= 900_000)
        reply = receiver.post("/v1/traces", body)
        assert (reply.status, reply.headers["retry-after"]) == (429, "7")
        assert receiver.post("/v1/traces", packed, PROTOBUF | {"content-encoding": "gzip"}).status == 429
        assert receiver.post("/v1/traces", traces()).status == 200
    until(lambda: receiver.counted("neve_receiver_inflight_bytes") == 0)
    assert receiver.post("/v1/traces", body).status == 200
    assert receiver.counted("neve_receiver_inflight_bytes") == 0


def test_events_go_to_their_own_zone(open_receiver: Running) -> None:
    """What is no JSON object is refused, and so is a large one."""
    body = json.dumps({"path": "s3://raw/acme/a.json"}).encode()
    assert open_receiver.post("/events/s3", body, JSON).status == 200
    assert open_receiver.frames(EVENTS)[-1].payload == body
    assert open_receiver.post("/events/s3", b"[]", JSON).status == 400
    large = open_receiver.post("/events/s3", b"{" + b" " * 1024 * 1024 + b"}", JSON)
    assert (large.status, "max_message_bytes" in large.json["message"]) == (413, False)


def test_those_who_watch_are_answered(open_receiver: Running) -> None:
    """Alive, well, ready, and what was counted."""
    assert open_receiver.get("/livez").json == {"status": "alive"}
    assert open_receiver.get("/healthz").json == {"status": "healthy"}
    assert open_receiver.get("/readyz").json == {"status": "ready"}
    open_receiver.post("/v1/traces", traces_of(span(), span(span_id=b"")))
    assert open_receiver.counted("neve_receiver_records_total", signal="traces") >= 2
    assert open_receiver.counted("neve_receiver_rejected_records_total", reason="invalid_span_id") >= 1
    assert open_receiver.counted("neve_receiver_durable_seconds_count") >= 1
