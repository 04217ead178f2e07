"""`neve serve` with TLS as its users have it: a group of processes, a stock collector, commands, and the audit log."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.request import Request, urlopen

import pytest
import yaml

from neve.api.query.endpoint import SESSION_COOKIES
from neve.app.settings import Settings
from neve.app.wiring import build_documents, build_lake
from neve.cli.remote_client import RemoteClient
from neve.errors import QueryError
from neve.lake.tables import init_tables
from neve.state.audit import AuditLog
from neve.state.keys import Keys
from neve.state.scopes import Scope
from neve.state.store import StateStore
from neve.tls.config import ClientTlsConfig
from tests.api.conftest import loop_thread  # noqa: F401 - a fixture
from tests.api.running import HOST, LoopThread, running_at, settings_for
from tests.parts.collector import collector
from tests.parts.process import free_port
from tests.telemetry import traces
from tests.tls.authority import Authority
from tests.tls.test_ports import wait_for_certificate

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterator
    from pathlib import Path

    from tests.tls.authority import Pair

pytestmark = pytest.mark.slow


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    """The authority of servers and clients."""
    return Authority(tmp_path)


@dataclass(frozen=True)
class Service:
    """A group that runs: what it printed, and its settings."""

    said: dict[str, Any]
    settings: Settings
    context: ssl.SSLContext

    def get(self, url: str, headers: dict[str, str] | None = None, body: bytes | None = None) -> Any:
        """Return the response to a request over TLS."""
        request = Request(url, body, headers or {})  # noqa: S310 - loopback
        return urlopen(request, timeout=600, context=self.context)  # noqa: S310 - loopback


@contextmanager
def served(folder: Path, authority: Authority, client: Pair) -> Iterator[Service]:
    """`neve serve --only receiver,api` with mutual TLS on every port; stopped at the end."""
    tls = authority.issue("neve").settings(client_ca=str(authority.file))
    values = {
        "lake": {"warehouse": str(folder / "lake")},
        "catalog": {"path": str(folder / "catalog.db")},
        "state": {"path": str(folder / "state.db")},
        "raw": {"location": str(folder / "raw"), "min_free_bytes": 0},
        "receiver": {"http_port": 0, "grpc_port": 0, "check_processes": 0, "auth": "keys"},
        "query": {"port": 0, "auth": "keys"},
        "serve": {"port": 0},
        "tls": tls,
    }
    settings = Settings.model_validate(values)
    init_tables(build_lake(settings))
    (folder / "neve.yaml").write_text(yaml.safe_dump(values))
    command = [sys.executable, "-m", "neve", "-c", "neve.yaml", "serve", "--only", "api,receiver", "--json"]
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=log)
    try:
        assert process.stdout is not None
        said = json.loads(process.stdout.readline())
        yield Service(said, settings, authority.trust(client))
    finally:
        os.kill(process.pid, signal.SIGTERM)
        process.communicate(timeout=600)


@pytest.mark.e2e
def test_a_group_with_mutual_tls(tmp_path: Path, authority: Authority, iceberg: None) -> None:
    """All ports are at https://, the group sees the health of its processes, and the audit log names certificates."""
    client = authority.issue("laptop")
    with served(tmp_path, authority, client) as service:
        state = StateStore(service.settings.state)
        _key, text = Keys(state).create("acme", scopes=[Scope.READ, Scope.WRITE, Scope.ADMIN])
        for name in ("http", "query", "health"):
            assert service.said[name].startswith("https://")
        with service.get(f"{service.said['health']}/healthz") as reply:
            assert {part["state"] for part in json.load(reply)["parts"]} == {"running"}
        with service.get(f"{service.said['health']}/metrics") as reply:
            metrics = reply.read().decode()
        for port, process in (("receiver", "receiver"), ("query", "api"), ("serve", "group")):
            name = "neve_tls_certificate_expiry_timestamp_seconds"
            assert f'{name}{{port="{port}",process="{process}"}}' in metrics
        headers = {"content-type": "application/x-protobuf", "x-api-key": text}
        with service.get(f"{service.said['http']}/v1/traces", headers, traces()) as reply:
            assert reply.status == 200
        _check_command(service, authority, client, text)
        _check_page(service, text)
        pause = json.dumps({"task": "compact", "tables": "*", "reason": "test"}).encode()
        sent = {"content-type": "application/json", "x-api-key": text}
        with service.get(f"{service.said['query']}/api/v1/pauses", sent, pause) as reply:
            assert reply.status in {200, 201}
        with pytest.raises(OSError, match=r"401|403"):
            service.get(f"{service.said['query']}/api/v1/tables", {"x-api-key": f"{text[:-1]}a"})
    entries = [entry for _space, entry in AuditLog(build_documents(service.settings)).waiting()]
    found = {(entry.action, entry.details.get("certificate"), entry.origin) for entry in entries}
    assert ("pause.start", "laptop", HOST) in found
    assert ("login.refuse", "laptop", HOST) in found


