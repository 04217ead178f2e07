"""The streamed response to one query.

The query service blocks, so each step is a call in a thread: start, then one piece of the result after the other. The
next piece is requested when the last one is sent, so that a slow client slows the query down and nothing is buffered.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import anyio
from anyio import CapacityLimiter, to_thread

from neve.api.query.errors import QUERY_ID, json_response, to_failure
from neve.api.query.formats import MEDIA_TYPES, build_writer, split_batch
from neve.api.query.metrics import ABANDONED, count_ended, count_not_started, count_refused
from neve.api.slow_clients import cut_off_response
from neve.errors import NeveError
from neve.lake.pandas_import import load_pandas, needs_pandas
from neve.logger import get_logger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from starlette.responses import Response
    from starlette.types import Message, Receive, Scope, Send

    from neve.api.query.errors import Failure
    from neve.api.query.formats import ResultWriter
    from neve.api.query.models import Format
    from neve.query.execution import RunningQuery
    from neve.query.request import Request
    from neve.query.service import QueryService

READER_SECONDS = 60  # a client that reads nothing for so long is not waited for
LOOK_SECONDS = 0.1  # interval of the search for the query of a client that disconnected before it started

log = get_logger("neve.api")


@dataclass(frozen=True)
class QueryThreads:
    """Threads for blocking calls; queries that wait for their turn must not delay others."""

    beginning: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(64))
    going_on: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(64))
    looking: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(8))


class StreamedResponse:
    """ASGI response with the result of one query. Subclasses start it and respond to its errors."""

    def __init__(self, service: QueryService, threads: QueryThreads, request: Request, writer: ResultWriter) -> None:
        self._service = service
        self._threads = threads
        self._request = request
        self._writer = writer
        self._running: RunningQuery | None = None
        self._pieces: Iterator[bytes] = iter(())
        self._id: str | None = getattr(request, "id", None)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the result, and watch for a disconnect of the client."""
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
            log.warning("client stopped reading a result", seconds=READER_SECONDS, query=self._id)
            cut_off_response(scope, flush_seconds=0)
        except _Truncated:
            # A response without its end is recognized as incomplete: the connection is closed in the middle.
            log.warning("result was cut off", query=self._id)
            cut_off_response(scope, flush_seconds=READER_SECONDS)

    async def _next(self) -> bytes | None:
        """Return the next piece; an error is the last piece if the format can express it."""
        try:
            return await to_thread.run_sync(next, self._pieces, None, limiter=self._threads.going_on)
        except Exception as error:
            failure = to_failure(error, cancelled=self._is_cancelled)
            count_refused(failure)
            self._pieces = iter(())
            tail = self._writer.fail(failure)
            if tail is None:
                raise _Truncated from error
            return tail

    def _refusal(self, error: Exception) -> Response:
        failure = to_failure(error, cancelled=self._is_cancelled)
        count_refused(failure)
        if self._running is None:
            count_not_started(failure)
        return self.refuse(error, failure)

    async def _watch(self, receive: Receive) -> None:
        """Cancel the query of a disconnected client, as soon as it exists."""
        while (await receive())["type"] != "http.disconnect":
            pass
        while True:
            await to_thread.run_sync(self._cancel, limiter=self._threads.looking)
            await anyio.sleep(LOOK_SECONDS)

    def _begin(self) -> bytes:
        """Start the query and return the first piece, so that early errors get a status of their own."""
        running = self.start()
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
            _close_iterator(self._pieces)
            if running.state == "running":
                running.cancel()
                next(running.batches(), None)  # a query that was never read ends at its first read
        count_ended(running)

    @property
    def _is_cancelled(self) -> bool:
        return self._running is not None and self._running.state == "cancelled"

    def _headers(self) -> list[tuple[bytes, bytes]]:
        return [
            (b"content-type", self.media_type.encode()),
            (b"cache-control", b"no-store"),
            (QUERY_ID.encode(), (self._id or "").encode()),
        ]

    media_type = MEDIA_TYPES["json"]

    def start(self) -> RunningQuery:
        """Start the query. Blocks until its first rows are available."""
        raise NotImplementedError

    def refuse(self, error: Exception, failure: Failure) -> Response:
        """Return the response to an error before the first rows."""
        raise NotImplementedError


class QueryResponse(StreamedResponse):
    """Response with the result of a SQL statement, in one of the formats."""

    def __init__(self, service: QueryService, threads: QueryThreads, request: Request, form: Format) -> None:
        super().__init__(service, threads, request, build_writer(form))
        self.media_type = MEDIA_TYPES[form]

    def start(self) -> RunningQuery:
        """Start the statement."""
        return self._service.start(self._request)

    def refuse(self, _error: Exception, failure: Failure) -> Response:
        """Return the error in the form of the query API."""
        return json_response(failure, self._id)


class BatchResponse:
    """Response with the results of several statements as one JSON object. One statement runs at a time.

    A statement that fails has its error as its result. A client that disconnects ends the running one, and the rest
    is not started.
    """

    def __init__(self, responses: Sequence[QueryResponse]) -> None:
        self._responses = responses

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the results one after the other, without their own beginnings and ends."""
        is_gone = False

        async def watch() -> Message:
            nonlocal is_gone
            message = await receive()
            is_gone = is_gone or message["type"] == "http.disconnect"
            return message

        async def forward(message: Message) -> None:
            if message["type"] == "http.response.body" and message.get("body"):
                await send({"type": "http.response.body", "body": message["body"], "more_body": True})

        headers = [(b"content-type", MEDIA_TYPES["json"].encode()), (b"cache-control", b"no-store")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        before = b'{"results":['
        for response in self._responses:
            await send({"type": "http.response.body", "body": before, "more_body": True})
            await response(scope, watch, forward)
            if is_gone:
                return
            before = b","
        await send({"type": "http.response.body", "body": b"]}"})


class _Truncated(Exception):
    """Raised when a result ends in the middle and its format can't express that."""


def _pieces(running: RunningQuery, writer: ResultWriter) -> Iterator[bytes]:
    """Yield the result: its beginning with the first rows, then the rest."""
    batches = running.batches()
    try:
        if needs_pandas(running.schema):
            load_pandas()
        before = writer.begin(running.id, running.schema)
        for batch in batches:
            for rows in split_batch(batch, writer.piece_bytes):
                piece = writer.rows(rows)
                if piece:
                    yield before + piece
                    before = b""
        yield before + writer.end(running.statistics)
    except Exception as error:
        running.fail(error)  # no effect, unless the format failed
        raise
    finally:
        _close_iterator(batches)


def _close_iterator(pieces: Iterator[Any]) -> None:
    close: Callable[[], None] | None = getattr(pieces, "close", None)
    if close is not None:
        close()
