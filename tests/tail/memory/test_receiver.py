"""From the receiver's doors through memory to destinations."""

from __future__ import annotations

import gzip
import http.client
import json
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc  # type: ignore[import-untyped]
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub

from neve.app.settings import Settings
from neve.app.tail_memory import run_memory
from neve.model.signals import Signal
from neve.otlp.json import to_json
from neve.raw.frame import decode
from tests.tail.export.batches import spans_of
from tests.tail.export.servers import http_server
from tests.tail.memory.doors import HOST, open_doors
from tests.telemetry import logs, traces

if TYPE_CHECKING:
    from collections.abc import Iterator

    from neve.app.tail_memory import MemoryRun

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
QUICK = {"inactivity_seconds": 0.3, "interval_seconds": 0.1, "storage": "memory", "percentage": 100}


def settings_for(folder: Path, destination: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """Settings of a selector that decides soon."""
    return {
        "organization": "acme",
        "raw": {"location": str(folder / "raw"), "min_free_bytes": 0},
        "state": {"path": str(folder / "state.db")},
        "receiver": {"http_port": 0, "grpc": False, "drain_seconds": 5},
        "tail": {**QUICK, "export": {"destinations": [{"name": "there", **destination}]}},
        **changes,
    }


@contextmanager
def running(settings: Settings, **options: Any) -> Iterator[tuple[int, list[MemoryRun]]]:
    """A selector in this process, its port, and what it did when it has stopped."""
    stop, is_ready, ports, runs = threading.Event(), threading.Event(), [0], []

    def ready(addresses: tuple[int, int]) -> None:
        ports[0] = addresses[0]
        is_ready.set()

    def work() -> None:
        runs.append(run_memory(settings, doors=open_doors, ready=ready, stop=stop, tell=lambda _r: None, **options))

    thread = threading.Thread(target=work)
    thread.start()
    assert is_ready.wait(600)
    try:
        yield ports[0], runs
    finally:
        stop.set()
        thread.join(600)


def post(port: int, path: str, body: bytes, **headers: str) -> tuple[int, bytes]:
    """One request."""
    connection = http.client.HTTPConnection(HOST, port, timeout=600)
    try:
        connection.request("POST", path, body, {"content-type": "application/x-protobuf", **headers})
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def until(condition: Any, seconds: float = 600.0) -> None:
    """Wait for something to be so."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_from_http_to_http(tmp_path: Path) -> None:
    """Protobuf, packed and JSON messages become traces; kept ones arrive whole, while it runs and when it stops."""
    with http_server() as there:
        settings = Settings.model_validate(settings_for(tmp_path, {"kind": "otlp_http", "endpoint": there.endpoint}))
        with running(settings) as (port, runs):
            assert post(port, "/v1/traces", traces(4))[0] == 200
            assert post(port, "/v1/traces", gzip.compress(traces(4, first=4)), **{"content-encoding": "gzip"})[0] == 200
            until(lambda: len(spans_of(*(request.body for request in there.taken))) == 8)
            text = to_json(Signal.TRACES, traces(2, first=8)).encode()
            assert post(port, "/v1/traces", text, **{"content-type": "application/json"})[0] == 200
        assert len(set(spans_of(*(request.body for request in there.taken)))) == 10
        assert (runs[0].decided.traces, runs[0].sampled.spans, runs[0].undelivered) == (10, 10, {})
        assert not (tmp_path / "raw").exists()


def test_only_traces_are_taken(tmp_path: Path) -> None:
    """What has no place here is refused for good, in words; nothing answers for it."""
    settings = Settings.model_validate(settings_for(tmp_path, {"kind": "otlp_files", "folder": str(tmp_path / "out")}))
    with running(settings) as (port, _runs):
        for path, body, kind in (("/v1/logs", logs(2), "x-protobuf"), ("/events/s3", b"{}", "json")):
            status, words = post(port, path, body, **{"content-type": f"application/{kind}"})
            assert status == 415
            assert b"feeds tail sampling in memory" in words
        assert post(port, "/v1/traces", b"\xff\xff")[0] == 400


def test_beside_the_raw_zone(tmp_path: Path) -> None:
    """Everything is durable there too, logs with it."""
    out = tmp_path / "out"
    settings = Settings.model_validate(
        settings_for(tmp_path, {"kind": "otlp_files", "folder": str(out), "compression": "none"})
    )
    with running(settings, beside_raw=True) as (port, runs):
        assert post(port, "/v1/traces", traces(3))[0] == 200
        assert post(port, "/v1/logs", logs(2))[0] == 200
    segments = sorted((tmp_path / "raw" / "otlp").glob("*/*.raw"))
    frames = [frame for path in segments for frame in decode(path.read_bytes()).frames]
    assert [frame.payload for frame in frames] == [traces(3), logs(2)]
    assert runs[0].sampled.traces == 3
    assert len(spans_of(*(path.read_bytes()[4:] for path in out.iterdir()))) == 3


def test_told_to_stop(tmp_path: Path) -> None:
    """A process decides and delivers everything that it was sent, over gRPC here, when it gets SIGTERM."""
    with http_server() as there:
        document = settings_for(tmp_path, {"kind": "otlp_http", "endpoint": there.endpoint})
        document["receiver"] |= {"grpc": True, "grpc_port": 0, "http": False}
        document["tail"]["inactivity_seconds"] = 300
        config = tmp_path / "neve.yaml"
        config.write_text(json.dumps(document))
        command = [sys.executable, "-m", "tests.tail.memory.process", str(config)]
        with (
            (tmp_path / "log").open("wb") as errors,
            subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=errors) as process,
        ):
            try:
                assert process.stdout is not None
                port = json.loads(process.stdout.readline())[1]
                with grpc.insecure_channel(f"{HOST}:{port}") as channel:
                    stub: Any = TraceServiceStub(channel)  # type: ignore[no-untyped-call]
                    stub.Export(ExportTraceServiceRequest.FromString(traces(5)), timeout=600)
                assert there.taken == []
                process.send_signal(signal.SIGTERM)
                said = json.loads(process.stdout.readline())
                assert process.wait(600) == 0
            finally:
                process.kill()
        assert said == {"decided": 5, "sampled": 5, "undelivered": {}}
        assert len(spans_of(*(request.body for request in there.taken))) == 5
