"""Health checks and metrics: `/livez`, `/healthz`, `/readyz`, `/metrics`, and the port for them.

Every caller gets a status and one word, which is all that an orchestrator needs. Reasons and metrics reveal internals:
on a port with keys they require the scope `metrics` (or `admin`), and the process group sends a token of its own.
"""

from __future__ import annotations

import asyncio
import hmac
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, generate_latest
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from neve.api.access import LONGEST_SHOWN, AccessRules, build_guarded_application
from neve.api.embedded_uvicorn import serve_application
from neve.api.ports import format_address, listen
from neve.api.slow_clients import find_client_name
from neve.app.serve.process_group import GROUP_HEADER
from neve.errors import ConfigError
from neve.model.settings import is_loopback
from neve.receive.authentication import OpenGuard, extract_key
from neve.receive.refusal import Refusal, Verdict
from neve.state.scopes import Scope

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence

    from prometheus_client import CollectorRegistry
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.requests import Request

    from neve.app.serve.config import ServeConfig
    from neve.app.serve.part import PartsHealth
    from neve.receive.authentication import Guard
    from neve.receive.backpressure import Backpressure
    from neve.receive.metrics import ReceiverMetrics


@dataclass(frozen=True)
class TrustedCallers:
    """Callers who may see the details of a port."""

    guard: Guard
    group_token: str = ""

    async def check(self, request: Request) -> None:
        """Raise `Refusal` for any other caller."""
        token = request.headers.get(GROUP_HEADER, "")
        if self.group_token and hmac.compare_digest(token.encode(), self.group_token.encode()):
            return
        key = extract_key(request.headers.get("authorization"), request.headers.get("x-api-key"))
        peer = request.client.host if request.client else ""
        await self.guard.caller(key, Scope.METRICS, peer, find_client_name(request.scope))

    async def include(self, request: Request) -> bool:
        """Return whether the caller of a request is trusted."""
        try:
            await self.check(request)
        except Refusal:
            return False
        return True


def receiver_probe_routes(
    metrics: ReceiverMetrics, otlp: Backpressure, events: Backpressure, viewers: TrustedCallers
) -> list[Route]:
    """Return the probes of a receiver: unhealthy under OTLP backpressure, and not ready then or while it drains.

    Events have a zone of their own. When that is full, events are rejected and OTLP is not, so that the receiver stays
    ready. The problem is reported as a detail.
    """
    registries = (metrics.registry, REGISTRY)
    return build_probe_routes(
        viewers,
        lambda: otlp.health_problem,
        lambda: otlp.problem,
        *registries,
        beside=lambda: {"events": events.health_problem},
    )


def build_probe_routes(
    viewers: TrustedCallers,
    ailment: Callable[[], str | None],
    problem: Callable[[], str | None],
    *registries: CollectorRegistry,
    beside: Callable[[], dict[str, str | None]] = dict,
) -> list[Route]:
    """Return the health paths of a part with a port of its own.

    It is unhealthy while it has an ailment, and not ready while it has a problem. `beside` is only reported as a
    detail.
    """

    def details() -> dict[str, str]:
        return {name: words for name, words in beside().items() if words}

    async def healthy() -> ProbeResult:
        reason = ailment()
        return (
            ProbeResult("unhealthy", {"problems": [reason], **details()})
            if reason
            else ProbeResult(HEALTHY.word, details())
        )

    async def ready() -> ProbeResult:
        reason = problem()
        return (
            ProbeResult("not ready", {"reason": reason, **details()}) if reason else ProbeResult(READY.word, details())
        )

    async def count() -> bytes:
        return b"".join(map(generate_latest, registries))

    return health_routes(viewers, healthy, ready, count)


@dataclass(frozen=True)
class ProbeResult:
    """Response of a probe: one word for every caller, and details."""

    word: str
    details: Mapping[str, object] = field(default_factory=dict)

    @property
    def status(self) -> int:
        """The HTTP status."""
        return 200 if self.word in (HEALTHY.word, READY.word) else 503


