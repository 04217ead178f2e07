"""Servers that take spans, on a free port of this machine, and that fail when they are told to."""

from __future__ import annotations

import gzip
import ssl
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import TYPE_CHECKING, Any

import grpc  # type: ignore[import-untyped]
import zstandard
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import RetryInfo  # type: ignore[import-untyped]
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import (
    TraceServiceServicer,
    add_TraceServiceServicer_to_server,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.tail.export.certificates import Certificate

HOST = "127.0.0.1"
PROTOBUF = {"content-type": "application/x-protobuf"}
JSON = {"content-type": "application/json"}


@dataclass(frozen=True)
class Answer:
    """What is answered to one request."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=lambda: PROTOBUF)


@dataclass(frozen=True)
class Request:
    """What a server was asked; the body is unpacked."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    packed_size: int
    client: tuple[str, int]


@dataclass
class HttpServer:
    """Answers what is in `script`, one after the other, and then that all is well; remembers what it was asked."""

    port: int = 0
    tls: Certificate | None = None
    script: list[Answer] = field(default_factory=list)
    most_bytes: int = 2**30
    asked: list[Request] = field(default_factory=list)

    @property
    def endpoint(self) -> str:
        """Where it is."""
        return f"{'https' if self.tls else 'http'}://{HOST}:{self.port}"

    @property
    def taken(self) -> list[Request]:
        """The requests of which it said that all is well."""
        return [request for request, answer in zip(self.asked, self.answered, strict=True) if answer.status == 200]

    answered: list[Answer] = field(default_factory=list)

    def answer(self, request: Request) -> Answer:
        """What comes next."""
        self.asked.append(request)
        too_large = len(request.body) > self.most_bytes
        said = Answer(413, b"too large", {}) if too_large else self.script.pop(0) if self.script else Answer()
        self.answered.append(said)
        return said


@contextmanager
def http_server(**fields: Any) -> Iterator[HttpServer]:
    """A server that listens until the end."""
    server = HttpServer(**fields)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            plain = _unpacked(body, headers.get("content-encoding", ""))
            answer = server.answer(Request(self.command, self.path, headers, plain, len(body), self.client_address))
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body)

        do_PUT = do_POST  # noqa: N815 - http.server looks for this name

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer((HOST, 0), Handler) as listening:
        server.port = listening.server_port
        if server.tls is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(server.tls.certificate, server.tls.key)
            listening.socket = context.wrap_socket(listening.socket, server_side=True, do_handshake_on_connect=False)
        thread = Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            listening.shutdown()
            thread.join()


def _unpacked(body: bytes, encoding: str) -> bytes:
    if encoding == "gzip":
        return gzip.decompress(body)
    return zstandard.decompress(body) if encoding == "zstd" else body


@dataclass(frozen=True)
class Failure:
    """A call that fails."""

    code: Any
    details: str = ""
    retry_seconds: float | None = None


class GrpcServer(TraceServiceServicer):
    """The trace service: fails as `script` says, one call after the other, and then takes everything."""

    def __init__(self, tls: Certificate | None) -> None:
        self.port, self.tls = 0, tls
        self.script: list[Failure | ExportTraceServiceResponse] = []
        self.asked: list[ExportTraceServiceRequest] = []
        self.metadata: list[dict[str, str]] = []
        self.deadlines: list[float] = []

    @property
    def endpoint(self) -> str:
        """Where it is."""
        return f"{'https' if self.tls else 'http'}://{HOST}:{self.port}"

    def Export(self, request: ExportTraceServiceRequest, context: Any) -> ExportTraceServiceResponse:  # noqa: N802
        """Serve one call."""
        self.asked.append(request)
        self.metadata.append(dict(context.invocation_metadata()))
        self.deadlines.append(context.time_remaining())
        said = self.script.pop(0) if self.script else ExportTraceServiceResponse()
        if isinstance(said, ExportTraceServiceResponse):
            return said
        if said.retry_seconds is not None:
            context.set_trailing_metadata((("grpc-status-details-bin", _retry_info(said)),))
        context.abort(said.code, said.details)
        raise AssertionError("aborting raises")


@contextmanager
def grpc_server(tls: Certificate | None = None, **options: Any) -> Iterator[GrpcServer]:
    """A server that listens until the end."""
    service = GrpcServer(tls)
    with ThreadPoolExecutor(2) as pool:
        server = grpc.server(pool, options=[(f"grpc.{name}", value) for name, value in options.items()])
        add_TraceServiceServicer_to_server(service, server)  # type: ignore[no-untyped-call]
        if tls is None:
            service.port = server.add_insecure_port(f"{HOST}:0")
        else:
            pair = (tls.key.read_bytes(), tls.certificate.read_bytes())
            service.port = server.add_secure_port(f"{HOST}:0", grpc.ssl_server_credentials([pair]))
        server.start()
        try:
            yield service
        finally:
            server.stop(None).wait()


def _retry_info(failure: Failure) -> bytes:
    status = Status(code=failure.code.value[0], message=failure.details)
    packed = AnyMessage()
    delay = Duration()
    delay.FromNanoseconds(int((failure.retry_seconds or 0) * 1e9))
    packed.Pack(RetryInfo(retry_delay=delay))
    status.details.append(packed)
    wire: bytes = status.SerializeToString()
    return wire
