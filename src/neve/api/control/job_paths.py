"""Paths of jobs and of what holds them up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from neve.api.control.asked import JobsAsked, Pause, Start, read_query
from neve.api.control.documents import JobsDocument, PausesDocument
from neve.api.control.door import who
from neve.api.query.door import read_body
from neve.api.query.replies import json_reply
from neve.api.query.strict import read_model
from neve.app.reports import JobReport, PauseReport
from neve.work.refusals import WorkMissing

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from neve.api.control.door import Threads
    from neve.app.control import Control
    from neve.lake.scopes import Caller

ACCEPTED = 202

log = structlog.get_logger("neve.control")


@dataclass(frozen=True)
class JobPaths:
    """What is done about jobs, and who did it."""

    control: Control
    threads: Threads

    async def jobs(self, request: Request, _caller: Caller) -> Response:
        """Some of the jobs."""
        asked = read_query(request, JobsAsked)
        states = (asked.state,) if asked.state else ()
        found = await self.threads.run(
            lambda: self.control.jobs.list(states=states, task=asked.task, table=asked.table, limit=asked.limit)
        )
        return json_reply(JobsDocument(jobs=[JobReport.model_validate(job) for job in found]).plain)

    async def job(self, request: Request, _caller: Caller) -> Response:
        """One job."""
        job_id = _id(request)
        found = await self.threads.run(lambda: self.control.jobs.get(job_id))
        if found is None:
            raise WorkMissing(f"there is no job {job_id!r}", hint="GET /api/v1/jobs lists those that there are")
        return json_reply(JobReport.model_validate(found).plain)

    async def start(self, request: Request, caller: Caller) -> Response:
        """Have something done now."""
        asked = read_model(await read_body(request), Start)
        reason = asked.reason or f"asked for by {who(caller)}"
        job = await self.threads.run(lambda: self.control.start(asked.task, asked.table, asked.window, reason=reason))
        log.info("job started", by=who(caller), job=job.id, subject=job.subject, reason=reason)
        return json_reply(JobReport.model_validate(job).plain, status=ACCEPTED)

    async def cancel(self, request: Request, caller: Caller) -> Response:
        """End a job."""
        job_id = _id(request)
        job = await self.threads.run(lambda: self.control.jobs.cancel(job_id))
        log.info("job cancelled", by=who(caller), job=job.id, subject=job.subject, state=job.state.value)
        return json_reply(JobReport.model_validate(job).plain, status=ACCEPTED)

    async def replay(self, request: Request, caller: Caller) -> Response:
        """Try a job again that was given up."""
        job_id = _id(request)
        job = await self.threads.run(lambda: self.control.jobs.replay(job_id))
        log.info("job replayed", by=who(caller), job=job_id, subject=job.subject, replayed_as=job.id)
        return json_reply(JobReport.model_validate(job).plain, status=ACCEPTED)

    async def pauses(self, _request: Request, _caller: Caller) -> Response:
        """What is held up."""
        found = await self.threads.run(self.control.pauses.list)
        return json_reply(PausesDocument(pauses=[PauseReport.model_validate(one) for one in found]).plain)

    async def pause(self, request: Request, caller: Caller) -> Response:
        """Hold work up."""
        asked = read_model(await read_body(request), Pause)
        made = await self.threads.run(
            lambda: self.control.pause(asked.task, asked.tables, by=who(caller), reason=asked.reason, until=asked.until)
        )
        report = PauseReport.model_validate(made)
        log.info("work paused", by=who(caller), pause=report.id, task=report.task, tables=report.tables)
        return json_reply(report.plain, status=201)

    async def resume(self, request: Request, caller: Caller) -> Response:
        """Let work go on."""
        pause_id = _id(request)
        ended = await self.threads.run(lambda: self.control.pauses.resume(pause_id))
        log.info("work resumed", by=who(caller), pause=pause_id)
        return json_reply(PauseReport.model_validate(ended).plain)


def _id(request: Request) -> str:
    found: str = request.path_params["id"]
    return found
