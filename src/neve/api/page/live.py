"""Live records as server-sent events: what was committed since the stream began, filtered by a condition.

Each commit to the table leads to one event with the newest matching records and the number of all that matched since
the beginning, so that a client knows how many it has not shown. The id of an event is the beginning and the position:
a client that connects again, also to another server, goes on where it was.
"""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from anyio import to_thread
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import StreamingResponse
from starlette.routing import Route

from neve.api.query.endpoint import Endpoint
from neve.api.query.errors import Failure, to_failure
from neve.api.query.json_values import json_rows
from neve.api.query.models import bad_request, format_value, parse_json, parse_time, validate_document
from neve.api.query.operations import PREFIX, Operation
from neve.api.query.query_response import QueryThreads
from neve.errors import LimitExceeded, NeveError
from neve.query.request import Request as QueryRequest
from neve.query.sql.dialect import check_condition

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from starlette.requests import Request

    from neve.query.service import QueryService
    from neve.receive.authentication import Guard
    from neve.state.scopes import Caller

POLL_SECONDS = 1.0
BEAT_SECONDS = 15.0
QUERY_SECONDS = 30.0
MAX_ROWS = 500  # of one event
MAX_STREAMS, MAX_STREAMS_OF_ORGANIZATION = 200, 20
MAX_REMEMBERED = 5000  # ids of sent records, which a later query may find again
OVERLAP = timedelta(seconds=60)  # records of one commit have times of ingestion that overlap with those of another
MAX_AGE = timedelta(hours=1)  # of the beginning: older ones would make each count expensive
MESSAGE_CHARACTERS = 2048
CURSOR_SEPARATOR = "~"


