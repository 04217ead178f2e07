"""One question while it is answered.

The query room blocks, so each step is a call in a thread: begin, then one piece of the answer after the other. The next
piece is asked for when the last one is on its way, so that a slow reader slows the query down and nothing piles up.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import anyio
import structlog
from anyio import CapacityLimiter, to_thread

from neve.api.query.accept import MEDIA_TYPES
from neve.api.query.cells import slices
from neve.api.query.errors import failure_of
from neve.api.query.formats import writer_for
from neve.api.query.metrics import ABANDONED, count_ended, count_never_begun, count_refused
from neve.api.query.replies import QUERY_ID, json_reply
from neve.errors import NeveError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from starlette.responses import JSONResponse
    from starlette.types import Receive, Scope, Send

    from neve.api.query.formats import Writer
    from neve.api.query.question import Format
    from neve.query.request import Request
    from neve.query.running import Running
    from neve.query.service import QueryService

READER_SECONDS = 60  # a reader that takes nothing for so long is not waited for
LOOK_SECONDS = 0.1  # between looks for the query of a client that went away before it began

log = structlog.get_logger("neve.api")


@dataclass(frozen=True)
class Threads:
    """Threads for calls that block; queries that wait for their turn must not keep others from going on."""

    beginning: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(64))
    going_on: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(64))
    looking: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(8))


class Asking:
    """An ASGI response: the answer to one question."""

    def __init__(self, service: QueryService, threads: Threads, request: Request, form: Format) -> None:
        self._service = service
        self._threads = threads
        self._request = request
        self._form = form
        self._writer = writer_for(form)
        self._running: Running | None = None
        self._pieces: Iterator[bytes] = iter(())
        self._id: str | None = getattr(request, "id", None)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, and look out for a client that goes away."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._watch, receive)
            try:
                await self._answer(scope, receive, send)
            except anyio.get_cancelled_exc_class():  # the server stops, and waits for no thread
                self._cancel()
                raise
            finally:
                with anyio.CancelScope(shield=True):
                    await to_thread.run_sync(self._end, limiter=self._threads.looking)
                group.cancel_scope.cancel()

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            piece: bytes | None = await to_thread.run_sync(self._begin, limiter=self._threads.beginning)
        except Exception as error:
            await self._refusal(error)(scope, receive, send)
            return
        try:
            with anyio.fail_after(READER_SECONDS):
                await send({"type": "http.response.start", "status": 200, "headers": self._headers()})
            while piece is not None:
                with anyio.fail_after(READER_SECONDS):
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
                piece = await self._next()
            await send({"type": "http.response.body", "body": b""})
        except TimeoutError:
            ABANDONED.inc()
            log.warning("a query's reader took nothing", seconds=READER_SECONDS, query=self._id)
        except _CutOff:
            # Without its end an answer is not taken for a whole one: the connection is closed in the middle.
            log.warning("an answer was cut off", query=self._id, format=self._form)

    async def _next(self) -> bytes | None:
        """The next piece; an error is the last piece of a form that can say it."""
        try:
            return await to_thread.run_sync(next, self._pieces, None, limiter=self._threads.going_on)
        except Exception as error:
            failure = failure_of(error, cancelled=self._is_cancelled)
            count_refused(failure)
            self._pieces = iter(())
            tail = self._writer.fail(failure)
            if tail is None:
                raise _CutOff from error
            return tail

    def _refusal(self, error: Exception) -> JSONResponse:
        failure = failure_of(error, cancelled=self._is_cancelled)
        count_refused(failure)
        if self._running is None:
            count_never_begun(failure)
        return json_reply(failure, self._id)

    async def _watch(self, receive: Receive) -> None:
        """Cancel the query of a client that is gone, as soon as there is one."""
        while (await receive())["type"] != "http.disconnect":
            pass
        while True:
            await to_thread.run_sync(self._cancel, limiter=self._threads.looking)
            await anyio.sleep(LOOK_SECONDS)

    def _begin(self) -> bytes:
        """Start, and make the first piece, so that what fails early has a status of its own."""
        running = self._service.start(self._request)
        self._running, self._id = running, running.id
        self._pieces = _pieces(running, self._writer)
        return next(self._pieces)

    def _cancel(self) -> None:
        running = self._running or next(
            (one for one in self._service.running(self._request.organization) if one.request is self._request), None
        )
        if running is not None and running.state == "running":
            ABANDONED.inc()
            running.cancel()

    def _end(self) -> None:
        """End the query, however far it came, and count it."""
        running = self._running
        if running is None:
            return
        with suppress(NeveError):
            _close(self._pieces)
            if running.state == "running":
                running.cancel()
                next(running.batches(), None)  # one that nobody has read from ends when it is read from
        count_ended(running)

    @property
    def _is_cancelled(self) -> bool:
        return self._running is not None and self._running.state == "cancelled"

    def _headers(self) -> list[tuple[bytes, bytes]]:
        return [
            (b"content-type", MEDIA_TYPES[self._form].encode()),
            (b"cache-control", b"no-store"),
            (QUERY_ID.encode(), (self._id or "").encode()),
        ]


class _CutOff(Exception):
    """Raised when an answer ends in the middle and its form can't say so."""


def _pieces(running: Running, writer: Writer) -> Iterator[bytes]:
    """The answer: its beginning with the first rows, then what follows."""
    batches = running.batches()
    try:
        before = writer.begin(running.id, running.schema)
        for batch in batches:
            for rows in slices(batch, writer.piece_bytes):
                piece = writer.rows(rows)
                if piece:
                    yield before + piece
                    before = b""
        yield before + writer.end(running.statistics)
    except Exception as error:
        running.fail(error)  # nothing, unless it is the form that can't be written
        raise
    finally:
        _close(batches)


def _close(pieces: Iterator[Any]) -> None:
    close: Callable[[], None] | None = getattr(pieces, "close", None)
    if close is not None:
        close()
