"""OTLP over HTTP, and the other paths of the same port."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import structlog

from neve.api.body import Body, ClientGone
from neve.api.reply import HttpReply, refusal_reply
from neve.lake.scopes import Scope as KeyScope
from neve.raw.frame import Encoding, Packing
from neve.receive.events import refused_documents
from neve.receive.keys import key_of
from neve.receive.receiver import Export
from neve.receive.refusal import Refusal, Verdict
from neve.receive.reply import CONTENT_TYPES, accepted

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from neve.lake.scopes import Caller
    from neve.model.signals import Signal
    from neve.receive.budget import Budget, Hold
    from neve.receive.config import ReceiverConfig
    from neve.receive.events import EventReceiver
    from neve.receive.keys import Guard
    from neve.receive.metrics import ReceiverMetrics
    from neve.receive.receiver import Receiver

HTTP = "http"
JSON = b"application/json"
ENCODINGS = {b"application/x-protobuf": Encoding.PROTOBUF, JSON: Encoding.JSON}
PACKINGS = {
    b"": Packing.NONE,
    b"identity": Packing.NONE,
    b"gzip": Packing.GZIP,
    b"zstd": Packing.ZSTD,
    b"deflate": Packing.DEFLATE,
}
Headers = dict[bytes, bytes]

log = structlog.get_logger("neve.api")


class Desk(Protocol):
    """What is done with the body of one path."""

    @property
    def signal(self) -> str:
        """What the path is for, as metrics call it."""

    @property
    def scope(self) -> KeyScope:
        """What a key must allow."""

    @property
    def max_body_bytes(self) -> int:
        """The largest body."""

    async def take(self, caller: Caller, headers: Headers, body: Body, hold: Hold) -> HttpReply:
        """Read the body and answer; raises `Refusal`."""


@dataclass(frozen=True)
class ExportDesk:
    """Takes messages of one signal."""

    signal: Signal
    receiver: Receiver
    scope: KeyScope = KeyScope.WRITE

    @property
    def max_body_bytes(self) -> int:
        """A packed message is no larger than an unpacked one may be."""
        return self.receiver.config.max_message_bytes

    async def take(self, caller: Caller, headers: Headers, body: Body, hold: Hold) -> HttpReply:
        """Answer when the message is durable."""
        encoding, packing = encoding_of(headers), _packing_of(headers)
        self.receiver.admit(caller)  # before its body is read
        config = self.receiver.config
        data = await body.read(self.max_body_bytes, config.body_seconds, self.receiver.budget, hold)
        export = Export(self.signal, caller.organization, data, encoding, packing, caller.key_id)
        answer = await self.receiver.accept(export, hold)
        return HttpReply(200, accepted(answer, encoding), CONTENT_TYPES[encoding])


@dataclass(frozen=True)
class EventDesk:
    """Takes notifications about objects in S3."""

    receiver: EventReceiver
    budget: Budget
    body_seconds: float
    max_body_bytes: int
    signal: str = "events"
    scope: KeyScope = KeyScope.ANNOUNCE

    async def take(self, caller: Caller, headers: Headers, body: Body, hold: Hold) -> HttpReply:
        """Answer when the notification is durable; forms of other web pages can't send JSON."""
        if (kind := _type_of(headers)) != JSON:
            raise _unsupported("content-type", kind, {JSON: Encoding.JSON})
        self.receiver.admit(caller)
        try:
            data = await body.read(self.max_body_bytes, self.body_seconds, self.budget, hold)
        except Refusal as refusal:
            if refusal.verdict is not Verdict.TOO_LARGE:
                raise
            words = f"the event is larger than {self.max_body_bytes} bytes, send several"
            raise Refusal(Verdict.TOO_LARGE, refusal.reason, words) from None
        checked = await self.receiver.accept(caller, data)
        answer = {"refused": refused_documents(checked.refused)} if checked.refused else {}
        return HttpReply(200, json.dumps(answer).encode(), CONTENT_TYPES[Encoding.JSON])


@dataclass(frozen=True)
class HttpDoor:
    """An ASGI application: who is it, what do they bring, what are they told."""

    desk: Desk
    guard: Guard
    budget: Budget
    config: ReceiverConfig
    metrics: ReceiverMetrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        headers: Headers = dict(scope["headers"])
        body = Body(headers, receive)
        try:
            reply = await self._serve(headers, body, (scope.get("client") or ("",))[0])
        except ClientGone:
            self.metrics.abandoned(HTTP)
            return
        except Refusal as refusal:
            self.metrics.refused(HTTP, refusal.reason)
            encoding = reply_encoding(headers)
            slow = refusal.verdict is Verdict.SLOW
            reply = refusal_reply(
                refusal.detached(), encoding, self.config.retry_after_seconds, close=slow or body.must_close
            )
        self.metrics.answered(self.desk.signal, HTTP, str(reply.status))
        await reply.send(send)

    async def _serve(self, headers: Headers, body: Body, peer: str) -> HttpReply:
        try:
            key = key_of(_text(headers, b"authorization"), _text(headers, b"x-api-key"))
            caller = await self.guard.caller(key, self.desk.scope, peer)
            with self.budget.hold() as hold:
                return await self.desk.take(caller, headers, body, hold)
        except (Refusal, ClientGone):
            raise
        except Exception:
            # A bug; the sender must not take it for an answer about its data.
            log.exception("a request failed", signal=self.desk.signal, transport=HTTP)
            raise Refusal(Verdict.FAILED, "failed", "the receiver failed; its log says why") from None


def encoding_of(headers: Headers) -> Encoding:
    """How a body is written; raises `Refusal` for a type that OTLP does not have."""
    kind = _type_of(headers)
    try:
        return ENCODINGS[kind]
    except KeyError:
        raise _unsupported("content-type", kind, ENCODINGS) from None


def reply_encoding(headers: Headers) -> Encoding:
    """How an answer to a refused request is written: as the request was, where that is known."""
    return ENCODINGS.get(_type_of(headers), Encoding.JSON)


def _packing_of(headers: Headers) -> Packing:
    name = headers.get(b"content-encoding", b"").strip().lower()
    try:
        return PACKINGS[name]
    except KeyError:
        raise _unsupported("content-encoding", name, PACKINGS) from None


def _type_of(headers: Headers) -> bytes:
    return headers.get(b"content-type", b"").partition(b";")[0].strip().lower()


def _unsupported(header: str, value: bytes, known: dict[bytes, Encoding] | dict[bytes, Packing]) -> Refusal:
    expected = ", ".join(name.decode() for name in known if name)
    given = value[:100].decode("latin-1")
    return Refusal(
        Verdict.UNSUPPORTED,
        f"unsupported_{header.replace('-', '_')}",
        f"{header} is {given!r}, expected one of {expected}",
    )


def _text(headers: Headers, name: bytes) -> str | None:
    value = headers.get(name)
    return None if value is None else value.decode("latin-1")
