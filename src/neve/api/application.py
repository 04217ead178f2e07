"""The paths of the HTTP port, as one application."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from neve.api.otlp_http import HTTP, EventDesk, ExportDesk, HttpDoor
from neve.api.probes import probe_routes
from neve.model.signals import Signal
from neve.receive.events import MAX_EVENT_BYTES

if TYPE_CHECKING:
    from starlette.requests import Request

    from neve.api.otlp_http import Desk
    from neve.receive.events import EventReceiver
    from neve.receive.keys import Guard
    from neve.receive.receiver import Receiver

EVENTS_PATH = "/events/s3"


def build_application(receiver: Receiver, events: EventReceiver, guard: Guard) -> Starlette:
    """Every path that the receiver serves over HTTP."""
    config, metrics, budget = receiver.config, receiver.metrics, receiver.budget

    def door(path: str, desk: Desk) -> Route:
        return Route(path, HttpDoor(desk, guard, budget, config, metrics), methods=["POST"])

    async def elsewhere(request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        headers = error.headers if isinstance(error, HTTPException) else None
        metrics.answered("none", HTTP, str(status))
        words = f"{request.method} {request.url.path} is not served here"
        return JSONResponse({"code": 12, "message": words}, status, headers=headers)

    routes = [door(f"/v1/{signal}", ExportDesk(signal, receiver)) for signal in Signal]
    routes.append(door(EVENTS_PATH, EventDesk(events, budget, config.body_seconds, MAX_EVENT_BYTES)))
    routes += probe_routes(metrics, receiver.pressure, events.pressure)
    return Starlette(routes=routes, exception_handlers={HTTPException: elsewhere})
