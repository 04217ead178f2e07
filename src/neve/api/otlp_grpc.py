"""OTLP over gRPC.

gRPC's own decompression is switched off: a packed message arrives as it was sent, is unpacked within our bounds and
budget, and is kept packed. And the method is served as a stream of one message, so that a key is checked and a call is
refused before its message is read.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import grpc  # type: ignore[import-untyped]
import structlog
from grpc import aio

from neve.api.application import receiver_rules
from neve.lake.scopes import Scope
from neve.model.signals import Signal
from neve.raw.frame import Encoding, Packing
from neve.receive.keys import key_of
from neve.receive.readings import Readings
from neve.receive.receiver import Export
from neve.receive.refusal import Refusal, Verdict
from neve.receive.reply import accepted, refused

if TYPE_CHECKING:
    from neve.lake.scopes import Caller
    from neve.receive.budget import Hold
    from neve.receive.config import ReceiverConfig
    from neve.receive.keys import Guard
    from neve.receive.receiver import Receiver

GRPC = "grpc"
METHODS = {
    "/opentelemetry.proto.collector.trace.v1.TraceService/Export": Signal.TRACES,
    "/opentelemetry.proto.collector.logs.v1.LogsService/Export": Signal.LOGS,
    "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export": Signal.METRICS,
}
CODES: dict[int, grpc.StatusCode] = {code.value[0]: code for code in grpc.StatusCode}
DETAILS = "grpc-status-details-bin"
MOST_STREAMS = 128  # calls on one connection

log = structlog.get_logger("neve.api")


@dataclass
class GrpcDoor(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Serves the three export methods."""

    receiver: Receiver
    guard: Guard
    _calls: int = 0
    _handlers: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Make a handler for each method; without codecs, so that bytes stay bytes."""
        self._readings = Readings(self.receiver.budget, max_bytes(self.receiver.config))
        for method, signal in METHODS.items():
            self._handlers[method] = grpc.stream_unary_rpc_method_handler(partial(self._export, signal))

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        """The handler of a method; none makes gRPC say that there is no such method."""
        return self._handlers.get(handler_call_details.method)

    async def _export(self, signal: Signal, _messages: Any, context: aio.ServicerContext) -> bytes:
        self._calls += 1
        try:
            outcome = await self._serve(signal, context)
        except asyncio.CancelledError:
            self.receiver.metrics.abandoned(GRPC)
            raise
        finally:
            self._calls -= 1
        if isinstance(outcome, Refusal):
            await self._abort(signal, context, outcome)
            raise outcome  # never reached: aborting raises
        self.receiver.metrics.answered(signal, GRPC, grpc.StatusCode.OK.name)
        return outcome

    async def _serve(self, signal: Signal, context: aio.ServicerContext) -> bytes | Refusal:
        """The reply or the refusal, which is a value here: gRPC keeps exceptions, and they keep what they passed."""
        try:
            self._check_calls()
            metadata: dict[str, str] = dict(context.invocation_metadata() or ())
            # gRPC does not tell which host was called. No browser gets here: none speaks HTTP/2 without TLS.
            receiver_rules(self.receiver.config).check_forwarded(name.encode() for name in metadata)
            key = key_of(metadata.get("authorization"), metadata.get("x-api-key"))
            caller = await self.guard.caller(key, Scope.WRITE, context.peer())
            self.receiver.admit(caller)
        except Refusal as refusal:
            return refusal.detached()
        hold = self.receiver.budget.hold()
        try:
            message = await self._readings.read(
                caller.organization, partial(self._message, context), hold, self.receiver.config.body_seconds
            )
        except Refusal as refusal:
            hold.release()
            return refusal.detached()
        except BaseException:
            hold.release()
            raise
        # A caller that gives up must not take the bytes out of the count while they wait for the disk.
        return await asyncio.shield(asyncio.ensure_future(self._accept(signal, caller, message, hold)))

    async def _accept(self, signal: Signal, caller: Caller, message: bytes, hold: Hold) -> bytes | Refusal:
        try:
            with hold:
                packing = packing_of(message)
                export = Export(signal, caller.organization, message, packing=packing, key_id=caller.key_id)
                return accepted(await self.receiver.accept(export, hold), Encoding.PROTOBUF)
        except Refusal as refusal:
            return refusal.detached()
        except Exception:
            log.exception("a request failed", signal=signal, transport=GRPC)
            return Refusal(Verdict.FAILED, "failed", "the receiver failed; its log says why")

    async def _message(self, context: aio.ServicerContext) -> bytes:
        message = await context.read()
        if message is aio.EOF:  # gRPC itself refuses a message over size, and tells us only that there is none
            limit = max_bytes(self.receiver.config)
            raise Refusal(
                Verdict.TOO_LARGE,
                "too_large",
                f"the message is missing, or larger than {limit} bytes (receiver.max_grpc_bytes)",
            )
        body: bytes = message
        return body

    async def _abort(self, signal: Signal, context: aio.ServicerContext, refusal: Refusal) -> None:
        self.receiver.metrics.refused(GRPC, refusal.reason)
        code = CODES[refusal.verdict.grpc]
        self.receiver.metrics.answered(signal, GRPC, code.name)
        details = refused(refusal, Encoding.PROTOBUF, self.receiver.config.retry_after_seconds)
        await context.abort(code, refusal.message, ((DETAILS, details),))

    def _check_calls(self) -> None:
        limit = self.receiver.config.max_connections
        if self._calls > limit:
            raise Refusal(Verdict.BUSY, "too_many_calls", f"{limit} calls are being served (receiver.max_connections)")


def packing_of(message: bytes) -> Packing:
    r"""How a message is packed, told by its first bytes: gRPC says it in a flag that Python does not get to see.

    No OTLP message begins so. 0x1f is a field of a wire type that does not exist; 0x78 is one of field 15, where OTLP
    has only field 1.

    >>> packing_of(b"\x1f\x8b\x08"), packing_of(b"\x78\x9c\x01"), packing_of(b"\x0a\x00")
    (<Packing.GZIP: 1>, <Packing.DEFLATE: 3>, <Packing.NONE: 0>)
    """
    if message.startswith(b"\x1f\x8b"):
        return Packing.GZIP
    if message.startswith(b"\x78") and int.from_bytes(message[:2], "big") % 31 == 0:
        return Packing.DEFLATE
    return Packing.NONE


def max_bytes(config: ReceiverConfig) -> int:
    """The largest message as it was sent; a packed one is no larger than an unpacked one may be."""
    return min(config.max_grpc_bytes, config.max_message_bytes)


def build_grpc_server(receiver: Receiver, guard: Guard) -> aio.Server:
    """A server of the three methods that is not started yet."""
    config = receiver.config
    options = [
        ("grpc.max_receive_message_length", max_bytes(config)),
        ("grpc.max_concurrent_streams", min(MOST_STREAMS, config.max_connections)),
        ("grpc.max_allowed_incoming_connections", config.max_connections),
        ("grpc.per_message_decompression", 0),
        ("grpc.max_metadata_size", config.max_header_bytes),
        ("grpc.absolute_max_metadata_size", config.max_header_bytes),
        ("grpc.server_handshake_timeout_ms", int(config.header_seconds * 1000)),
        ("grpc.max_connection_idle_ms", config.idle_seconds * 1000),
        ("grpc.so_reuseport", 0),  # two receivers on one port would each get half of the traffic and say nothing
    ]
    return aio.server(handlers=(GrpcDoor(receiver, guard),), options=options)
