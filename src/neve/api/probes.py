"""Paths for those who watch: is it alive, is it ready, what has it counted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, generate_latest
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from prometheus_client import CollectorRegistry
    from starlette.requests import Request

    from neve.receive.metrics import ReceiverMetrics
    from neve.receive.pressure import Pressure


def probe_routes(metrics: ReceiverMetrics, pressures: Sequence[Pressure]) -> list[Route]:
    """The probes of a receiver, which is not ready while it is under pressure."""

    def problem() -> str | None:
        return next((pressure.problem for pressure in pressures if pressure.problem), None)

    return probes(problem, metrics.registry, REGISTRY)


def probes(problem: Callable[[], str | None], *registries: CollectorRegistry) -> list[Route]:
    """`/livez`, `/healthz`, `/readyz` and `/metrics` of one part that answers by itself."""

    async def alive(_request: Request) -> Response:
        return JSONResponse({"status": "alive"})

    async def ready(_request: Request) -> Response:
        if reason := problem():
            return JSONResponse({"status": "not ready", "reason": reason}, status_code=503)
        return JSONResponse({"status": "ready"})

    async def counted(_request: Request) -> Response:
        everything = b"".join(map(generate_latest, registries))
        return Response(everything, media_type=CONTENT_TYPE_LATEST)

    return [
        Route("/livez", alive),
        Route("/healthz", alive),
        Route("/readyz", ready),
        Route("/metrics", counted),
    ]
