"""A disk that is full, a backlog that is long, and keys: what senders are told."""

from collections.abc import Callable
from pathlib import Path

import grpc  # type: ignore[import-untyped]
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from neve.errors import ConfigError, EnvironmentFault
from neve.model.signals import Signal
from neve.otlp.json import to_json
from neve.raw.frame import MAGIC
from neve.state.config import StateConfig
from neve.state.keys import Keys
from neve.state.store import StateStore
from tests.api.running import JSON, PROTOBUF, LoopThread, Running, settings_for, until
from tests.api.test_grpc import refusal, status_of
from tests.telemetry import traces

HUGE = 2**60


def test_a_full_disk_becomes_pressure(
    start: Callable[..., Running],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """503 with a time to come back, on both protocols; when there is room again, everything is taken again."""
    receiver = start(raw={"min_free_bytes": HUGE})
    said = "".join([*capsys.readouterr(), caplog.text])
    assert "all requests are rejected until the disk has free space" in said
    assert f"raw.min_free_bytes is {HUGE}" in said
    early = receiver.get("/readyz")  # before anyone was refused
    assert early.status == 503
    assert f"raw.min_free_bytes is {HUGE}" in early.json["reason"]
    reply = receiver.post("/v1/traces", to_json(Signal.TRACES, traces()).encode(), JSON)
    assert (reply.status, reply.headers["retry-after"]) == (503, "1")
    told = reply.json["message"]
    assert told.startswith("the message can't be made durable now: its disk has ")
    assert told.endswith(f" bytes free, raw.min_free_bytes is {HUGE}")
    assert str(receiver.folder) not in told
    error = refusal(receiver, traces())
    assert error.code() is grpc.StatusCode.UNAVAILABLE
    assert len(status_of(error).details) == 1
    ready = receiver.get("/readyz")
    assert (ready.status, ready.json["status"]) == (503, "not ready")
    assert "raw.min_free_bytes" in ready.json["reason"]
    health = receiver.get("/healthz")
    assert (health.status, health.json) == (503, {"status": "unhealthy", "problems": [ready.json["reason"]]})
    assert receiver.get("/livez").status == 200
    assert receiver.frames() == []
    monkeypatch.setattr("neve.raw.segments.LocalSink._check_room", lambda _sink: None)
    assert receiver.post("/v1/traces", traces()).status == 200
    assert receiver.get("/readyz").status == receiver.get("/healthz").status == 200
    assert len(receiver.frames()) == 1


def test_a_receiver_without_http_is_watched_all_the_same(
    start: Callable[..., Running], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the port of `serve`, where nothing but probes is."""
    receiver = start(raw={"max_backlog_bytes": HUGE}, http=False)
    assert receiver.get("/healthz").status == receiver.get("/readyz").status == 200
    monkeypatch.setattr("os.fdatasync", _fails)
    error = refusal(receiver, traces())
    assert error.code() is grpc.StatusCode.UNAVAILABLE
    assert error.details() == "the message can't be made durable now: writing to its disk failed: input/output error"
    assert receiver.get("/healthz").status == 503
    assert receiver.counted("neve_receiver_refusals_total") == 1
    assert receiver.post("/v1/traces", traces()).status == 404


def test_a_failing_sync_is_no_acknowledgement(start: Callable[..., Running], monkeypatch: pytest.MonkeyPatch) -> None:
    """What the disk did not confirm is not confirmed to anyone, and what was confirmed before stays."""
    receiver = start()
    assert receiver.post("/v1/traces", traces(1)).status == 200
    with monkeypatch.context() as patch:
        patch.setattr("os.fdatasync", _fails)
        assert receiver.post("/v1/traces", traces(2)).status == 503
    assert receiver.post("/v1/traces", traces(3)).status == 200
    assert [frame.payload for frame in receiver.frames()] == [traces(1), traces(3)]


def _fails(_file: int) -> None:
    raise OSError(5, "Input/output error")


def test_a_long_backlog_becomes_pressure(
    start: Callable[..., Running], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """503 until ingestion has caught up."""
    monkeypatch.setattr("neve.receive.backpressure.MEASURE_SECONDS", 0.05)
    receiver = start(raw={"max_backlog_bytes": 1024 * 1024})
    assert receiver.post("/v1/traces", traces()).status == 200
    segment = tmp_path / "raw" / "otlp" / "20200101T000000-00000000" / "000000000000.raw"
    segment.parent.mkdir(parents=True)
    segment.write_bytes(MAGIC + bytes(2 * 1024 * 1024))
    until(lambda: receiver.post("/v1/traces", traces()).status == 503)
    assert refusal(receiver, traces()).code() is grpc.StatusCode.UNAVAILABLE
    assert receiver.get("/readyz").status == receiver.get("/healthz").status == 503
    assert receiver.counted("neve_receiver_backlog_bytes") > 1024 * 1024
    segment.unlink()
    until(lambda: receiver.post("/v1/traces", traces()).status == 200)


def test_keys_are_asked_for(start: Callable[..., Running], tmp_path: Path) -> None:
    """401 without one, 403 for a wrong one, and a right one says whose the data is; a revoked one is soon wrong."""
    state = StateStore(StateConfig(path=str(tmp_path / "state.db")))
    key, text = Keys(state).create("umbrella")
    receiver = start(auth="keys", key_seconds=0.2)
    reply = receiver.post("/v1/traces", traces())
    assert (reply.status, reply.headers["www-authenticate"]) == (401, "Bearer")
    assert receiver.post("/v1/traces", traces(), PROTOBUF | {"authorization": "Bearer wrong"}).status == 403
    for headers in ({"authorization": f"Bearer {text}"}, {"x-api-key": text}):
        assert receiver.post("/v1/traces", traces(), PROTOBUF | headers).status == 200
    assert receiver.post("/events/s3", b"{}", {}).status == 401
    assert refusal(receiver, traces()).code() is grpc.StatusCode.UNAUTHENTICATED
    request = ExportTraceServiceRequest.FromString(traces())
    with receiver.traces() as stub:
        stub.Export(request, metadata=[("authorization", f"Bearer {text}")], timeout=600)
        with pytest.raises(grpc.RpcError) as caught:
            stub.Export(request, metadata=[("x-api-key", "wrong")], timeout=600)
        assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED
    assert {frame.organization_id for frame in receiver.frames()} == {"umbrella"}
    Keys(state).revoke(key.id)
    state.close()
    until(lambda: receiver.post("/v1/traces", traces(), PROTOBUF | {"x-api-key": text}).status == 403)
    assert receiver.get("/healthz").status == 200


def test_an_open_receiver_does_not_start_on_the_network(loop_thread: LoopThread, tmp_path: Path) -> None:
    """It says so, and what to do."""
    settings = settings_for(tmp_path, host="0.0.0.0")  # noqa: S104 - it is refused
    with pytest.raises(ConfigError, match=r"receiver\.auth"), loop_thread.receiver(tmp_path, settings):
        pass


@pytest.mark.parametrize("taken", ["http", "grpc"])
def test_a_port_that_is_taken_is_said(
    loop_thread: LoopThread, open_receiver: Running, tmp_path: Path, taken: str
) -> None:
    """With the address, not a traceback."""
    port = open_receiver.http_port if taken == "http" else open_receiver.grpc_port
    settings = settings_for(tmp_path, None, **{f"{taken}_port": port})
    with pytest.raises(EnvironmentFault, match=f"can't listen on 127.0.0.1:{port}"):  # noqa: SIM117
        with loop_thread.receiver(tmp_path, settings):
            pass
