"""Changes of jobs as events: one for each change, one look at the state store for all streams."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from neve.api.page import job_events as module
from neve.api.page.job_events import JobEventEndpoints, JobVersions
from neve.api.page.live import LiveStreams
from neve.errors import LakeError
from neve.state.scopes import Caller

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import pytest


class ScriptedJobs:
    """Lists of jobs that are given one after the other; an error is raised."""

    def __init__(self, *lists: Any) -> None:
        self.lists, self.looks = list(lists), 0

    def list(self, **_filter: Any) -> Any:
        """Return the next list; the last one stays."""
        found = self.lists[min(self.looks, len(self.lists) - 1)]
        self.looks += 1
        if isinstance(found, Exception):
            raise found
        return found


def build(jobs: ScriptedJobs, clock: Any = None) -> JobEventEndpoints:
    """Return the handler over a queue of jobs."""
    control = cast("Any", SimpleNamespace(jobs=jobs))
    versions = JobVersions(control, clock) if clock else JobVersions(control)
    return JobEventEndpoints(versions, LiveStreams())


async def read(events: AsyncIterator[Any], count: int) -> list[str]:
    """Return the names of the next events."""
    return [(await anext(events)).decode().partition("event: ")[2].partition("\n")[0] for _ in range(count)]


def test_an_event_for_each_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also after the state store was away; without changes there is a beat; a drain ends the stream."""
    monkeypatch.setattr(module, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(module, "BEAT_SECONDS", 0.05)
    endpoints = build(ScriptedJobs(["a"], ["a"], LakeError("away"), ["b"], ["b"]))

    async def run() -> list[str]:
        response = await endpoints.events(cast("Any", None), Caller("acme"))
        events = cast("AsyncIterator[Any]", response.body_iterator)
        found = await read(events, 3)
        endpoints.streams.close()
        return [*found, *[one async for one in events], str(endpoints.streams.open)]

    assert asyncio.run(run()) == ["jobs", "jobs", "beat", "{}"]


def test_streams_share_a_look() -> None:
    """However many ask within a second, the state store is read once."""
    now = 0.0
    endpoints = build(jobs := ScriptedJobs(["a"]), lambda: now)

    async def ask() -> set[str]:
        return set(await asyncio.gather(*(endpoints.versions.current() for _ in range(20))))

    async def run() -> None:
        nonlocal now
        assert len(await ask()) == 1
        now = 2.0
        await ask()

    asyncio.run(run())
    assert jobs.looks == 2


def test_a_stream_ends_after_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that its client connects again, and a revoked key is refused."""
    monkeypatch.setattr(module, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(module, "STREAM_SECONDS", 0.0)
    endpoints = build(ScriptedJobs(["a"]))

    async def run() -> int:
        response = await endpoints.events(cast("Any", None), Caller("acme"))
        return len([one async for one in response.body_iterator])

    assert asyncio.run(run()) == 1
    assert endpoints.streams.open == {}
