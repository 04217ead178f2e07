"""Receivers that really listen: in this process for most tests, as a process of their own for those that kill."""

from __future__ import annotations

import asyncio
import http.client
import json
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc  # type: ignore[import-untyped]
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub

from neve.api.server import open_receiver
from neve.app.settings import Settings
from neve.lake.config import S3Config
from neve.raw.frame import Frame, decode
from neve.raw.zone import OTLP, RawZone
from neve.state.config import StateConfig
from neve.state.keys import Keys
from neve.state.scopes import Scope
from neve.state.store import StateStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from neve.api.ports import Addresses

HOST = "127.0.0.1"
PROTOBUF = {"content-type": "application/x-protobuf"}
JSON = {"content-type": "application/json"}


def until(reached: Callable[[], object], seconds: float = 600) -> None:
    """Wait for something, as long as a busy machine takes; the limit ends a test that hangs."""
    end = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < end, "it never came true"
        time.sleep(0.01)


@dataclass(frozen=True)
class Reply:
    """What came back over HTTP."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body, read as JSON."""
        return json.loads(self.body)


@dataclass(frozen=True)
class Running:
    """A receiver that answers, and the folder of its zone."""

    http_port: int
    grpc_port: int
    folder: Path

    def post(self, path: str, body: bytes, headers: Mapping[str, str] = PROTOBUF, method: str = "POST") -> Reply:
        """One request on a connection of its own."""
        connection = http.client.HTTPConnection(HOST, self.http_port, timeout=600)
        try:
            connection.request(method, path, body, dict(headers))
            response = connection.getresponse()
            return Reply(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
        finally:
            connection.close()

    def get(self, path: str) -> Reply:
        """Look at a path."""
        return self.post(path, b"", {}, "GET")

    @contextmanager
    def channel(self, **options: Any) -> Iterator[grpc.Channel]:
        """A gRPC connection."""
        with grpc.insecure_channel(f"{HOST}:{self.grpc_port}", **options) as channel:
            yield channel

    @contextmanager
    def traces(self, **options: Any) -> Iterator[Any]:
        """The stub of the trace service."""
        with self.channel(**options) as channel:
            yield TraceServiceStub(channel)  # type: ignore[no-untyped-call]

    def frames(self, zone: str = OTLP) -> list[Frame]:
        """What is durable, sealed or not."""
        root = Path(RawZone.of(str(self.folder / "raw"), S3Config(), zone).location)
        segments = sorted(path for path in root.glob("*/*") if path.suffix in (".raw", ".open"))
        return [frame for path in segments for frame in decode(path.read_bytes()).frames]

    def counted(self, name: str, **labels: str) -> float:
        """The sum of a metric over the labels that are not named."""
        total = 0.0
        reply = self.get("/metrics")
        if reply.status == 401:
            _, key = Keys(StateStore(StateConfig(path=str(self.folder / "state.db")))).create(
                "viewer", scopes=[Scope.METRICS]
            )
            reply = self.post("/metrics", b"", {"x-api-key": key}, "GET")
        assert reply.status == 200
        for line in reply.body.decode().splitlines():
            series, _, value = line.rpartition(" ")
            if series.partition("{")[0] == name and all(f'{k}="{v}"' in series for k, v in labels.items()):
                total += float(value)
        return total


def settings_for(folder: Path, raw: Mapping[str, Any] | None = None, **receiver: Any) -> Settings:
    """Settings of a receiver on free ports whose zone is in a folder."""
    return Settings.model_validate(
        {
            "organization": "acme",
            "raw": {"location": str(folder / "raw"), "min_free_bytes": 0, **(raw or {})},
            "state": {"path": str(folder / "state.db")},
            # A test that wants large messages checked in a process says so: each takes a second to start.
            "receiver": {"http_port": 0, "grpc_port": 0, "check_processes": 0, **receiver},
            "serve": {"port": 0},
            "watch": {"places": {"acme": ["s3://raw/acme"]}},
        }
    )


@dataclass
class LoopThread:
    """One event loop for all receivers of a test run: gRPC wants no second one."""

    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)

    def __post_init__(self) -> None:
        """Start it."""
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End it."""
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Nothing is served while the block runs."""
        go_on = threading.Event()
        self.loop.call_soon_threadsafe(go_on.wait)
        try:
            yield
        finally:
            go_on.set()

    @contextmanager
    def receiver(self, folder: Path, settings: Settings) -> Iterator[Running]:
        """A receiver in this process; one without HTTP is asked where those who watch ask."""
        context = open_receiver(settings)
        addresses: Addresses = self._wait(context.__aenter__())
        try:
            yield running_at(addresses.http or addresses.health, addresses.grpc, folder)
        finally:
            self._wait(context.__aexit__(None, None, None))

    def _wait(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(600)


def running_at(http_address: str | None, grpc_address: str | None, folder: Path) -> Running:
    """A receiver at addresses as it says them."""
    ports = [int(place.rpartition(":")[2]) if place else 0 for place in (http_address, grpc_address)]
    return Running(ports[0], ports[1], folder)


@contextmanager
def receiver_process(folder: Path, **receiver: Any) -> Iterator[tuple[subprocess.Popen[bytes], Running]]:
    """`neve serve --receiver` as a process of its own; killed at the end where it still runs."""
    config = folder / "neve.yaml"
    config.write_text(settings_for(folder, **receiver).model_dump_json(include={"organization", "raw", "receiver"}))
    command = [str(Path(sys.executable).with_name("neve")), "-c", str(config), "serve", "--receiver", "--json"]
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=log)
    try:
        assert process.stdout is not None
        said = json.loads(process.stdout.readline())
        yield process, running_at(said["http"], said["grpc"], folder)
    finally:
        process.kill()
        process.communicate()
