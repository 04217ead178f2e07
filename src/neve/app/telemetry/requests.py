"""Spans of HTTP requests, around any ASGI application."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from neve.app.telemetry.place import OWN_HEADER
from neve.app.telemetry.traces import SWITCH

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, MutableMapping

    Scope = MutableMapping[str, Any]
    Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
    Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
    Application = Callable[[Scope, Receive, Send], Awaitable[None]]

# Whoever watches asks every few seconds, and would fill a trace store with nothing else.
UNWATCHED = frozenset({"/healthz", "/readyz", "/livez", "/metrics"})
OWN = OWN_HEADER.encode()
NO_ANSWER = 499  # the client went away, or the application broke before it said a word


@dataclass(frozen=True)
class Traced:
    """An application whose requests have spans, except those that bring Neve's own telemetry and those of probes."""

    application: Application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        tracer = SWITCH.tracer
        if tracer is None or scope["type"] != "http" or scope["path"] in UNWATCHED:
            await self.application(scope, receive, send)
            return
        headers = dict(scope["headers"])
        if OWN in headers:
            await self.application(scope, receive, send)
            return
        status = NO_ANSWER

        async def noted(message: MutableMapping[str, Any]) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        with tracer.request(scope["method"], scope["path"], headers) as span:
            try:
                await self.application(scope, receive, noted)
            finally:
                span.end_with(status, getattr(scope.get("route"), "path", ""))