class LiveQuery(BaseModel):
    """Parameters of a stream."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    topic: str = Field("logs", pattern="^logs$", description="logs")
    where: str = Field("", max_length=20_000, description="a condition in SQL; empty: every record")
    parameters: str = Field("{}", max_length=20_000, description="a JSON object of values for `$name` in the condition")
    fields: str = Field(
        "", max_length=2000, description="names of attributes to send as c0, c1 and so on, separated by commas"
    )
    last_event_id: str = Field("", max_length=100, description="the id of the last event, to continue after it")


@dataclass
class Position:
    """The beginning of a stream, and the newest time of ingestion that was sent."""

    start: datetime
    cursor: datetime

    @classmethod
    def parse(cls, text: str, now: datetime) -> Position:
        """Parse the id of an event; a new stream begins now, and one that is too old an hour ago."""
        if not text:
            return cls(now, now)
        try:
            start, cursor = (parse_time(part) for part in text.split(CURSOR_SEPARATOR))
        except ValueError:
            raise bad_request(f"last_event_id is {format_value(text)}, expected the id of an event") from None
        if start is None or cursor is None or start > now + OVERLAP:
            raise bad_request(f"last_event_id is {format_value(text)}, expected the id of an event")
        return cls(max(start, now - MAX_AGE), max(cursor, now - MAX_AGE))

    @property
    def text(self) -> str:
        """Return the id of an event."""
        return f"{_format_time(self.start)}{CURSOR_SEPARATOR}{_format_time(self.cursor)}"


@dataclass
class LiveStreams:
    """The open streams of a server; a drain ends them at once."""

    closing: asyncio.Event = field(default_factory=asyncio.Event)
    open: dict[str, int] = field(default_factory=dict)

    def enter(self, organization: str) -> None:
        """Count a stream; raises `Failure` if there are too many."""
        if (
            sum(self.open.values()) >= MAX_STREAMS
            or self.open.get(organization, 0) >= MAX_STREAMS_OF_ORGANIZATION
            or self.closing.is_set()
        ):
            message = f"too many live streams are open (at most {MAX_STREAMS_OF_ORGANIZATION} of an organization)"
            raise Failure(429, "too_many_streams", message, hint="close other tabs", headers={"retry-after": "5"})
        self.open[organization] = self.open.get(organization, 0) + 1

    def leave(self, organization: str) -> None:
        """Forget a stream."""
        self.open[organization] -= 1
        if not self.open[organization]:
            del self.open[organization]

    def close(self) -> None:
        """End all streams."""
        self.closing.set()


@dataclass
class LiveTail:
    """One stream: the query behind it, its position, and the records that were sent."""

    service: QueryService
    threads: QueryThreads
    caller: Caller
    query: LiveQuery
    parameters: dict[str, Any]
    position: Position
    sent: OrderedDict[str, None] = field(default_factory=OrderedDict)
    snapshot: int | None = -1  # no snapshot has this id: the first look always queries

    def look(self) -> dict[str, Any] | None:
        """Return the next event, or none if nothing was committed. Blocks."""
        snapshot = self.service.describe(self.query.topic, self.caller.organization).snapshot
        if snapshot == self.snapshot:
            return None
        matched = int(self._ask(f"SELECT count(*) {self._source()}", self.position.start)[0][0])
        rows = self._read_rows()
        self.snapshot = snapshot
        return {"matched": matched, "rows": rows, "snapshot": str(snapshot)}

    def _read_rows(self) -> list[dict[str, Any]]:
        fields = [name for name in self.query.fields.split(",") if name]
        extra = "".join(
            f", left(coalesce(attributes[$c{i}], resource_attrs[$c{i}]), 2048) AS c{i}" for i in range(len(fields))
        )
        names = ["timestamp", "record_id", "severity_number", "service_name", "message", "trace_id"]
        names += [f"c{place}" for place in range(len(fields))] + ["ingested_at"]
        message = f"left(message, {MESSAGE_CHARACTERS}) AS message"
        sql = (
            f"SELECT timestamp, record_id, severity_number, service_name, {message}, trace_id{extra}, ingested_at "
            f"{self._source()} ORDER BY ingested_at DESC, record_id DESC LIMIT {MAX_ROWS}"
        )
        since = max(self.position.start, self.position.cursor - OVERLAP)
        found = self._ask(sql, since, {f"c{place}": name for place, name in enumerate(fields)})
        rows = [dict(zip(names, row, strict=True)) for row in found]
        fresh = [row for row in rows if row["record_id"] not in self.sent]
        for row in fresh:
            self.sent[row["record_id"]] = None
            self.position.cursor = max(self.position.cursor, datetime.fromisoformat(row["ingested_at"]))
        while len(self.sent) > MAX_REMEMBERED:
            self.sent.popitem(last=False)
        return fresh

    def _source(self) -> str:
        where = f"({self.query.where}) AND " if self.query.where else ""
        return f"FROM {self.query.topic} WHERE {where}ingested_at >= $live_since"

    def _ask(self, sql: str, since: datetime, more: dict[str, Any] | None = None) -> list[tuple[Any, ...]]:
        request = QueryRequest(
            sql=sql,
            organization=self.caller.organization,
            parameters={**self.parameters, **(more or {}), "live_since": _format_time(since)},
            timeout_seconds=QUERY_SECONDS,
            key_id=self.caller.key_id,
            is_from_page=True,
        )
        running = self.service.start(request)
        return [row for batch in running.batches() for row in json_rows(batch)]


@dataclass(frozen=True)
class LiveEndpoints:
    """Handler of live streams."""

    service: QueryService
    streams: LiveStreams
    threads: QueryThreads = field(default_factory=QueryThreads)
    now: Callable[[], datetime] = lambda: datetime.now(UTC)

    async def live(self, request: Request, caller: Caller) -> StreamingResponse:
        """Open a stream."""
        query = validate_document(dict(request.query_params), LiveQuery)
        check_condition(query.where)
        parameters = parse_json(query.parameters.encode())
        if not isinstance(parameters, dict):
            raise bad_request(f"parameters is {format_value(parameters)}, expected a JSON object")
        position = Position.parse(query.last_event_id or request.headers.get("last-event-id", ""), self.now())
        tail = LiveTail(self.service, self.threads, caller, query, parameters, position)
        first = await self._look(tail)  # a wrong condition is an error of the request, not of the stream
        self.streams.enter(caller.organization)
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        return StreamingResponse(self._events(tail, first), headers=headers, media_type="text/event-stream")

    async def _look(self, tail: LiveTail) -> dict[str, Any] | None:
        return await to_thread.run_sync(tail.look, limiter=self.threads.beginning)

    async def _events(self, tail: LiveTail, first: dict[str, Any] | None) -> AsyncIterator[bytes]:
        quiet = 0.0
        try:
            yield format_event("records", first or {"matched": 0, "rows": []}, tail.position.text)
            while not self.streams.closing.is_set():
                quiet += POLL_SECONDS
                event = await self._next(tail)
                if event is not None:
                    quiet = 0.0
                    yield event
                elif quiet >= BEAT_SECONDS:
                    quiet = 0.0
                    yield format_event("beat", {}, tail.position.text)
        finally:
            self.streams.leave(tail.caller.organization)

    async def _next(self, tail: LiveTail) -> bytes | None:
        """Return the event after the next pause, or none; a server that is too busy is asked again later."""
        with suppress(TimeoutError):  # the pause is over, and the server stays open
            await asyncio.wait_for(self.streams.closing.wait(), POLL_SECONDS)
            return format_event("end", {}, tail.position.text)
        try:
            found = await self._look(tail)
        except LimitExceeded as error:
            return format_event("behind", {"message": error.message}, tail.position.text)
        except NeveError as error:
            return format_event("behind", {"message": to_failure(error).message}, tail.position.text)
        return format_event("records", found, tail.position.text) if found else None


def format_event(name: str, data: dict[str, Any], event_id: str) -> bytes:
    r"""Format a server-sent event; JSON has no line breaks, so that the data is one line.

    >>> format_event("beat", {}, "1")
    b'id: 1\nevent: beat\ndata: {}\n\n'
    """
    return f"id: {event_id}\nevent: {name}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n".encode()


def _format_time(at: datetime) -> str:
    return at.isoformat(timespec="microseconds").replace("+00:00", "Z")


LIVE_OPERATIONS = (
    Operation(
        "get",
        "/live",
        "live",
        "New records as server-sent events: `records`, `beat`, `behind` and `end`",
        None,
        query=LiveQuery,
        failures=((400, "the condition is wrong"), (422, "the query exceeds a limit"), (429, "too many streams")),
    ),
)


def live_routes(service: QueryService, guard: Guard, streams: LiveStreams) -> list[Route]:
    """Return the route of live streams."""
    return [Route(f"{PREFIX}/live", Endpoint(guard, {"GET": LiveEndpoints(service, streams).live}))]
