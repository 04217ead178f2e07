"""Live tail over a WebSocket. Each poll is a program in a query worker, with the limits of the key."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from anyio import CapacityLimiter, to_thread
from starlette.websockets import WebSocket, WebSocketDisconnect

from neve.api.loki.errors import error_response
from neve.api.query.errors import CONCURRENCY, to_failure
from neve.api.query.metrics import count_refused
from neve.api.query.program_response import count_turns
from neve.errors import LimitExceeded
from neve.logql.http.documents import CATEGORIES
from neve.receive.authentication import extract_key
from neve.state.scopes import Scope

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Send
    from starlette.types import Scope as Connection

    from neve.api.loki.routes import LokiEndpoints
    from neve.receive.authentication import Guard
    from neve.state.scopes import Caller

__all__ = ["TailEndpoint"]

POLL_SECONDS = 1.0
RETRY_SECONDS = 5.0
MAX_TAILS = 50  # of all keys: each polls
MAX_TAILS_OF_KEY = 10
SEND_SECONDS = 30
CHECK_SECONDS = 15.0  # after which the key of a tail is checked again: it may be revoked or expired
MAX_FIELDS = 100
POLICY, TRY_AGAIN, BAD = 1008, 1013, 1007  # codes of a close
_MAX_REASON = 120  # bytes of a close's reason


class TailEndpoint:
    """ASGI application of the live tail."""

    def __init__(self, paths: LokiEndpoints, guard: Guard) -> None:
        self._paths = paths
        self._guard = guard
        self._running: dict[tuple[str, str], int] = {}
        self._polls = CapacityLimiter(MAX_TAILS)

    async def __call__(self, scope: Connection, receive: Receive, send: Send) -> None:
        """Serve one client until it leaves."""
        socket = WebSocket(scope, receive, send)
        try:
            caller = await self._find_caller(socket)
            pairs = parse_qsl(socket.url.query, keep_blank_values=True, max_num_fields=MAX_FIELDS)
        except Exception as error:
            await self._deny(error)(scope, receive, send)
            return
        key = (caller.organization, caller.key_id)
        if self._running.get(key, 0) >= MAX_TAILS_OF_KEY or sum(self._running.values()) >= MAX_TAILS:
            busy = LimitExceeded("too many live tails run already", limit="tails", hint="close another one")
            await self._deny(busy)(scope, receive, send)
            return
        self._running[key] = self._running.get(key, 0) + 1
        try:
            await socket.accept()
            await self._serve(socket, pairs, caller)
        finally:
            self._running[key] -= 1
            if not self._running[key]:
                del self._running[key]

    async def _find_caller(self, socket: WebSocket) -> Caller:
        key = extract_key(socket.headers.get("authorization"), socket.headers.get("x-api-key"))
        return await self._guard.caller(key, Scope.READ, socket.client.host if socket.client else "")

    def _deny(self, error: Exception) -> ASGIApp:
        failure = to_failure(error)
        count_refused(failure)
        response = error_response(error, failure)
        response.status_code = failure.status
        return response

    async def _serve(self, socket: WebSocket, pairs: list[tuple[str, str]], caller: Caller) -> None:
        """Poll and send until the client leaves or the query fails."""
        polling = asyncio.create_task(self._poll_forever(socket, pairs, caller))
        leaving = asyncio.create_task(_wait_for_leave(socket))
        _done, pending = await asyncio.wait({polling, leaving}, return_when=asyncio.FIRST_COMPLETED)
        for task in pending:
            task.cancel()
        await asyncio.gather(polling, leaving, return_exceptions=True)

    async def _poll_forever(self, socket: WebSocket, pairs: list[tuple[str, str]], caller: Caller) -> None:
        flags = socket.headers.get("x-loki-response-encoding-flags", "")
        wanted = [pair for pair in pairs if pair[0] in {"query", "limit", "start"}]
        state: dict[str, Any] | None = None
        checked = time.monotonic()
        while True:
            given = wanted if state is None else [*wanted, ("state", json.dumps(state))]
            try:
                if time.monotonic() - checked >= CHECK_SECONDS:
                    caller, checked = await self._find_caller(socket), time.monotonic()
                document = await self._take_turn(given, caller, has_categories=CATEGORIES in flags)
            except Exception as error:
                if isinstance(error, LimitExceeded) and error.limit == CONCURRENCY:
                    await asyncio.sleep(RETRY_SECONDS)
                    continue
                failure = to_failure(error)
                count_refused(failure)
                with suppress(WebSocketDisconnect, RuntimeError):
                    await socket.close(BAD, _shorten(failure.message))
                return
            state, frame = document["state"], document["frame"]
            if frame["streams"] or frame["dropped_entries"]:
                async with asyncio.timeout(SEND_SECONDS):
                    await socket.send_text(json.dumps(frame, ensure_ascii=False, separators=(",", ":")))
            await asyncio.sleep(POLL_SECONDS)

    async def _take_turn(self, pairs: list[tuple[str, str]], caller: Caller, *, has_categories: bool) -> dict[str, Any]:
        """Poll when it is the turn of the key, as for its other requests."""
        service = self._paths.service
        limits = service.limits_of(caller.organization, caller.key_id)
        async with self._paths.turns.take(caller.organization, caller.key_id, count_turns(limits)):
            return await to_thread.run_sync(
                self._poll, pairs, caller, has_categories, limiter=self._polls, abandon_on_cancel=True
            )

    def _poll(self, pairs: list[tuple[str, str]], caller: Caller, has_categories: bool) -> dict[str, Any]:
        """Run one poll, and return its document."""
        request, program = self._paths.prepare("tail", pairs, caller, has_categories=has_categories)
        running = self._paths.service.start_program(request, program)
        body = b"".join(piece for batch in running.batches() for piece in batch.column(0).to_pylist())
        found: dict[str, Any] = json.loads(body)
        return found


async def _wait_for_leave(socket: WebSocket) -> None:
    with suppress(WebSocketDisconnect, RuntimeError):
        while True:
            await socket.receive_text()


def _shorten(text: str) -> str:
    return text.encode()[:_MAX_REASON].decode(errors="ignore")
