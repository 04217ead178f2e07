"""Handlers and routes of tenants. Every answer comes from rows and documents of the caller's own organization."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, TypeVar

from anyio import CapacityLimiter, WouldBlock, to_thread
from starlette.routing import Route

from neve.api.control.changes import describe_caller, record_change
from neve.api.control.operations import read_query
from neve.api.control.routes import handle_errors
from neve.api.operator.operations import CostQuery
from neve.api.query.endpoint import Endpoint
from neve.api.query.errors import RETRY, Failure, json_response
from neve.api.query.models import bad_request
from neve.api.query.operations import PREFIX
from neve.api.query.query_response import QueryThreads
from neve.api.tenant.operations import (
    DEFAULT_HOURS,
    MAX_HOURS,
    DecisionsQuery,
    FreshnessDocument,
    FreshnessLine,
    QuarantineQuery,
    RangeQuery,
)
from neve.app.operator.costs import Costs
from neve.app.operator.decisions import Decisions, explain_decision
from neve.app.operator.quarantine import Quarantine
from neve.app.operator.tenant_queries import TenantQueries
from neve.errors import RawZoneError
from neve.jobs.job import WorkNotFound
from neve.logger import get_logger
from neve.raw.zone import OTLP
from neve.state.scopes import Scope

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request
    from starlette.responses import Response

    from neve.api.query.endpoint import Handler
    from neve.app.control import Control
    from neve.query.service import QueryService
    from neve.receive.authentication import Guard
    from neve.state.scopes import Caller

Result = TypeVar("Result")
EXPLANATIONS = 2  # at a time in this process: each may use a core
TRACE_ID = re.compile(r"[0-9a-fA-F]{32}")
log = get_logger("neve.api")


@dataclass(frozen=True)
class TenantEndpoints:
    """Handlers of tenants. Statements run through the query service, with the limits of the caller's key."""

    service: QueryService
    control: Control
    threads: QueryThreads = field(default_factory=QueryThreads)
    explaining: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(EXPLANATIONS))

    async def freshness(self, _request: Request, caller: Caller) -> Response:
        """Return the newest records of the caller."""
        facts = await self._run(lambda: self.service.tables(caller.organization))
        lines = [FreshnessLine(table=one.name, rows=one.rows, latest=one.latest) for one in facts]
        now = self.control.documents.now()
        return json_response(FreshnessDocument(organization=caller.organization, at=now, tables=lines).plain)

    async def costs(self, request: Request, caller: Caller) -> Response:
        """Return the costs of the caller."""
        query = read_query(request, CostQuery)
        found = await self._run(lambda: Costs(self.control).own(caller.organization, query.days))
        return json_response(found.plain)

    async def volumes(self, request: Request, caller: Caller) -> Response:
        """Return the volumes of the caller's decisions."""
        since, until = self._range(read_query(request, RangeQuery))
        return json_response((await self._run(lambda: self._decisions(caller).volumes(since, until))).plain)

    async def decisions(self, request: Request, caller: Caller) -> Response:
        """Return a page of the caller's decisions."""
        query = read_query(request, DecisionsQuery)
        since, until = self._range(query)
        found = await self._run(
            lambda: self._decisions(caller).page(
                since,
                until,
                decision=query.decision,
                policy=query.policy,
                service=query.service,
                offset=query.offset,
                limit=query.limit,
            )
        )
        return json_response(found.plain)

    async def explain(self, request: Request, caller: Caller) -> Response:
        """Explain the sampling of one trace of the caller."""
        trace_id: str = request.path_params["id"]
        if not TRACE_ID.fullmatch(trace_id):
            raise WorkNotFound(f"there is no trace {trace_id[:64]!r}", hint="a trace id has 32 hexadecimal digits")
        control = self.control
        try:
            self.explaining.acquire_on_behalf_of_nowait(request)
        except WouldBlock:
            message = f"{EXPLANATIONS} traces are explained already"
            raise Failure(429, "too_many_queries", message, limit="concurrency", headers=RETRY) from None
        try:
            found = await self._run(
                lambda: explain_decision(
                    control.settings, control.lake, control.documents, caller.organization, trace_id.lower()
                )
            )
        finally:
            self.explaining.release_on_behalf_of(request)
        return json_response(found.plain)

    async def groups(self, request: Request, caller: Caller) -> Response:
        """Return the caller's rejected records by reason and source."""
        since, until = self._range(read_query(request, RangeQuery))
        return json_response((await self._run(lambda: self._quarantine(caller).groups(since, until))).plain)

    async def list_rejected(self, request: Request, caller: Caller) -> Response:
        """Return a page of the caller's rejected records."""
        query = read_query(request, QuarantineQuery)
        since, until = self._range(query)
        found = await self._run(
            lambda: self._quarantine(caller).page(
                since, until, reason=query.reason, source=query.source, offset=query.offset, limit=query.limit
            )
        )
        return json_response(found.plain)

    async def record(self, request: Request, caller: Caller) -> Response:
        """Return one rejected record of the caller."""
        record_id: str = request.path_params["id"]
        return json_response((await self._run(lambda: self._quarantine(caller).get(record_id))).plain)

    async def retry(self, request: Request, caller: Caller) -> Response:
        """Decode a rejected record of the caller again, and store it in the raw zone if it is accepted."""
        if not caller.may(Scope.WRITE):
            scopes = ", ".join(caller.scopes)
            raise Failure(403, "wrong_scope", f"this key lacks the scope `write` (it has: {scopes})")
        record_id: str = request.path_params["id"]
        quarantine, by = self._quarantine(caller), describe_caller(caller)
        frame, report = await self._run(lambda: quarantine.retry(record_id, by))
        from neve.raw.writer import open_writer  # noqa: PLC0415 - few requests write

        settings = self.control.settings
        writer = open_writer(settings.raw, settings.s3, OTLP)
        try:
            await writer.append(frame)
        except RawZoneError as error:
            await self._run(lambda: quarantine.forget_retry(record_id))
            raise Failure(503, "lake_unavailable", "the record could not be stored", headers=RETRY) from error
        finally:
            await writer.close()
        log.info("rejected record accepted", by=by, record=record_id, organization=caller.organization)
        audit, organization = self.control.audit, caller.organization
        await self._run(
            lambda: record_change(audit, request, caller, "quarantine.retry", record_id, organization=organization)
        )
        return json_response(report.plain, status=202)

    def _decisions(self, caller: Caller) -> Decisions:
        return Decisions(TenantQueries(self.service, caller))

    def _quarantine(self, caller: Caller) -> Quarantine:
        return Quarantine(TenantQueries(self.service, caller), self.control.documents, self.control.settings)

    def _range(self, query: RangeQuery) -> tuple[datetime, datetime]:
        until = query.until or self.control.documents.now() + timedelta(seconds=1)
        since = query.since or until - timedelta(hours=DEFAULT_HOURS)
        if since >= until:
            raise bad_request(f"until is {until.isoformat()}, expected a time after since")
        if until - since > timedelta(hours=MAX_HOURS):
            raise bad_request(f"since is {since.isoformat()}, expected at most {MAX_HOURS // 24} days before until")
        return since, until

    async def _run(self, call: Callable[[], Result]) -> Result:
        return await to_thread.run_sync(call, limiter=self.threads.beginning)


def tenant_routes(service: QueryService, control: Control, guard: Guard) -> list[Route]:
    """Return every route of tenants; each requires a key with the scope `read`."""
    paths = TenantEndpoints(service, control)

    def door(path: str, **handlers: Handler) -> Route:
        safe = {method: handle_errors(handler) for method, handler in handlers.items()}
        return Route(f"{PREFIX}{path}", Endpoint(guard, safe))

    return [
        door("/own/freshness", GET=paths.freshness),
        door("/own/costs", GET=paths.costs),
        door("/decisions", GET=paths.decisions),
        door("/decisions/volumes", GET=paths.volumes),
        door("/decisions/{id}", GET=paths.explain),
        door("/quarantine", GET=paths.list_rejected),
        door("/quarantine/groups", GET=paths.groups),
        door("/quarantine/{id}", GET=paths.record),
        door("/quarantine/{id}/retry", POST=paths.retry),
    ]
