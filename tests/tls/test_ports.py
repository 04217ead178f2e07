"""TLS and mutual TLS on the receiver's ports, with plain clients and OpenTelemetry's exporters."""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import grpc  # type: ignore[import-untyped]
import pytest
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SpanExportResult

from tests.api.conftest import loop_thread  # noqa: F401 - a fixture
from tests.api.running import HOST, LoopThread, Running, settings_for
from tests.tls.authority import Authority, Pair

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from opentelemetry.sdk.trace import ReadableSpan

pytestmark = pytest.mark.slow
TIMEOUT_SECONDS = 60


@pytest.fixture(autouse=True)
def no_trusted_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without variables of the machine, which `requests` prefers to the file of an exporter."""
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    """The authority of servers and clients."""
    return Authority(tmp_path)


@pytest.fixture
def serve(loop_thread: LoopThread, tmp_path: Path, authority: Authority) -> Iterator[Callable[..., Running]]:  # noqa: F811
    """Receivers with a certificate; with mutual TLS if that is wanted."""
    with ExitStack() as stack:

        def begin(*, mutual: bool = False, **receiver: Any) -> Running:
            pair = authority.issue("neve")
            tls = pair.settings(**({"client_ca": str(authority.file)} if mutual else {}))
            settings = settings_for(tmp_path, None, **{"tls": tls, **receiver})
            return stack.enter_context(loop_thread.receiver(tmp_path, settings))

        yield begin


def read_status(running: Running, context: ssl.SSLContext) -> int:
    """Return the status of a request over HTTPS."""
    connection = http.client.HTTPSConnection(HOST, running.http_port, timeout=TIMEOUT_SECONDS, context=context)
    try:
        connection.request("GET", "/livez")
        return connection.getresponse().status
    finally:
        connection.close()


def call_grpc(running: Running, authority: Authority, client: Pair | None = None) -> Any:
    """Export an empty message over gRPC."""
    key, chain = (client.key.read_bytes(), client.certificate.read_bytes()) if client else (None, None)
    credentials = grpc.ssl_channel_credentials(authority.file.read_bytes(), key, chain)
    with grpc.secure_channel(f"{HOST}:{running.grpc_port}", credentials) as channel:
        method = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
        return channel.unary_unary(method)(ExportTraceServiceRequest().SerializeToString(), timeout=TIMEOUT_SECONDS)


def make_spans() -> Sequence[ReadableSpan]:
    """Return a finished span."""
    span = TracerProvider().get_tracer("test").start_span("work")
    span.end()
    return [span]  # type: ignore[list-item]


@contextmanager
def exporters(running: Running, authority: Authority, client: Pair | None = None) -> Iterator[list[Any]]:
    """OpenTelemetry's exporters over HTTP and gRPC, as an application has them."""
    files = (str(client.certificate), str(client.key)) if client else (None, None)
    key, chain = (client.key.read_bytes(), client.certificate.read_bytes()) if client else (None, None)
    made = [
        HttpExporter(
            f"https://{HOST}:{running.http_port}/v1/traces",
            certificate_file=str(authority.file),
            client_certificate_file=files[0],
            client_key_file=files[1],
            timeout=TIMEOUT_SECONDS,
        ),
        GrpcExporter(
            f"https://{HOST}:{running.grpc_port}",
            credentials=grpc.ssl_channel_credentials(authority.file.read_bytes(), key, chain),
            timeout=TIMEOUT_SECONDS,
        ),
    ]
    try:
        yield made
    finally:
        for exporter in made:
            exporter.shutdown()


