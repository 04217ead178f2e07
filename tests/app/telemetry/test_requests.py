"""Spans of HTTP requests: below the caller's, named by their route, and none for what only watches or is Neve's own."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from neve.app.telemetry.config import OWN_HEADER
from neve.app.telemetry.tracing import TracingMiddleware, span
from neve.model.signals import Signal
from tests.app.telemetry.landed import address, landed

if TYPE_CHECKING:
    from starlette.requests import Request

    from tests.api.running import Running
    from tests.app.telemetry.conftest import Start

CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
UNSAMPLED = CALLER[:-2] + "00"


async def one(request: Request) -> Response:
    """Answer, with a span of its own."""
    with span("inner"):
        return JSONResponse({"id": request.path_params["id"]})


async def busy(_request: Request) -> Response:
    """Refuse."""
    return Response(status_code=503)


async def broken(_request: Request) -> Response:
    """Fail."""
    raise ValueError("broken")


APPLICATION = Starlette(
    routes=[Route("/queries/{id}", one), Route("/busy", busy), Route("/broken", broken), Route("/healthz", busy)]
)


def ask(path: str, **headers: str) -> int:
    """One request; the status of its answer."""
    said: list[int] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        said.extend([message["status"]] if message["type"] == "http.response.start" else [])

    scope = {
        "type": "http",
        "method": "GET",
        "path": path,
        "query_string": b"key=hunter2",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }
    asyncio.run(TracingMiddleware(APPLICATION)(scope, receive, send))
    return said[0]


def test_a_request_is_a_span_below_its_callers(receiver: Running, start: Start) -> None:
    """Named by its route; what stands in the query stays out of it."""
    sending = start(address(receiver), process="api")
    assert ask("/queries/7", traceparent=CALLER) == 200
    sending.close()
    inner, outer = landed(receiver, Signal.TRACES)
    assert (outer["trace_id"].hex(), outer["parent_span_id"].hex()) == (CALLER[3:35], CALLER[36:52])
    assert (inner["operation_name"], inner["parent_span_id"]) == ("inner", outer["span_id"])
    assert (outer["operation_name"], outer["span_kind"], outer["status_code"]) == ("GET /queries/{id}", 2, 0)
    assert outer["attributes"] == {
        "http.request.method": "GET",
        "http.response.status_code": "200",
        "http.route": "/queries/{id}",
        "url.path": "/queries/7",
    }


@pytest.mark.parametrize(
    ("path", "headers", "spans"),
    [
        ("/queries/7", {"traceparent": "nonsense"}, 2),
        ("/queries/7", {"traceparent": UNSAMPLED}, 0),
        ("/queries/7", {OWN_HEADER: "1"}, 1),  # the application's own span; none of the request
        ("/healthz", {}, 0),
    ],
)
def test_what_a_caller_says_is_followed(
    receiver: Running, start: Start, path: str, headers: dict[str, str], spans: int
) -> None:
    """A context that is none begins a trace; one that is not sampled is not; Neve's own telemetry makes none."""
    sending = start(address(receiver))
    ask(path, **headers)
    sending.close()
    assert len(landed(receiver, Signal.TRACES)) == spans


def test_failures_are_seen(receiver: Running, start: Start) -> None:
    """An answer of the server's fault, and an application that breaks."""
    sending = start(address(receiver))
    assert ask("/busy") == 503
    with pytest.raises(ValueError, match="broken"):
        ask("/broken")
    assert ask("/nowhere") == 404
    sending.close()
    rows = {row["operation_name"]: row for row in landed(receiver, Signal.TRACES)}
    assert {name: row["status_code"] for name, row in rows.items()} == {"GET /busy": 2, "GET /broken": 2, "GET": 0}


def test_off_it_is_not_there() -> None:
    """The application answers as if it stood alone."""
    assert ask("/queries/7", traceparent=CALLER) == 200