def _check_command(service: Service, authority: Authority, client: Pair, key: str) -> None:
    """A command with --server needs the authority, and here a certificate of its own."""
    ca_file = str(authority.file)
    known = ClientTlsConfig(ca_file=ca_file, certificate=str(client.certificate), key=str(client.key))
    assert "spans" in RemoteClient(service.said["query"], key, known).names()
    for unknown in (ClientTlsConfig(), ClientTlsConfig(ca_file=ca_file)):
        with pytest.raises(QueryError, match="can't reach"):
            RemoteClient(service.said["query"], key, unknown).names()


def _check_page(service: Service, key: str) -> None:
    """The cookie of a browser is for TLS only, and the page's own origin is https://."""
    headers = {"content-type": "application/json", "origin": service.said["query"]}
    with service.get(f"{service.said['query']}/api/v1/sign-in", headers, json.dumps({"key": key}).encode()) as reply:
        cookie = reply.headers["set-cookie"]
    assert cookie.startswith(SESSION_COOKIES[0])
    assert "Secure" in cookie


@pytest.mark.parts
@pytest.mark.parametrize("mutual", [False, True])
def test_a_stock_collector_sends_while_certificates_are_renewed(
    loop_thread: LoopThread,  # noqa: F811
    tmp_path: Path,
    authority: Authority,
    collector_binary: Path,
    mutual: bool,
) -> None:
    """Over gRPC and HTTP, without retries: what the collector accepts arrives twice, once for each exporter."""
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace.export import SpanExportResult

    from tests.tls.test_ports import make_spans

    assert collector_binary.exists()
    client = authority.issue("collector")
    port, tls = free_port(), authority.issue("neve").settings()
    settings = settings_for(tmp_path, tls={**tls, **({"client_ca": str(authority.file)} if mutual else {})})
    with loop_thread.receiver(tmp_path, settings) as running:
        files = {"ca_file": str(authority.file)}
        if mutual:
            files |= {"cert_file": str(client.certificate), "key_file": str(client.key), "reload_interval": "100ms"}
        direct = {"retry_on_failure": {"enabled": False}, "sending_queue": {"enabled": False}, "tls": files}
        config = {
            "receivers": {"otlp": {"protocols": {"grpc": {"endpoint": f"{HOST}:{port}"}}}},
            "exporters": {
                "otlp_grpc": {"endpoint": f"{HOST}:{running.grpc_port}", **direct},
                "otlp_http": {"endpoint": f"https://{HOST}:{running.http_port}", **direct},
            },
            "service": {"pipelines": {"traces": {"receivers": ["otlp"], "exporters": ["otlp_grpc", "otlp_http"]}}},
        }
        results: list[SpanExportResult] = []
        done = threading.Event()
        with collector(yaml.safe_dump(config), port):
            exporter = OTLPSpanExporter(f"http://{HOST}:{port}", insecure=True, timeout=60)

            def send() -> None:
                while not done.is_set():
                    results.append(exporter.export(make_spans()))

            thread = threading.Thread(target=send)
            thread.start()
            try:
                for _round in range(3):
                    authority.issue("neve")
                    if mutual:
                        authority.issue("collector")
                    wait_for_certificate(
                        running_at(f":{running.http_port}", f":{running.grpc_port}", tmp_path), authority, client
                    )
                    time.sleep(0.2)
            finally:
                done.set()
                thread.join()
                exporter.shutdown()
        assert set(results) == {SpanExportResult.SUCCESS}
        assert len(running.frames()) == 2 * len(results)
