"""OTLP over gRPC.

gRPC's own decompression is switched off: a compressed message arrives as it was sent, is decompressed within our
limits and memory budget, and is stored compressed. The method is served as a stream of one message, so that a key is
checked and a call is rejected before its message is read.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import grpc  # type: ignore[import-untyped]
from grpc import aio

from neve.api.otlp_http import receiver_rules
from neve.logger import get_logger
from neve.model.signals import Signal
from neve.raw.frame import Encoding, Packing
from neve.receive.authentication import extract_key
from neve.receive.budget import MessageReservations
from neve.receive.receiver import Export
from neve.receive.refusal import Refusal, Verdict
from neve.receive.response import encode_answer, encode_refusal
from neve.state.scopes import Scope

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from neve.receive.authentication import Guard
    from neve.receive.budget import Hold
    from neve.receive.config import ReceiverConfig
    from neve.receive.receiver import Receiver
    from neve.state.scopes import Caller
    from neve.tls.certificates import ServerCertificates

GRPC = "grpc"
METHODS = {
    "/opentelemetry.proto.collector.trace.v1.TraceService/Export": Signal.TRACES,
    "/opentelemetry.proto.collector.logs.v1.LogsService/Export": Signal.LOGS,
    "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export": Signal.METRICS,
}
CODES: dict[int, grpc.StatusCode] = {code.value[0]: code for code in grpc.StatusCode}
DETAILS = "grpc-status-details-bin"
MAX_STREAMS = 128  # calls on one connection

log = get_logger("neve.api")


@dataclass
class GrpcService(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Handler of the three export methods."""

    receiver: Receiver
    guard: Guard
    _calls: int = 0
    _handlers: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Create a handler for each method; without codecs, so that messages stay bytes."""
        self._readings = MessageReservations(self.receiver.budget, max_message_bytes(self.receiver.config))
        for method, signal in METHODS.items():
            self._handlers[method] = grpc.stream_unary_rpc_method_handler(partial(self._export, signal))

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        """Return the handler of a method; for none, gRPC responds that the method does not exist."""
        return self._handlers.get(handler_call_details.method)

    async def _export(self, signal: Signal, _messages: Any, context: aio.ServicerContext) -> bytes:
        self._calls += 1
        try:
            outcome = await self._serve(signal, context)
        except asyncio.CancelledError:
            self.receiver.metrics.count_abandoned(GRPC)
            raise
        finally:
            self._calls -= 1
        if isinstance(outcome, Refusal):
            await self._abort(signal, context, outcome)
            raise outcome  # unreachable: abort raises
        self.receiver.metrics.count_response(signal, GRPC, grpc.StatusCode.OK.name)
        return outcome

    async def _serve(self, signal: Signal, context: aio.ServicerContext) -> bytes | Refusal:
        """Return the reply or the refusal.

        The refusal is returned, not raised: gRPC keeps exceptions, and their tracebacks keep the message in memory.
        """
        try:
            self._check_calls()
            metadata: dict[str, str] = dict(context.invocation_metadata() or ())
            # gRPC does not expose the requested host. Browsers can't reach this: none supports HTTP/2 without TLS.
            receiver_rules(self.receiver.config).check_forwarded(name.encode() for name in metadata)
            key = extract_key(metadata.get("authorization"), metadata.get("x-api-key"))
            caller = await self.guard.caller(key, Scope.WRITE, context.peer(), read_client_name(context))
            self.receiver.admit(caller)
        except Refusal as refusal:
            return refusal.strip_traceback()
        hold = self.receiver.budget.hold()
        try:
            message = await self._readings.read(
                caller.organization, partial(self._message, context), hold, self.receiver.config.body_seconds
            )
        except Refusal as refusal:
            hold.release()
            return refusal.strip_traceback()
        except BaseException:
            hold.release()
            raise
        # If the caller gives up, the bytes must still be counted while they wait for the disk.
        return await asyncio.shield(asyncio.ensure_future(self._accept(signal, caller, message, hold)))

    async def _accept(self, signal: Signal, caller: Caller, message: bytes, hold: Hold) -> bytes | Refusal:
        try:
            with hold:
                packing = detect_packing(message)
                export = Export(signal, caller.organization, message, packing=packing, key_id=caller.key_id)
                return encode_answer(await self.receiver.accept(export, hold), Encoding.PROTOBUF)
        except Refusal as refusal:
            return refusal.strip_traceback()
        except Exception:
            log.exception("a request failed", signal=signal, transport=GRPC)
            return Refusal(Verdict.FAILED, "failed", "internal error of the receiver; see its log")

    async def _message(self, context: aio.ServicerContext) -> bytes:
        message = await context.read()
        if message is aio.EOF:  # gRPC itself rejects a message over the limit, and only reports that there is none
            limit = max_message_bytes(self.receiver.config)
            raise Refusal(
                Verdict.TOO_LARGE,
                "too_large",
                f"the message is missing, or larger than {limit} bytes (receiver.max_grpc_bytes)",
            )
        body: bytes = message
        return body

    async def _abort(self, signal: Signal, context: aio.ServicerContext, refusal: Refusal) -> None:
        self.receiver.metrics.count_refusal(GRPC, refusal.reason)
        code = CODES[refusal.verdict.grpc]
        self.receiver.metrics.count_response(signal, GRPC, code.name)
        details = encode_refusal(refusal, Encoding.PROTOBUF, self.receiver.config.retry_after_seconds)
        await context.abort(code, refusal.message, ((DETAILS, details),))

    def _check_calls(self) -> None:
        limit = self.receiver.config.max_connections
        if self._calls > limit:
            raise Refusal(Verdict.BUSY, "too_many_calls", f"{limit} calls are being served (receiver.max_connections)")


def detect_packing(message: bytes) -> Packing:
    r"""Detect the compression of a message by its first bytes: Python can't read gRPC's flag for it.

    No OTLP message begins so. 0x1f is a field of a wire type that does not exist; 0x78 is one of field 15, where OTLP
    has only field 1.

    >>> detect_packing(b"\x1f\x8b\x08"), detect_packing(b"\x78\x9c\x01"), detect_packing(b"\x0a\x00")
    (<Packing.GZIP: 1>, <Packing.DEFLATE: 3>, <Packing.NONE: 0>)
    """
    if message.startswith(b"\x1f\x8b"):
        return Packing.GZIP
    if message.startswith(b"\x78") and int.from_bytes(message[:2], "big") % 31 == 0:
        return Packing.DEFLATE
    return Packing.NONE


def max_message_bytes(config: ReceiverConfig) -> int:
    """Return the size limit of a message as sent; a compressed one may be no larger than an uncompressed one."""
    return min(config.max_grpc_bytes, config.max_message_bytes)


def build_credentials(certificates: ServerCertificates) -> grpc.ServerCredentials:
    """Return credentials that give each new connection the newest certificate."""

    def configure() -> grpc.ServerCertificateConfiguration:
        loaded = certificates.current()
        return grpc.ssl_server_certificate_configuration([(loaded.key, loaded.chain)], loaded.client_ca or None)

    last = certificates.current()

    def fetch() -> grpc.ServerCertificateConfiguration | None:
        nonlocal last
        if certificates.current() is last:
            return None  # gRPC keeps the configuration that it has
        last = certificates.current()
        return configure()

    return grpc.dynamic_ssl_server_credentials(configure(), fetch, certificates.config.verifies_clients)


def read_client_name(context: aio.ServicerContext) -> str:
    """Return the name in the client's certificate; empty without one."""
    found: Mapping[str, Sequence[bytes]] = context.auth_context() or {}
    names = [*found.get("x509_common_name", ()), *found.get("x509_subject_alternative_name", ())]
    return names[0].decode(errors="replace") if names else ""


def build_grpc_server(receiver: Receiver, guard: Guard) -> aio.Server:
    """Build a server of the three methods, without starting it."""
    config = receiver.config
    options = [
        ("grpc.max_receive_message_length", max_message_bytes(config)),
        ("grpc.max_concurrent_streams", min(MAX_STREAMS, config.max_connections)),
        ("grpc.max_allowed_incoming_connections", config.max_connections),
        ("grpc.per_message_decompression", 0),
        ("grpc.max_metadata_size", config.max_header_bytes),
        ("grpc.absolute_max_metadata_size", config.max_header_bytes),
        ("grpc.server_handshake_timeout_ms", int(config.header_seconds * 1000)),
        ("grpc.max_connection_idle_ms", config.idle_seconds * 1000),
        ("grpc.so_reuseport", 0),  # two receivers on one port would each get half of the traffic without an error
    ]
    return aio.server(handlers=(GrpcService(receiver, guard),), options=options)
