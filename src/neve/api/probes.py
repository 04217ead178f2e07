"""Paths for those who watch: is it alive, is it well, is it ready, what has it counted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, generate_latest
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

if TYPE_CHECKING:
    from collections.abc import Callable

    from prometheus_client import CollectorRegistry
    from starlette.requests import Request

    from neve.receive.metrics import ReceiverMetrics
    from neve.receive.pressure import Pressure


def probe_routes(metrics: ReceiverMetrics, otlp: Pressure, events: Pressure) -> list[Route]:
    """The probes of a receiver, which is ill while OTLP is under pressure, and not ready then nor while it drains.

    Events have a zone of their own. When that is full, they are refused and OTLP is not, so that the receiver stays
    ready; what is wrong with them is said beside it.
    """
    return probes(
        lambda: otlp.ailment,
        lambda: otlp.problem,
        metrics.registry,
        REGISTRY,
        beside=lambda: {"events": events.ailment},
    )


def probes(
    ailment: Callable[[], str | None],
    problem: Callable[[], str | None],
    *registries: CollectorRegistry,
    beside: Callable[[], dict[str, str | None]] = dict,
) -> list[Route]:
    """`/livez`, `/healthz`, `/readyz` and `/metrics` of one part that answers by itself.

    It is ill while it has an ailment, and not ready while it has a problem. What is `beside` is only told.
    """

    def told() -> dict[str, str]:
        return {name: words for name, words in beside().items() if words}

    async def alive(_request: Request) -> Response:
        return JSONResponse({"status": "alive"})

    async def healthy(_request: Request) -> Response:
        if reason := ailment():
            return JSONResponse({"status": "unhealthy", "problems": [reason], **told()}, status_code=503)
        return JSONResponse({"status": "healthy", **told()})

    async def ready(_request: Request) -> Response:
        if reason := problem():
            return JSONResponse({"status": "not ready", "reason": reason, **told()}, status_code=503)
        return JSONResponse({"status": "ready", **told()})

    async def counted(_request: Request) -> Response:
        everything = b"".join(map(generate_latest, registries))
        return Response(everything, media_type=CONTENT_TYPE_LATEST)

    return [
        Route("/livez", alive),
        Route("/healthz", healthy),
        Route("/readyz", ready),
        Route("/metrics", counted),
    ]
