"""HTTP receiver of Trino events and Iceberg metrics reports, which appends them to JSON-lines files."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from anyio import Lock, to_thread
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

from neve.autopilot.logs.scan_reports import RECEIVED_KEY

if TYPE_CHECKING:
    from pathlib import Path

    from starlette.requests import Request

MAX_EVENT_BYTES = 16 * 1024 * 1024
EVENTS_ROUTE = "/v1/trino/events"
REPORTS_ROUTE = (
    "/v1/{rest:path}/metrics"  # as in a REST catalog: /v1/{prefix}/namespaces/{namespace}/tables/{table}/metrics
)


class EventReceiver:
    """Receiver that appends objects to one file per day and kind.

    An object is on disk before the response 204 is sent.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = Lock()

    def application(self) -> Starlette:
        """Return the routes; the server that mounts them is responsible for authentication."""
        return Starlette(
            routes=[
                Route(EVENTS_ROUTE, self._events, methods=["POST"]),
                Route(REPORTS_ROUTE, self._reports, methods=["POST"]),
            ]
        )

    async def _events(self, request: Request) -> Response:
        return await self._store(request, "trino")

    async def _reports(self, request: Request) -> Response:
        return await self._store(request, "scan-reports")

    async def _store(self, request: Request, kind: str) -> Response:
        body = b""
        async for piece in request.stream():
            body += piece
            if len(body) > MAX_EVENT_BYTES:
                return Response("the event is larger than 16 MB", 413)
        try:
            document = json.loads(body)
        except (ValueError, RecursionError):
            return Response("the body is not JSON", 400)
        if not isinstance(document, dict):
            return Response("the body is not a JSON object", 400)
        now = datetime.now(UTC)
        line = json.dumps({RECEIVED_KEY: now.isoformat(), **document}, separators=(",", ":")).encode() + b"\n"
        async with self._lock:
            await to_thread.run_sync(_append_line, self._folder / kind / f"{now:%Y-%m-%d}.jsonl", line)
        return Response(status_code=204)


def _append_line(path: Path, line: bytes) -> None:
    """Append a line and sync it to disk.

    A partial line after a crash is terminated first.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    is_new = not path.exists()
    with path.open("ab+") as file:
        if file.tell() and not _ends_with_newline(file.fileno(), file.tell()):
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


def _ends_with_newline(file: int, size: int) -> bool:
    return os.pread(file, 1, size - 1) == b"\n"
