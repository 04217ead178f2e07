"""The routes of the control API and their handlers: the lake, jobs, pauses and policies.

Blocking calls run in threads of their own, so that operators get responses while queries pile up. Policies are changed
only with the version that the caller has read (`If-Match`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

from anyio import CapacityLimiter, to_thread
from starlette.routing import Route

from neve.api.access import LONGEST_SHOWN, is_own_origin
from neve.api.control.changes import ChangeRecorder, describe_caller
from neve.api.control.operations import (
    HistoryDocument,
    HistoryQuery,
    JobsDocument,
    JobsQuery,
    LakeTablesDocument,
    PartsDocument,
    Pause,
    PausesDocument,
    PoliciesDocument,
    ReasonQuery,
    Start,
    read_query,
)
from neve.api.operator.routes import operator_handlers
from neve.api.query.endpoint import Endpoint, read_body
from neve.api.query.errors import Failure, json_response
from neve.api.query.models import bad_request, format_value, parse_json, read_model
from neve.api.query.operations import PREFIX
from neve.app.reports import JobReport, PauseReport, ServePartReport
from neve.errors import ConfigError, TableMissing
from neve.jobs.job import WorkNotFound, WorkStateError
from neve.jobs.policies import Policies, PolicyConflict, hash_policies, read_policies
from neve.logger import get_logger
from neve.state.scopes import Scope

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp

    from neve.api.query.endpoint import Handler
    from neve.app.control import Control
    from neve.receive.authentication import Guard
    from neve.state.scopes import Caller


Result = TypeVar("Result")
SAFE_METHODS = ("GET", "HEAD")
THREADS = 8


class ControlThreads:
    """Threads for blocking calls, separate from those of queries: operators get responses while queries pile up."""

    def __init__(self) -> None:
        self._limit = CapacityLimiter(THREADS)

    async def run(self, call: Callable[[], Result]) -> Result:
        """Run a call in a thread and return its result."""
        return await to_thread.run_sync(call, limiter=self._limit)


def handle_errors(handler: Handler) -> Handler:
    """Wrap a handler: errors get a status, and web pages have no access without a key."""

    @wraps(handler)
    async def handle(request: Request, caller: Caller) -> ASGIApp:
        _check_keyless_change(request, caller)
        try:
            return await handler(request, caller)
        except WorkNotFound as error:
            raise Failure(404, "not_found", error.message[:LONGEST_SHOWN], hint=error.hint) from error
        except WorkStateError as error:
            raise Failure(409, "conflict", error.message, hint=error.hint) from error
        except TableMissing as error:
            raise Failure(404, "unknown_table", error.message, hint=error.hint) from error
        except ConfigError as error:
            raise Failure(400, "bad_request", error.message, hint=error.hint) from error

    return handle


def _check_keyless_change(request: Request, caller: Caller) -> None:
    """Check a change on a port without keys.

    Every caller of such a port may read. Changes need a setting, and other web pages must not make them.
    """
    if caller.key_id or request.method in SAFE_METHODS:
        return
    origin = request.headers.get("origin")
    if origin is not None and not is_own_origin(origin, request.headers.get("host", ""), request.url.scheme):
        message = f"pages of {origin[:LONGEST_SHOWN]!r} may not control a lake that requires no API key"
        raise Failure(403, "wrong_origin", message, hint="set query.auth to keys")
    if not caller.may(Scope.ADMIN):
        call = f"{request.method} {request.url.path[:LONGEST_SHOWN]}"
        hint = "use the command line (`neve jobs`, `neve policies`), or set query.open_admin, or query.auth to keys"
        raise Failure(
            403, "no_admin", f"{call} controls jobs and policies, and this port requires no API key", hint=hint
        )


@dataclass(frozen=True)
class LakeEndpoints:
    """Read-only handlers."""

    control: Control
    threads: ControlThreads

    async def status(self, _request: Request, _caller: Caller) -> Response:
        """Return the current status."""
        return json_response((await self.threads.run(self.control.status)).plain)

    async def tables(self, _request: Request, _caller: Caller) -> Response:
        """Return every table with its health."""
        return json_response(LakeTablesDocument(tables=await self.threads.run(self.control.tables)).plain)

    async def table(self, request: Request, _caller: Caller) -> Response:
        """Return one table, its partitions and its compaction plan."""
        name: str = request.path_params["name"]
        return json_response((await self.threads.run(lambda: self.control.reports.detail(name))).plain)

    async def plan(self, _request: Request, _caller: Caller) -> Response:
        """Return the forecast of the next jobs."""
        return json_response((await self.threads.run(self.control.outlook)).plain)

    async def parts(self, _request: Request, _caller: Caller) -> Response:
        """Return the parts of every `neve serve`."""
        found = await self.threads.run(self.control.board.all)
        return json_response(PartsDocument(parts=[ServePartReport.model_validate(one) for one in found]).plain)

    async def history(self, request: Request, _caller: Caller) -> Response:
        """Return the activity on tables."""
        query = read_query(request, HistoryQuery)
        runs = await self.threads.run(lambda: self.control.past.of(query.table, query.limit))
        return json_response(HistoryDocument(runs=runs).plain)


ACCEPTED = 202

log = get_logger("neve.control")


@dataclass(frozen=True)
class JobEndpoints:
    """Handlers of jobs and pauses; changes are recorded with the caller."""

    control: Control
    threads: ControlThreads
    changes: ChangeRecorder

    async def jobs(self, request: Request, _caller: Caller) -> Response:
        """Return the jobs that match the query."""
        query = read_query(request, JobsQuery)
        states = (query.state,) if query.state else ()
        found = await self.threads.run(
            lambda: self.control.jobs.list(states=states, task=query.task, table=query.table, limit=query.limit)
        )
        return json_response(JobsDocument(jobs=[JobReport.model_validate(job) for job in found]).plain)

    async def job(self, request: Request, _caller: Caller) -> Response:
        """Return one job."""
        job_id = _path_id(request)
        found = await self.threads.run(lambda: self.control.jobs.get(job_id))
        if found is None:
            raise WorkNotFound(f"there is no job {job_id!r}", hint="GET /api/v1/jobs lists all jobs")
        return json_response(JobReport.model_validate(found).plain)

    async def start(self, request: Request, caller: Caller) -> Response:
        """Request a job now."""
        query = read_model(await read_body(request), Start)
        reason = query.reason or f"requested by {describe_caller(caller)}"
        job = await self.threads.run(lambda: self.control.start(query.task, query.table, query.window, reason=reason))
        log.info("job started", by=describe_caller(caller), job=job.id, subject=job.subject, reason=reason)
        await self.changes.record(request, caller, "job.start", job.id, job=job.subject, reason=reason)
        return json_response(JobReport.model_validate(job).plain, status=ACCEPTED)

    async def cancel(self, request: Request, caller: Caller) -> Response:
        """Cancel a job."""
        job_id, reason = _path_id(request), read_query(request, ReasonQuery).reason
        job = await self.threads.run(lambda: self.control.jobs.cancel(job_id, reason))
        log.info(
            "job cancelled",
            by=describe_caller(caller),
            job=job.id,
            subject=job.subject,
            state=job.state.value,
            reason=reason,
        )
        await self.changes.record(request, caller, "job.cancel", job.id, job=job.subject, reason=reason)
        return json_response(JobReport.model_validate(job).plain, status=ACCEPTED)

    async def replay(self, request: Request, caller: Caller) -> Response:
        """Retry a dead or cancelled job."""
        job_id, reason = _path_id(request), read_query(request, ReasonQuery).reason
        job = await self.threads.run(lambda: self.control.jobs.replay(job_id))
        log.info(
            "job replayed",
            by=describe_caller(caller),
            job=job_id,
            subject=job.subject,
            replayed_as=job.id,
            reason=reason,
        )
        await self.changes.record(request, caller, "job.replay", job_id, job=job.subject, reason=reason)
        return json_response(JobReport.model_validate(job).plain, status=ACCEPTED)

    async def pauses(self, _request: Request, _caller: Caller) -> Response:
        """Return the pauses in force."""
        found = await self.threads.run(self.control.pauses.list)
        return json_response(PausesDocument(pauses=[PauseReport.model_validate(one) for one in found]).plain)

    async def pause(self, request: Request, caller: Caller) -> Response:
        """Pause work."""
        query = read_model(await read_body(request), Pause)
        made = await self.threads.run(
            lambda: self.control.pause(
                query.task, query.tables, by=describe_caller(caller), reason=query.reason, until=query.until
            )
        )
        report = PauseReport.model_validate(made)
        log.info("work paused", by=describe_caller(caller), pause=report.id, task=report.task, tables=report.tables)
        facts = {"task": report.task or "all", "tables": report.tables, "reason": report.reason, "until": report.until}
        await self.changes.record(request, caller, "pause.start", report.id, **facts)
        return json_response(report.plain, status=201)

    async def resume(self, request: Request, caller: Caller) -> Response:
        """End a pause."""
        pause_id = _path_id(request)
        ended = await self.threads.run(lambda: self.control.pauses.resume(pause_id))
        log.info("work resumed", by=describe_caller(caller), pause=pause_id)
        await self.changes.record(request, caller, "pause.end", pause_id, tables=ended.tables)
        return json_response(PauseReport.model_validate(ended).plain)


def _path_id(request: Request) -> str:
    found: str = request.path_params["id"]
    return found


ANY = "*"


@dataclass(frozen=True)
class PolicyEndpoints:
    """Handlers of policies; changes are recorded with the caller."""

    control: Control
    threads: ControlThreads
    changes: ChangeRecorder

    async def read(self, _request: Request, _caller: Caller) -> Response:
        """Return the policies in force."""
        return await self._reply()

    async def write(self, request: Request, caller: Caller) -> Response:
        """Replace the policies, after all of them are validated."""
        expected = _expected_version(request)
        value = _policy_list(parse_json(await read_body(request)))
        store = self.control.policies
        policies = Policies(read_policies(value, "the body"), store.configured.defaults)
        version = await self._apply(lambda: store.save(policies, describe_caller(caller), expected))
        log.info(
            "policies written",
            by=describe_caller(caller),
            version=version,
            policies=[one.name for one in policies.written],
        )
        names = ", ".join(one.name for one in policies.written)
        await self.changes.record(request, caller, "policies.write", version, policies=names)
        return await self._reply()

    async def clear(self, request: Request, caller: Caller) -> Response:
        """Return to the policies of the files."""
        expected = _expected_version(request)
        version = await self._apply(lambda: self.control.policies.clear(expected))
        log.info("policies cleared", by=describe_caller(caller), version=version)
        await self.changes.record(request, caller, "policies.clear", version)
        return await self._reply()

    async def _apply(self, change: Callable[[], str]) -> str:
        try:
            return await self.threads.run(change)
        except PolicyConflict as error:
            raise Failure(412, "changed", error.message, hint=error.hint) from error

    async def _reply(self) -> Response:
        policies, source = await self.threads.run(self._load_policies)
        version = hash_policies(policies)
        document = PoliciesDocument(source=source, version=version, policies=policies.plain)
        reply = json_response(document.plain)
        reply.headers["etag"] = f'"{version}"'
        return reply

    def _load_policies(self) -> tuple[Policies, str]:
        store = self.control.policies
        return store.load(), store.source()


def _expected_version(request: Request) -> str | None:
    """Return the version that the caller has read; none if any version is accepted."""
    header = request.headers.get("if-match", "").strip()
    if not header:
        hint = "send the ETag of GET /api/v1/policies as If-Match; If-Match: * replaces any version"
        raise Failure(
            428,
            "no_version",
            "the header If-Match is missing, expected the version of the policies to replace",
            hint=hint,
        )
    if header == ANY:
        return None
    version = header.removeprefix('"').removesuffix('"')
    if f'"{version}"' != header or not version.isalnum():
        raise bad_request(f"If-Match is {format_value(header)}, expected one ETag in double quotes, or *")
    return version


def _policy_list(document: Any) -> list[Any]:
    if not isinstance(document, dict) or set(document) != {"policies"}:
        raise bad_request(f"the body is {format_value(document)}, expected an object with the one key policies")
    value = document["policies"]
    if not isinstance(value, list):
        raise bad_request(f"policies is {format_value(value)}, expected a list of policies")
    return value


def control_routes(control: Control, guard: Guard) -> list[Route]:
    """Return every route of the control API; each requires a key with the scope `admin`."""
    threads = ControlThreads()
    changes = ChangeRecorder(control, threads)
    lake, jobs, policies = (
        LakeEndpoints(control, threads),
        JobEndpoints(control, threads, changes),
        PolicyEndpoints(control, threads, changes),
    )

    def door(path: str, **handlers: Handler) -> Route:
        safe = {method: handle_errors(handler) for method, handler in handlers.items()}
        return Route(f"{PREFIX}{path}", Endpoint(guard, safe, scope=Scope.ADMIN))

    operator = operator_handlers(control, threads, changes)
    return [
        *(door(path, **handlers) for path, handlers in operator.items()),
        door("/status", GET=lake.status),
        door("/lake/tables", GET=lake.tables),
        door("/lake/tables/{name}", GET=lake.table),
        door("/plan", GET=lake.plan),
        door("/parts", GET=lake.parts),
        door("/history", GET=lake.history),
        door("/jobs", GET=jobs.jobs, POST=jobs.start),
        door("/jobs/{id}", GET=jobs.job),
        door("/jobs/{id}/cancel", POST=jobs.cancel),
        door("/jobs/{id}/replay", POST=jobs.replay),
        door("/pauses", GET=jobs.pauses, POST=jobs.pause),
        door("/pauses/{id}", DELETE=jobs.resume),
        door("/policies", GET=policies.read, PUT=policies.write, DELETE=policies.clear),
    ]
