"""Paths for those who watch: is it alive, is it ready, what has it counted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, generate_latest
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.requests import Request

    from neve.receive.metrics import ReceiverMetrics
    from neve.receive.pressure import Pressure


def probe_routes(metrics: ReceiverMetrics, pressures: Sequence[Pressure]) -> list[Route]:
    """`/healthz`, `/readyz` and `/metrics`."""

    async def alive(_request: Request) -> Response:
        return JSONResponse({"status": "alive"})

    async def ready(_request: Request) -> Response:
        problem = next((pressure.problem for pressure in pressures if pressure.problem), None)
        if problem:
            return JSONResponse({"status": "not ready", "reason": problem}, status_code=503)
        return JSONResponse({"status": "ready"})

    async def counted(_request: Request) -> Response:
        everything = generate_latest(metrics.registry) + generate_latest(REGISTRY)
        return Response(everything, media_type=CONTENT_TYPE_LATEST)

    return [Route("/healthz", alive), Route("/readyz", ready), Route("/metrics", counted)]
