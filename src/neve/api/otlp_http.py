"""OTLP over HTTP, S3 event notifications, and the application of the receiver's HTTP port.

A request body is read within a size limit, a time limit and the memory budget of all requests.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from starlette.responses import JSONResponse
from starlette.routing import Route

from neve.api.access import LONGEST_SHOWN, AccessRules, build_guarded_application
from neve.api.health import TrustedCallers, receiver_probe_routes
from neve.api.slow_clients import find_client_name
from neve.logger import get_logger
from neve.model.signals import Signal
from neve.raw.frame import Encoding, Packing
from neve.receive.authentication import extract_key
from neve.receive.events import MAX_EVENT_BYTES, format_refused_files
from neve.receive.receiver import Export
from neve.receive.refusal import Refusal, Verdict, too_large_error
from neve.receive.response import CONTENT_TYPES, encode_answer, encode_refusal
from neve.state.scopes import Scope as KeyScope

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp, Receive, Scope, Send

    from neve.receive.authentication import Guard
    from neve.receive.budget import Budget, Hold
    from neve.receive.config import ReceiverConfig
    from neve.receive.events import EventReceiver
    from neve.receive.metrics import ReceiverMetrics
    from neve.receive.receiver import Receiver
    from neve.state.scopes import Caller


class ClientDisconnected(Exception):
    """Raised when a client disconnects before its body is complete: no response is needed."""


class RequestBody:
    """The body of one request."""

    def __init__(self, headers: dict[bytes, bytes], receive: Receive) -> None:
        self._receive = receive
        self._declared = int(headers.get(b"content-length") or 0)
        self._expects_go_ahead = b"expect" in headers
        self._begun = False
        self._whole = False

    @property
    def must_close(self) -> bool:
        """True if the connection can't be reused: the following bytes may be the rest of the body."""
        return self._expects_go_ahead and not self._begun

    async def read(self, limit: int, seconds: float, budget: Budget, hold: Hold) -> bytes:
        """Read the whole body; raises `Refusal` if it is too large, too slow or exceeds the memory budget."""
        if self._declared > limit:
            raise too_large_error("the body", limit)
        budget.check(self._declared)
        try:
            async with asyncio.timeout(seconds):
                return await self._collect(limit, hold)
        except TimeoutError:
            raise Refusal(
                Verdict.SLOW, "slow_body", f"the body did not arrive within {seconds:g} s (receiver.body_seconds)"
            ) from None

    async def _collect(self, limit: int, hold: Hold) -> bytes:
        pieces: list[bytes] = []
        size = 0
        self._begun = True
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnected
            piece: bytes = message.get("body", b"")
            if piece:
                size += len(piece)
                if size > limit:
                    raise too_large_error("the body", limit)
                hold.grow(len(piece))
                pieces.append(piece)
            if not message.get("more_body", False):
                return pieces[0] if len(pieces) == 1 else b"".join(pieces)


Header = tuple[bytes, bytes]


@dataclass(frozen=True)
class HttpResponse:
    """An HTTP response."""

    status: int
    body: bytes
    content_type: str
    headers: tuple[Header, ...] = ()

    async def send(self, send: Send) -> None:
        """Send the response."""
        headers = [
            (b"content-type", self.content_type.encode()),
            (b"content-length", b"%d" % len(self.body)),
            *self.headers,
        ]
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": self.body})


def build_refusal_response(
    refusal: Refusal, encoding: Encoding, retry_after_seconds: int, *, close: bool
) -> HttpResponse:
    """Return the response to a rejected request, with the headers that its status requires."""
    headers: list[Header] = []
    if refusal.verdict.is_retryable:
        headers.append((b"retry-after", b"%d" % (refusal.retry_after_seconds or retry_after_seconds)))
    if refusal.verdict is Verdict.NO_KEY:
        headers.append((b"www-authenticate", b"Bearer"))
    if close:
        headers.append((b"connection", b"close"))
    return HttpResponse(
        refusal.verdict.http, encode_refusal(refusal, encoding), CONTENT_TYPES[encoding], tuple(headers)
    )


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

