"""A place for events that are posted: Trino's HTTP event listener and Iceberg's metrics reports, kept as JSON lines."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from anyio import Lock, to_thread
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

from neve.autopilot.sources.scan_reports import RECEIVED

if TYPE_CHECKING:
    from pathlib import Path

    from starlette.requests import Request

MAX_EVENT_BYTES = 16 * 1024 * 1024
EVENTS = "/v1/trino/events"
REPORTS = (
    "/v1/{rest:path}/metrics"  # as a REST catalog has it: /v1/{prefix}/namespaces/{namespace}/tables/{table}/metrics
)


class Sink:
    """Appends objects to a file a day and kind; what was answered with 204 is on the disk."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = Lock()

    def application(self) -> Starlette:
        """The doors; whoever serves them decides who may come in."""
        return Starlette(
            routes=[
                Route(EVENTS, self._events, methods=["POST"]),
                Route(REPORTS, self._reports, methods=["POST"]),
            ]
        )

    async def _events(self, request: Request) -> Response:
        return await self._take(request, "trino")

    async def _reports(self, request: Request) -> Response:
        return await self._take(request, "scan-reports")

    async def _take(self, request: Request, kind: str) -> Response:
        body = b""
        async for piece in request.stream():
            body += piece
            if len(body) > MAX_EVENT_BYTES:
                return Response("the event has more than 16 MB", 413)
        try:
            document = json.loads(body)
        except (ValueError, RecursionError):
            return Response("the body is no JSON", 400)
        if not isinstance(document, dict):
            return Response("the body is no JSON object", 400)
        now = datetime.now(UTC)
        line = json.dumps({RECEIVED: now.isoformat(), **document}, separators=(",", ":")).encode() + b"\n"
        async with self._lock:
            await to_thread.run_sync(_append, self._folder / kind / f"{now:%Y-%m-%d}.jsonl", line)
        return Response(status_code=204)


def _append(path: Path, line: bytes) -> None:
    """Append a line and wait for the disk; a half line of a crash gets an end of its own first."""
    path.parent.mkdir(parents=True, exist_ok=True)
    is_new = not path.exists()
    with path.open("ab+") as file:
        if file.tell() and not _ends_well(file.fileno(), file.tell()):
            line = b"\n" + line
        file.write(line)
        file.flush()
        os.fsync(file.fileno())
    if is_new:
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _ends_well(file: int, size: int) -> bool:
    return os.pread(file, 1, size - 1) == b"\n"
