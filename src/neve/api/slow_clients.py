"""Limits for slow and flooding HTTP clients: a uvicorn protocol with bounds on headers, time and connections.

A request whose headers and body arrive together needs no timer; one is set only while something is missing.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from neve.tls.certificates import describe_peer

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import Scope
    from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

    from neve.receive.config import ReceiverConfig

CLIENT_NAME = "neve.client_name"  # ASGI extension: the name in the client's certificate
CUT_OFF = "neve.cut_off"  # ASGI extension: a function that closes the connection in the middle of a response
GRACE_SECONDS = 5.0  # the application rejects a slow client first; this is for a client that goes on
REASONS = {
    400: "Bad Request",
    408: "Request Timeout",
    431: "Request Header Fields Too Large",
    503: "Service Unavailable",
}


class Phase(Enum):
    """The phase of a connection."""

    IDLE = "between requests"
    HEADERS = "inside headers"
    BODY = "inside a body"


@dataclass(frozen=True)
class ConnectionLimits:
    """The limits of a connection, and the callback for exceeded limits."""

    config: ReceiverConfig
    refused: Callable[[int, str], None]


class LimitedProtocol(HttpToolsProtocol):
    """HTTP/1.1 with bounds on headers, time and connections."""

    limits: ConnectionLimits

    _phase = Phase.IDLE
    _ended = False
    _upgraded = False
    _header_bytes = 0
    _client_name = ""
    _timer: asyncio.TimerHandle | None = None
    _timed: Phase | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept a client, unless there are too many connections."""
        full = len(self.connections) >= self.limits.config.max_connections
        super().connection_made(transport)
        self._client_name = describe_peer(transport.get_extra_info("peercert"))
        if full:
            self._end(503, "too_many_connections")
        else:
            self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the timer."""
        self._set_timer(None)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Process bytes, and update the phase of the connection."""
        if self._ended:
            return
        before = self._phase
        super().data_received(data)
        if self._ended or self._upgraded or self.transport.is_closing():
            return
        if self._phase is Phase.HEADERS:
            # Bytes that arrived while a body was read belong to the body, or are the start of a few headers: at most
            # one read.
            self._header_bytes += 0 if before is Phase.BODY else len(data)
            if self._header_bytes > self.limits.config.max_header_bytes:
                self._end(431, "header_flood")
                return
        self._watch()

    def on_message_begin(self) -> None:
        """Start a request."""
        self._phase = Phase.HEADERS
        self._header_bytes = 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Check the headers, which may have arrived at once and still be too many."""
        if self._ended:
            return
        self._phase = Phase.BODY
        size = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
        if size > self.limits.config.max_header_bytes:
            self._end(431, "header_flood")
            return
        super().on_headers_complete()
        if self.cycle is not None:
            # The cycle of this request, also if another request arrives before it ends.
            scope = cast("dict[str, Any]", self.cycle.scope)
            scope["extensions"] = {CUT_OFF: partial(_close_cycle, self.cycle), CLIENT_NAME: self._client_name}

    def on_body(self, body: bytes) -> None:
        """Process a part of the body."""
        if not self._ended:
            super().on_body(body)

    def on_message_complete(self) -> None:
        """Complete a request."""
        if not self._ended:
            self._phase = Phase.IDLE
            super().on_message_complete()

    def handle_websocket_upgrade(self) -> None:
        """Leave the connection to the protocol of WebSockets, which has limits of its own."""
        self._upgraded = True
        self._set_timer(None)
        super().handle_websocket_upgrade()

    def send_400_response(self, _msg: str) -> None:
        """Respond to input that is not HTTP."""
        if not self._ended:
            self._end(400, "bad_http")

    def _watch(self) -> None:
        """Set the timer of the phase."""
        answering = self.cycle is not None and not self.cycle.response_complete
        if self._phase is Phase.IDLE and (answering or self.timeout_keep_alive_task is not None):
            self._set_timer(None)
        elif self._phase is not self._timed:
            self._set_timer(self._phase)

    def _set_timer(self, phase: Phase | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._timed = None, phase
        config = self.limits.config
        match phase:
            case Phase.HEADERS:
                self._timer = self.loop.call_later(config.header_seconds, self._end, 408, "slow_headers")
            case Phase.BODY:
                self._timer = self.loop.call_later(config.body_seconds + GRACE_SECONDS, self._end, None, "slow_body")
            case Phase.IDLE:
                # A response without a request would be taken for the response to the next request.
                seconds = config.header_seconds if self.cycle is None else config.idle_seconds
                self._timer = self.loop.call_later(seconds, self._end, None, "idle")

    def _end(self, status: int | None, reason: str) -> None:
        """Send the reason, if a response is possible, and close the connection."""
        if self._ended or self.transport.is_closing():
            return
        self._ended = True
        self._set_timer(None)
        answering = self.cycle is not None and not self.cycle.response_complete
        if status is not None and not answering:
            self.limits.refused(status, reason)
            self.transport.write(_format_response(status, reason, self.limits.config.retry_after_seconds))
        self.transport.close()


def build_protocol(limits: ConnectionLimits) -> type[LimitedProtocol]:
    """Return the protocol class with its limits.

    Uvicorn creates an instance for each connection, and passes no arguments of ours.
    """
    return type("BoundProtocol", (LimitedProtocol,), {"limits": limits})


def cut_off_response(scope: Scope, *, flush_seconds: float) -> None:
    """Close the connection of a request whose response is not complete, and will not be.

    The client recognizes the missing end. Bytes that were sent before are dropped if it does not read them in time.
    """
    close = scope.get("extensions", {}).get(CUT_OFF)
    if close is not None:
        close(flush_seconds)


def find_client_name(scope: Scope) -> str:
    """Return the name in the certificate of a request's client; empty without one."""
    return str(scope.get("extensions", {}).get(CLIENT_NAME, ""))


def _close_cycle(cycle: RequestResponseCycle, flush_seconds: float) -> None:
    cycle.disconnected = True  # otherwise uvicorn reports the missing end as an error of the application
    if flush_seconds:
        cycle.transport.close()
        asyncio.get_running_loop().call_later(flush_seconds, cycle.transport.abort)
    else:
        cycle.transport.abort()


def _format_response(status: int, reason: str, retry_after_seconds: int) -> bytes:
    words = reason.replace("_", " ").encode()
    retry = b"retry-after: %d\r\n" % retry_after_seconds if status == 503 else b""
    head = f"HTTP/1.1 {status} {REASONS[status]}\r\n".encode()
    return b"%scontent-type: text/plain\r\ncontent-length: %d\r\n%sconnection: close\r\n\r\n%s" % (
        head,
        len(words),
        retry,
        words,
    )