log = get_logger("neve.api")


class BodyHandler(Protocol):
    """Handler of the request bodies of one path."""

    @property
    def signal(self) -> str:
        """The name of the signal in metrics."""

    @property
    def scope(self) -> KeyScope:
        """The scope that a key needs."""

    @property
    def max_body_bytes(self) -> int:
        """The size limit of a body."""

    async def take(self, caller: Caller, headers: Headers, body: RequestBody, hold: Hold) -> HttpResponse:
        """Read the body and return the response; raises `Refusal`."""


@dataclass(frozen=True)
class ExportHandler:
    """Handler of the messages of one signal."""

    signal: Signal
    receiver: Receiver
    scope: KeyScope = KeyScope.WRITE

    @property
    def max_body_bytes(self) -> int:
        """The size limit; a compressed message may be no larger than an uncompressed one."""
        return self.receiver.config.max_message_bytes

    async def take(self, caller: Caller, headers: Headers, body: RequestBody, hold: Hold) -> HttpResponse:
        """Return the response when the message is durable."""
        encoding, packing = parse_encoding(headers), _parse_packing(headers)
        self.receiver.admit(caller)  # before its body is read
        config = self.receiver.config
        data = await body.read(self.max_body_bytes, config.body_seconds, self.receiver.budget, hold)
        export = Export(self.signal, caller.organization, data, encoding, packing, caller.key_id)
        answer = await self.receiver.accept(export, hold)
        return HttpResponse(200, encode_answer(answer, encoding), CONTENT_TYPES[encoding])


@dataclass(frozen=True)
class EventHandler:
    """Handler of S3 event notifications."""

    receiver: EventReceiver
    budget: Budget
    body_seconds: float
    max_body_bytes: int
    signal: str = "events"
    scope: KeyScope = KeyScope.ANNOUNCE

    async def take(self, caller: Caller, headers: Headers, body: RequestBody, hold: Hold) -> HttpResponse:
        """Return the response when the notification is durable.

        JSON is required, because forms of other web pages can't send it.
        """
        if (kind := _content_type(headers)) != JSON:
            raise _unsupported_refusal("content-type", kind, {JSON: Encoding.JSON})
        self.receiver.admit(caller)
        try:
            data = await body.read(self.max_body_bytes, self.body_seconds, self.budget, hold)
        except Refusal as refusal:
            if refusal.verdict is not Verdict.TOO_LARGE:
                raise
            words = f"the event is larger than {self.max_body_bytes} bytes, send several"
            raise Refusal(Verdict.TOO_LARGE, refusal.reason, words) from None
        checked = await self.receiver.accept(caller, data)
        answer = {"refused": format_refused_files(checked.refused)} if checked.refused else {}
        return HttpResponse(200, json.dumps(answer).encode(), CONTENT_TYPES[Encoding.JSON])


@dataclass(frozen=True)
class HttpEndpoint:
    """ASGI application of one path: authenticates the caller, passes the body to the handler, and responds."""

    desk: BodyHandler
    guard: Guard
    budget: Budget
    config: ReceiverConfig
    metrics: ReceiverMetrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        headers: Headers = dict(scope["headers"])
        body = RequestBody(headers, receive)
        try:
            reply = await self._serve(headers, body, (scope.get("client") or ("",))[0], find_client_name(scope))
        except ClientDisconnected:
            self.metrics.count_abandoned(HTTP)
            return
        except Refusal as refusal:
            self.metrics.count_refusal(HTTP, refusal.reason)
            encoding = response_encoding(headers)
            slow = refusal.verdict is Verdict.SLOW
            reply = build_refusal_response(
                refusal.strip_traceback(), encoding, self.config.retry_after_seconds, close=slow or body.must_close
            )
        self.metrics.count_response(self.desk.signal, HTTP, str(reply.status))
        await reply.send(send)

    async def _serve(self, headers: Headers, body: RequestBody, peer: str, certificate: str) -> HttpResponse:
        try:
            key = extract_key(_header_text(headers, b"authorization"), _header_text(headers, b"x-api-key"))
            caller = await self.guard.caller(key, self.desk.scope, peer, certificate)
            with self.budget.hold() as hold:
                return await self.desk.take(caller, headers, body, hold)
        except (Refusal, ClientDisconnected):
            raise
        except Exception:
            # A bug; the client must not take it for a response about its data.
            log.exception("a request failed", signal=self.desk.signal, transport=HTTP)
            raise Refusal(Verdict.FAILED, "failed", "internal error of the receiver; see its log") from None