HEALTHY, READY = ProbeResult("healthy"), ProbeResult("ready")


def health_routes(
    viewers: TrustedCallers,
    healthy: Callable[[], Awaitable[ProbeResult]],
    ready: Callable[[], Awaitable[ProbeResult]],
    count: Callable[[], Awaitable[bytes]],
) -> list[Route]:
    """`/livez`, `/healthz`, `/readyz` and `/metrics`."""

    async def alive(_request: Request) -> Response:
        return JSONResponse({"status": "alive"})

    def probe(look: Callable[[], Awaitable[ProbeResult]]) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            report = await look()
            details = report.details if report.details and await viewers.include(request) else {}
            return JSONResponse({"status": report.word, **details}, report.status)

        return answer

    async def metrics(request: Request) -> Response:
        try:
            await viewers.check(request)
        except Refusal as refusal:
            return refusal_response(refusal)
        return Response(await count(), media_type=CONTENT_TYPE_LATEST)

    return [
        Route("/livez", alive),
        Route("/healthz", probe(healthy)),
        Route("/readyz", probe(ready)),
        Route("/metrics", metrics),
    ]


def refusal_response(refusal: Refusal) -> JSONResponse:
    """Return the response to an untrusted caller."""
    headers = {"www-authenticate": "Bearer"} if refusal.verdict is Verdict.NO_KEY else {}
    return JSONResponse({"error": refusal.message}, refusal.verdict.http, {"connection": "close", **headers})


HEALTH_PATHS = ("/livez", "/healthz", "/readyz", "/metrics")


class HealthSource(Protocol):
    """Source of health and metrics; it is called in threads, since it may query other processes."""

    def look(self) -> PartsHealth:
        """Return the health of the parts."""

    def collect_metrics(self) -> bytes:
        """Return the metrics in Prometheus's text format."""


@asynccontextmanager
async def serve_health(watched: HealthSource, config: ServeConfig, guard: Guard | None = None) -> AsyncIterator[str]:
    """Serve health and metrics while the block runs, and yield the address; without a guard it must be on loopback."""
    if guard is None and not is_loopback(config.host):
        raise ConfigError(
            f"serve.host is {config.host!r}, expected a loopback address, because this port checks no API keys"
        )
    sock = listen(config.host, config.port, "serve.port")
    application = health_application(source_health_routes(watched, TrustedCallers(guard or OpenGuard(""))), config)
    async with serve_application(application, sock, "serve", config.tls, timeout_graceful_shutdown=1):
        yield f"{config.tls.scheme}://{format_address(config.host, sock.getsockname()[1])}"


def health_application(routes: Sequence[Route], config: ServeConfig) -> Starlette:
    """Build an application of health checks and metrics alone, with the access rules of `serve.host`."""
    rules = AccessRules("serve", is_open=is_loopback(config.host), tls=config.tls)
    return build_guarded_application(routes, rules, lambda refusal, _scope: refusal_response(refusal), _not_found)


def source_health_routes(watched: HealthSource, viewers: TrustedCallers) -> list[Route]:
    """`/livez`, `/healthz`, `/readyz` and `/metrics`."""

    async def healthy() -> ProbeResult:
        health = await asyncio.to_thread(watched.look)
        parts = {"parts": list(health.parts)}
        return (
            replace(HEALTHY, details=parts)
            if not health.problems
            else ProbeResult("unhealthy", {"problems": health.problems, **parts})
        )

    async def ready() -> ProbeResult:
        health = await asyncio.to_thread(watched.look)
        return ProbeResult("not ready", {"reason": "; ".join(health.unready)}) if health.unready else READY

    async def count() -> bytes:
        return await asyncio.to_thread(watched.collect_metrics)

    return health_routes(viewers, healthy, ready, count)


def _not_found(request: Request, error: HTTPException) -> Response:
    words = f"{request.method} {request.url.path[:LONGEST_SHOWN]} was not found: GET {', '.join(HEALTH_PATHS)}"
    return JSONResponse({"error": words}, error.status_code, headers=error.headers)
