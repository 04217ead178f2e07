"""Spans of Neve's own work and of HTTP requests: `with span("compact", table="logs"): …`.

Nothing of OpenTelemetry is imported here until telemetry is turned on, and a span costs next to nothing while it is
off. `start_telemetry` puts a tracer into the switch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

from neve.app.telemetry.config import OWN_HEADER

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, MutableMapping
    from contextlib import AbstractContextManager
    from types import TracebackType

    from neve.app.telemetry.config import TelemetryConfig

    Scope = MutableMapping[str, Any]
    Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
    Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
    Application = Callable[[Scope, Receive, Send], Awaitable[None]]


Value = str | bool | int | float | None


class Span(Protocol):
    """A unit of work in progress."""

    def set(self, **attributes: Value) -> None:
        """Add attributes; None is ignored."""


class RequestSpan(Span, Protocol):
    """The span of a request in progress."""

    def end_with(self, status: int, route: str) -> None:
        """Set the status and the route of the response."""


class Tracer(Protocol):
    """Factory of spans that are exported."""

    def span(self, name: str, attributes: Mapping[str, Value]) -> AbstractContextManager[Span]:
        """Start a child span of the current one; it is the current span in the block."""

    def request(self, method: str, path: str, headers: Mapping[bytes, bytes]) -> AbstractContextManager[RequestSpan]:
        """Start the span of a request, as a child of the span in its headers."""

    def ids(self) -> tuple[str, str] | None:
        """Return the ids of the current trace and span in hexadecimal digits, or none outside a span."""


@dataclass
class TracerSwitch:
    """Holder of the current tracer; none while telemetry is off."""

    tracer: Tracer | None = None


class _NoSpan:
    """No-op span; a single instance is used for all."""

    def __enter__(self) -> _NoSpan:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        pass

    def set(self, **attributes: Value) -> None:
        """Do nothing."""


SWITCH = TracerSwitch()
NO_SPAN = _NoSpan()


def span(name: str, /, **attributes: Value) -> AbstractContextManager[Span]:
    """Start a span for the block, with attributes named `neve.…`; an error in the block is recorded in it."""
    tracer = SWITCH.tracer
    return NO_SPAN if tracer is None else tracer.span(name, attributes)


def trace_ids() -> tuple[str, str] | None:
    """Return the ids of the current trace and span; none outside a span, and while telemetry is off."""
    tracer = SWITCH.tracer
    return None if tracer is None else tracer.ids()


# Probes arrive every few seconds, and would fill a trace store.
UNTRACED_PATHS = frozenset({"/healthz", "/readyz", "/livez", "/metrics"})
OWN_HEADER_BYTES = OWN_HEADER.encode()
NO_ANSWER = 499  # the client disconnected, or the application failed before its response


@dataclass(frozen=True)
class TracingMiddleware:
    """Middleware that creates a span for each request, except for Neve's own telemetry and probes."""

    application: Application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        tracer = SWITCH.tracer
        if tracer is None or scope["type"] != "http" or scope["path"] in UNTRACED_PATHS:
            await self.application(scope, receive, send)
            return
        headers = dict(scope["headers"])
        if OWN_HEADER_BYTES in headers:
            await self.application(scope, receive, send)
            return
        status = NO_ANSWER

        async def send_and_note(message: MutableMapping[str, Any]) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        with tracer.request(scope["method"], scope["path"], headers) as span:
            try:
                await self.application(scope, receive, send_and_note)
            finally:
                span.end_with(status, getattr(scope.get("route"), "path", ""))


ProcessName = Literal["receiver", "api", "tend", "group"]


def start_telemetry(
    config: TelemetryConfig, process: ProcessName, receiver_address: str | None = None
) -> Callable[[], None]:
    """Export spans and log lines of this process from now on, and return a function that flushes and ends it.

    The address is that of the group's own receiver, for `telemetry.endpoint: self`. The end takes no longer than
    `telemetry.drain_seconds`. Logs must have been configured before.
    """
    if not config.endpoint:
        return _do_nothing
    from neve.app.telemetry.sdk import TelemetrySession  # noqa: PLC0415 - OpenTelemetry's SDK, for those who asked for it

    return TelemetrySession(config, process, receiver_address).close


def _do_nothing() -> None:
    """Do nothing, because telemetry is off."""