def parse_encoding(headers: Headers) -> Encoding:
    """Return the encoding of a body; raises `Refusal` for a type that OTLP does not have."""
    kind = _content_type(headers)
    try:
        return ENCODINGS[kind]
    except KeyError:
        raise _unsupported_refusal("content-type", kind, ENCODINGS) from None


def response_encoding(headers: Headers) -> Encoding:
    """Return the encoding of the response to a rejected request: that of the request, if it is known."""
    return ENCODINGS.get(_content_type(headers), Encoding.JSON)


def _parse_packing(headers: Headers) -> Packing:
    name = headers.get(b"content-encoding", b"").strip().lower()
    try:
        return PACKINGS[name]
    except KeyError:
        raise _unsupported_refusal("content-encoding", name, PACKINGS) from None


def _content_type(headers: Headers) -> bytes:
    return headers.get(b"content-type", b"").partition(b";")[0].strip().lower()


def _unsupported_refusal(header: str, value: bytes, known: dict[bytes, Encoding] | dict[bytes, Packing]) -> Refusal:
    expected = ", ".join(name.decode() for name in known if name)
    given = value[:100].decode("latin-1")
    return Refusal(
        Verdict.UNSUPPORTED,
        f"unsupported_{header.replace('-', '_')}",
        f"{header} is {given!r}, expected one of {expected}",
    )


def _header_text(headers: Headers, name: bytes) -> str | None:
    value = headers.get(name)
    return None if value is None else value.decode("latin-1")


EVENTS_PATH = "/events/s3"
OTLP_PATHS = "send OTLP by POST to /v1/traces, /v1/logs or /v1/metrics"


def build_application(receiver: Receiver, events: EventReceiver, guard: Guard, group_token: str = "") -> Starlette:
    """Build the application with every path that the receiver serves over HTTP."""
    config, metrics, budget = receiver.config, receiver.metrics, receiver.budget

    def door(path: str, desk: BodyHandler) -> Route:
        return Route(path, HttpEndpoint(desk, guard, budget, config, metrics), methods=["POST"])

    def elsewhere(request: Request, error: HTTPException) -> Response:
        metrics.count_response("none", HTTP, str(error.status_code))
        words = f"{request.method} {request.url.path[:LONGEST_SHOWN]} was not found: {OTLP_PATHS}"
        return JSONResponse({"code": 12, "message": words}, error.status_code, headers=error.headers)

    def refuse(refusal: Refusal, scope: Scope) -> ASGIApp:
        metrics.count_refusal(HTTP, refusal.reason)
        metrics.count_response("none", HTTP, str(refusal.verdict.http))
        reply = build_refusal_response(
            refusal, response_encoding(dict(scope["headers"])), config.retry_after_seconds, close=True
        )

        async def respond(_scope: Scope, _receive: Receive, send: Send) -> None:
            await reply.send(send)

        return respond

    routes = [door(f"/v1/{signal}", ExportHandler(signal, receiver)) for signal in Signal]
    routes.append(door(EVENTS_PATH, EventHandler(events, budget, config.body_seconds, MAX_EVENT_BYTES)))
    routes += receiver_probe_routes(metrics, receiver.pressure, events.pressure, TrustedCallers(guard, group_token))
    return build_guarded_application(routes, receiver_rules(config), refuse, elsewhere)


def receiver_rules(config: ReceiverConfig) -> AccessRules:
    """Return the access rules of the receiver's ports."""
    return AccessRules("receiver", config.auth == "open", config.allowed_hosts, tls=config.tls)