def test_both_ports_use_tls(serve: Callable[..., Running], authority: Authority) -> None:
    """A client that trusts the authority is served, one that does not is not, and plain text gets nothing."""
    running = serve()
    assert read_status(running, authority.trust()) == 200
    assert call_grpc(running, authority) == b""
    with pytest.raises(ssl.SSLCertVerificationError):
        read_status(running, ssl.create_default_context())
    with socket.create_connection((HOST, running.http_port), timeout=TIMEOUT_SECONDS) as plain:
        plain.sendall(b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert b"HTTP" not in plain.recv(100)
    with grpc.insecure_channel(f"{HOST}:{running.grpc_port}") as channel, pytest.raises(grpc.RpcError):
        channel.unary_unary("/x")(b"", timeout=5)


def test_old_versions_are_refused(serve: Callable[..., Running], authority: Authority) -> None:
    """TLS 1.2 can be switched off for HTTP."""
    pair = authority.issue("neve")
    running = serve(grpc=False, tls=pair.settings(min_version="1.3"))
    assert read_status(running, authority.trust()) == 200
    old = authority.trust()
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises((ssl.SSLError, ConnectionResetError)):
        read_status(running, old)


def test_clients_need_a_certificate(serve: Callable[..., Running], authority: Authority, tmp_path: Path) -> None:
    """With mutual TLS a client without one, and one of another authority, are refused on both ports."""
    running, client = serve(mutual=True), authority.issue("client")
    other = tmp_path / "other"
    other.mkdir()
    stranger = Authority(other, "stranger").issue("client")
    assert read_status(running, authority.trust(client)) == 200
    assert call_grpc(running, authority, client) == b""
    for refused in (None, stranger):
        with pytest.raises((ssl.SSLError, ConnectionResetError, BrokenPipeError)):
            read_status(running, authority.trust(refused))
        with pytest.raises(grpc.RpcError):
            call_grpc(running, authority, refused)


@pytest.mark.parametrize("mutual", [False, True])
def test_opentelemetry_exports_over_tls(serve: Callable[..., Running], authority: Authority, mutual: bool) -> None:
    """The exporters of the SDK, over HTTP and gRPC."""
    running = serve(mutual=mutual)
    with exporters(running, authority, authority.issue("client") if mutual else None) as made:
        assert [exporter.export(make_spans()) for exporter in made] == [SpanExportResult.SUCCESS] * 2
    assert len(running.frames()) == 2


@pytest.mark.parametrize("mutual", [False, True])
def test_no_request_fails_while_certificates_are_renewed(
    serve: Callable[..., Running], authority: Authority, mutual: bool
) -> None:
    """Clients send over kept and new connections while the files change; each new certificate comes into use."""
    running = serve(mutual=mutual)
    client = authority.issue("client") if mutual else None
    with sending(running, authority, client) as results:
        for _round in range(3):
            authority.issue("neve")
            wait_for_certificate(running, authority, client)
    assert set(results) == {SpanExportResult.SUCCESS}
    assert len(running.frames()) == len(results)


@contextmanager
def sending(running: Running, authority: Authority, client: Pair | None) -> Iterator[list[SpanExportResult]]:
    """Export all the time while the block runs, over kept and over new connections; the results grow."""
    results: list[SpanExportResult] = []
    done = threading.Event()

    def send_over_new_connections() -> None:
        while not done.is_set():
            with exporters(running, authority, client) as made:
                results.extend(exporter.export(make_spans()) for exporter in made)

    def send_over_kept_connections() -> None:
        with exporters(running, authority, client) as made:
            while not done.is_set():
                results.extend(exporter.export(make_spans()) for exporter in made)

    threads = [threading.Thread(target=work) for work in (send_over_new_connections, send_over_kept_connections)]
    for thread in threads:
        thread.start()
    try:
        yield results
    finally:
        done.set()
        for thread in threads:
            thread.join()


def wait_for_certificate(running: Running, authority: Authority, client: Pair | None) -> None:
    """Wait until both ports present the certificate in the file."""
    expected = ssl.PEM_cert_to_DER_cert((authority.folder / "neve.crt").read_text())
    end = time.monotonic() + 600
    for port in (running.http_port, running.grpc_port):
        while read_certificate(port, authority.trust(client)) != expected:
            assert time.monotonic() < end
            time.sleep(0.05)


def read_certificate(port: int, context: ssl.SSLContext) -> bytes | None:
    """Return the certificate of a port."""
    context.set_alpn_protocols(["h2", "http/1.1"])
    with (
        socket.create_connection((HOST, port), timeout=TIMEOUT_SECONDS) as plain,
        context.wrap_socket(plain, server_hostname=HOST) as secure,
    ):
        return secure.getpeercert(binary_form=True)


def test_a_withdrawn_authority_is_refused_after_its_removal(
    serve: Callable[..., Running], authority: Authority, tmp_path: Path
) -> None:
    """New connections are checked against the new list of authorities, on both ports."""
    running, client = serve(mutual=True), authority.issue("client")
    trust = authority.trust(client)
    assert read_status(running, trust) == 200
    other = tmp_path / "other"
    other.mkdir()
    successor = Authority(other, "successor")
    servers = authority.file.read_bytes()
    authority.file.write_bytes(successor.file.read_bytes())
    newcomer = successor.issue("client")
    context = ssl.create_default_context(cadata=servers.decode())
    context.load_cert_chain(newcomer.certificate, newcomer.key)
    end = time.monotonic() + 600
    while True:
        try:
            assert read_status(running, context) == 200
            break
        except (ssl.SSLError, ConnectionResetError, BrokenPipeError):
            assert time.monotonic() < end
            time.sleep(0.1)
    with pytest.raises((ssl.SSLError, ConnectionResetError, BrokenPipeError)):
        read_status(running, trust)


def test_unfinished_handshakes_end(serve: Callable[..., Running], authority: Authority, monkeypatch: Any) -> None:
    """A client that sends nothing is closed in time, and more than the limit are closed at once."""
    monkeypatch.setattr("neve.api.embedded_uvicorn.HANDSHAKE_SECONDS", 0.5)
    monkeypatch.setattr("neve.api.embedded_uvicorn.MAX_HANDSHAKES", 3)
    running = serve()
    silent = [socket.create_connection((HOST, running.http_port), timeout=TIMEOUT_SECONDS) for _ in range(6)]
    for one in silent:
        assert one.recv(10) == b""
        one.close()
    assert read_status(running, authority.trust()) == 200
    failed = "neve_tls_failed_handshakes_total"
    text = fetch_metrics(running, authority)
    assert f'{failed}{{port="receiver",reason="too_many_handshakes"}}' in text
    assert f'{failed}{{port="receiver",reason="slow_handshake"}}' in text


def test_metrics_have_the_expiry(serve: Callable[..., Running], authority: Authority) -> None:
    """As a timestamp, so that an alert can compare it with the time."""
    text = fetch_metrics(serve(), authority)
    found = [line for line in text.splitlines() if line.startswith("neve_tls_certificate_expiry_timestamp_seconds{")]
    assert 29 * 86400 < float(found[0].split()[-1]) - time.time() < 31 * 86400


def fetch_metrics(running: Running, authority: Authority) -> str:
    """Return the metrics of the receiver's own port."""
    connection = http.client.HTTPSConnection(
        HOST, running.http_port, timeout=TIMEOUT_SECONDS, context=authority.trust()
    )
    connection.request("GET", "/metrics")
    text = connection.getresponse().read().decode()
    connection.close()
    return text
