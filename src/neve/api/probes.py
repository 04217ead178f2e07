"""Paths for those who watch: is it alive, is it well, is it ready, what has it counted."""

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
    """The probes of a receiver, which is ill while it is under pressure, and not ready then nor while it drains."""

    def ailment() -> str | None:
        return next((pressure.ailment for pressure in pressures if pressure.ailment), None)

    def problem() -> str | None:
        return next((pressure.problem for pressure in pressures if pressure.problem), None)

    return probes(ailment, problem, metrics.registry, REGISTRY)


def probes(
    ailment: Callable[[], str | None], problem: Callable[[], str | None], *registries: CollectorRegistry
) -> list[Route]:
    """`/livez`, `/healthz`, `/readyz` and `/metrics` of one part that answers by itself.

    It is ill while it has an ailment, and not ready while it has a problem.
    """

    async def alive(_request: Request) -> Response:
        return JSONResponse({"status": "alive"})

    async def healthy(_request: Request) -> Response:
        if reason := ailment():
            return JSONResponse({"status": "unhealthy", "problems": [reason]}, status_code=503)
        return JSONResponse({"status": "healthy"})

    async def ready(_request: Request) -> Response:
        if reason := problem():
            return JSONResponse({"status": "not ready", "reason": reason}, status_code=503)
        return JSONResponse({"status": "ready"})

    async def counted(_request: Request) -> Response:
        everything = b"".join(map(generate_latest, registries))
        return Response(everything, media_type=CONTENT_TYPE_LATEST)

    return [
        Route("/livez", alive),
        Route("/healthz", healthy),
        Route("/readyz", ready),
        Route("/metrics", counted),
    ]
