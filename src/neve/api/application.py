"""The paths of the HTTP port, as one application."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import JSONResponse
from starlette.routing import Route

from neve.api.access import LONGEST_SHOWN, AccessRules, guarded_application
from neve.api.otlp_http import HTTP, EventDesk, ExportDesk, HttpDoor, reply_encoding
from neve.api.probes import Viewers, probe_routes
from neve.api.reply import refusal_reply
from neve.model.signals import Signal
from neve.receive.events import MAX_EVENT_BYTES

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp, Receive, Scope, Send

    from neve.api.otlp_http import Desk
    from neve.receive.config import ReceiverConfig
    from neve.receive.events import EventReceiver
    from neve.receive.keys import Guard
    from neve.receive.receiver import Receiver
    from neve.receive.refusal import Refusal

EVENTS_PATH = "/events/s3"
PATHS = "OTLP goes by POST to /v1/traces, /v1/logs and /v1/metrics"


def build_application(receiver: Receiver, events: EventReceiver, guard: Guard, group_token: str = "") -> Starlette:
    """Every path that the receiver serves over HTTP."""
    config, metrics, budget = receiver.config, receiver.metrics, receiver.budget

    def door(path: str, desk: Desk) -> Route:
        return Route(path, HttpDoor(desk, guard, budget, config, metrics), methods=["POST"])

    def elsewhere(request: Request, error: HTTPException) -> Response:
        metrics.answered("none", HTTP, str(error.status_code))
        words = f"{request.method} {request.url.path[:LONGEST_SHOWN]} is not served here: {PATHS}"
        return JSONResponse({"code": 12, "message": words}, error.status_code, headers=error.headers)

    def refuse(refusal: Refusal, scope: Scope) -> ASGIApp:
        metrics.refused(HTTP, refusal.reason)
        metrics.answered("none", HTTP, str(refusal.verdict.http))
        reply = refusal_reply(refusal, reply_encoding(dict(scope["headers"])), config.retry_after_seconds, close=True)

        async def respond(_scope: Scope, _receive: Receive, send: Send) -> None:
            await reply.send(send)

        return respond

    routes = [door(f"/v1/{signal}", ExportDesk(signal, receiver)) for signal in Signal]
    routes.append(door(EVENTS_PATH, EventDesk(events, budget, config.body_seconds, MAX_EVENT_BYTES)))
    routes += probe_routes(metrics, receiver.pressure, events.pressure, Viewers(guard, group_token))
    return guarded_application(routes, receiver_rules(config), refuse, elsewhere)


def receiver_rules(config: ReceiverConfig) -> AccessRules:
    """The rules of the receiver's ports."""
    return AccessRules("receiver", config.auth == "open", config.allowed_hosts)
