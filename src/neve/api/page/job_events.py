"""Changes of jobs as server-sent events, so that a page reads the list again only when it changed.

An event has the version of all jobs, a hash. Streams of one server share one look at the state store each second. A
stream ends after some minutes, and its client connects again with its key: a revoked one is refused then.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from anyio import CapacityLimiter, to_thread
from starlette.responses import StreamingResponse
from starlette.routing import Route

from neve.api.control.routes import handle_errors
from neve.api.page.live import BEAT_SECONDS, POLL_SECONDS, format_event
from neve.api.query.endpoint import Endpoint
from neve.api.query.operations import PREFIX, Operation
from neve.errors import NeveError
from neve.state.scopes import Scope

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from starlette.requests import Request

    from neve.api.page.live import LiveStreams
    from neve.app.control import Control
    from neve.receive.authentication import Guard
    from neve.state.scopes import Caller

MAX_JOBS = 500  # of which a change is noticed: those that the page lists
STREAM_SECONDS = 600.0
RETRY_MILLISECONDS = 2000  # after which a browser connects again


@dataclass
class JobVersions:
    """The version of the jobs, read at most once a second however many streams ask for it."""

    control: Control
    clock: Callable[[], float] = time.monotonic
    version: str = ""
    read_at: float = float("-inf")
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    threads: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(1))

    async def current(self) -> str:
        """Return the version."""
        async with self.turn:
            if self.clock() - self.read_at >= POLL_SECONDS * 0.9:
                self.version = await to_thread.run_sync(self._read, limiter=self.threads)
                self.read_at = self.clock()
            return self.version

    def _read(self) -> str:
        jobs = self.control.jobs.list(limit=MAX_JOBS)
        return hashlib.sha256(repr(jobs).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class JobEventEndpoints:
    """Handler of streams of job changes."""

    versions: JobVersions
    streams: LiveStreams

    async def events(self, _request: Request, caller: Caller) -> StreamingResponse:
        """Open a stream."""
        first = await self.versions.current()
        self.streams.enter(caller.organization)
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        return StreamingResponse(self._send(first, caller), headers=headers, media_type="text/event-stream")

    async def _send(self, version: str, caller: Caller) -> AsyncIterator[bytes]:
        quiet, end = 0.0, time.monotonic() + STREAM_SECONDS
        try:
            yield f"retry: {RETRY_MILLISECONDS}\n".encode() + format_event("jobs", {"version": version}, version)
            while not await self._is_over(end):
                quiet += POLL_SECONDS
                try:
                    found = await self.versions.current()
                except NeveError:  # the state store is read again in a second
                    found = version
                if found != version:
                    version, quiet = found, 0.0
                    yield format_event("jobs", {"version": version}, version)
                elif quiet >= BEAT_SECONDS:
                    quiet = 0.0
                    yield format_event("beat", {}, version)
        finally:
            self.streams.leave(caller.organization)

    async def _is_over(self, end: float) -> bool:
        """Pause, and return whether the stream or the server ends."""
        try:
            await asyncio.wait_for(self.streams.closing.wait(), POLL_SECONDS)
        except TimeoutError:
            return time.monotonic() >= end
        return True


JOB_EVENT_OPERATIONS = (
    Operation(
        "get",
        "/jobs/events",
        "watchJobs",
        "Changes of jobs as server-sent events: `jobs` with a version, and `beat`",
        None,
        failures=((429, "too many streams"),),
        scope=Scope.ADMIN,
    ),
)


def job_event_routes(control: Control, guard: Guard, streams: LiveStreams) -> list[Route]:
    """Return the route of job changes; it requires a key with the scope `admin`."""
    events = JobEventEndpoints(JobVersions(control), streams).events
    return [Route(f"{PREFIX}/jobs/events", Endpoint(guard, {"GET": handle_errors(events)}, scope=Scope.ADMIN))]
