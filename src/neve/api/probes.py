"""Paths for health checks and metrics.

Every caller gets a status and one word, which is all that an orchestrator needs. Reasons and metrics tell about the
inside: on a port with keys they need the scope `metrics` (or `admin`), and the process group shows a token of its own.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, generate_latest
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from neve.app.serve.instance import GROUP_HEADER
from neve.lake.scopes import Scope
from neve.receive.keys import key_of
from neve.receive.refusal import Refusal, Verdict

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from prometheus_client import CollectorRegistry
    from starlette.requests import Request

    from neve.receive.keys import Guard
    from neve.receive.metrics import ReceiverMetrics
    from neve.receive.pressure import Pressure


@dataclass(frozen=True)
class Viewers:
    """Callers who see more of a port than strangers do."""

    guard: Guard
    group_token: str = ""

    async def check(self, request: Request) -> None:
        """Raise `Refusal` for a stranger."""
        token = request.headers.get(GROUP_HEADER, "")
        if self.group_token and hmac.compare_digest(token.encode(), self.group_token.encode()):
            return
        key = key_of(request.headers.get("authorization"), request.headers.get("x-api-key"))
        await self.guard.caller(key, Scope.METRICS, request.client.host if request.client else "")

    async def include(self, request: Request) -> bool:
        """Whether the caller of a request is one of them."""
        try:
            await self.check(request)
        except Refusal:
            return False
        return True


def probe_routes(metrics: ReceiverMetrics, otlp: Pressure, events: Pressure, viewers: Viewers) -> list[Route]:
    """The probes of a receiver, which is ill while OTLP is under pressure, and not ready then nor while it drains.

    Events have a zone of their own. When that is full, they are refused and OTLP is not, so that the receiver stays
    ready; what is wrong with them is said beside it.
    """
    registries = (metrics.registry, REGISTRY)
    return probes(
        viewers,
        lambda: otlp.ailment,
        lambda: otlp.problem,
        *registries,
        beside=lambda: {"events": events.ailment},
    )


def probes(
    viewers: Viewers,
    ailment: Callable[[], str | None],
    problem: Callable[[], str | None],
    *registries: CollectorRegistry,
    beside: Callable[[], dict[str, str | None]] = dict,
) -> list[Route]:
    """The paths of one part that answers by itself.

    It is ill while it has an ailment, and not ready while it has a problem. What is `beside` is only told.
    """

    def told() -> dict[str, str]:
        return {name: words for name, words in beside().items() if words}

    async def healthy() -> Report:
        reason = ailment()
        return Report("unhealthy", {"problems": [reason], **told()}) if reason else Report(HEALTHY.word, told())

    async def ready() -> Report:
        reason = problem()
        return Report("not ready", {"reason": reason, **told()}) if reason else Report(READY.word, told())

    async def count() -> bytes:
        return b"".join(map(generate_latest, registries))

    return health_routes(viewers, healthy, ready, count)


@dataclass(frozen=True)
class Report:
    """What a probe answers: one word for everybody, and details."""

    word: str
    details: Mapping[str, object] = field(default_factory=dict)

    @property
    def status(self) -> int:
        """The HTTP status."""
        return 200 if self.word in (HEALTHY.word, READY.word) else 503


HEALTHY, READY = Report("healthy"), Report("ready")


def health_routes(
    viewers: Viewers,
    healthy: Callable[[], Awaitable[Report]],
    ready: Callable[[], Awaitable[Report]],
    count: Callable[[], Awaitable[bytes]],
) -> list[Route]:
    """`/livez`, `/healthz`, `/readyz` and `/metrics`."""

    async def alive(_request: Request) -> Response:
        return JSONResponse({"status": "alive"})

    def probe(look: Callable[[], Awaitable[Report]]) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            report = await look()
            details = report.details if report.details and await viewers.include(request) else {}
            return JSONResponse({"status": report.word, **details}, report.status)

        return answer

    async def metrics(request: Request) -> Response:
        try:
            await viewers.check(request)
        except Refusal as refusal:
            return refused(refusal)
        return Response(await count(), media_type=CONTENT_TYPE_LATEST)

    return [
        Route("/livez", alive),
        Route("/healthz", probe(healthy)),
        Route("/readyz", probe(ready)),
        Route("/metrics", metrics),
    ]


def refused(refusal: Refusal) -> JSONResponse:
    """An answer to a stranger."""
    headers = {"www-authenticate": "Bearer"} if refusal.verdict is Verdict.NO_KEY else {}
    return JSONResponse({"error": refusal.message}, refusal.verdict.http, {"connection": "close", **headers})
