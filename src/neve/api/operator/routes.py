"""Handlers and routes of operators: tables in pages, the ledger, layouts, simulations and costs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC
from functools import cached_property, partial
from typing import TYPE_CHECKING

from neve.api.control.changes import describe_caller
from neve.api.control.operations import read_query
from neve.api.operator.operations import (
    AuditDocument,
    AuditLine,
    AuditQuery,
    CostQuery,
    LayoutChange,
    LedgerQuery,
    PageQuery,
    PlanQuery,
    PolicyFileDocument,
    PolicyText,
    SimulationBody,
    SimulationsDocument,
)
from neve.api.query.endpoint import read_body
from neve.api.query.errors import json_response
from neve.api.query.models import read_model
from neve.app.audit import AuditFilter, read_entries
from neve.app.operator.costs import Costs
from neve.app.operator.layouts import Layouts
from neve.app.operator.ledger import read_ledger
from neve.app.operator.simulations import SimulationRequest, Simulations, check_policies, read_current_policies
from neve.app.operator.table_pages import TablePages
from neve.app.reports import JobReport
from neve.logger import get_logger

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from starlette.requests import Request
    from starlette.responses import Response

    from neve.api.control.changes import ChangeRecorder
    from neve.api.control.routes import ControlThreads
    from neve.api.query.endpoint import Handler
    from neve.app.control import Control
    from neve.app.operator.layouts import Change
    from neve.app.reports import Report
    from neve.state.scopes import Caller

ACCEPTED = 202
log = get_logger("neve.control")


@dataclass(frozen=True)
class TableEndpoints:
    """Handlers of pages about one table, of the ledger and of costs; all read only."""

    control: Control
    threads: ControlThreads

    async def partitions(self, request: Request, _caller: Caller) -> Response:
        """Return a page of partitions."""
        query = read_query(request, PageQuery)
        return await self._reply(lambda: self._pages.partitions(_name(request), query.offset, query.limit))

    async def plan(self, request: Request, _caller: Caller) -> Response:
        """Return a page of the compaction plan."""
        query = read_query(request, PlanQuery)
        return await self._reply(lambda: self._pages.plan(_name(request), query.part, query.offset, query.limit))

    async def sizes(self, request: Request, _caller: Caller) -> Response:
        """Return the distribution of file sizes."""
        return await self._reply(lambda: self._pages.sizes(_name(request)))

    async def snapshots(self, request: Request, _caller: Caller) -> Response:
        """Return a page of snapshots."""
        query = read_query(request, PageQuery)
        return await self._reply(lambda: self._pages.snapshots(_name(request), query.offset, query.limit))

    async def runs(self, request: Request, _caller: Caller) -> Response:
        """Return a page of compactions."""
        query = read_query(request, PageQuery)
        return await self._reply(lambda: self._pages.runs(_name(request), query.offset, query.limit))

    async def ledger(self, request: Request, _caller: Caller) -> Response:
        """Return a page of the ledger."""
        query = read_query(request, LedgerQuery)
        return await self._reply(
            lambda: read_ledger(
                self.control.lake,
                source=query.source,
                day=query.day,
                only_wrong=bool(query.wrong),
                offset=query.offset,
                limit=query.limit,
            )
        )

    async def costs(self, request: Request, _caller: Caller) -> Response:
        """Return the costs of some days."""
        query = read_query(request, CostQuery)
        return await self._reply(lambda: Costs(self.control).report(query.days))

    async def audit(self, request: Request, _caller: Caller) -> Response:
        """Return entries of the audit log."""
        query = read_query(request, AuditQuery)
        since = query.since and (query.since if query.since.tzinfo else query.since.replace(tzinfo=UTC))
        wanted = AuditFilter(query.organization, query.action, since, limit=query.limit)
        return await self._reply(
            lambda: AuditDocument(
                entries=[
                    AuditLine.model_validate(one)
                    for one in read_entries(self.control.lake, self.control.documents, wanted)
                ]
            )
        )

    @cached_property
    def _pages(self) -> TablePages:
        return TablePages(self.control)

    async def _reply(self, read: Callable[[], Report]) -> Response:
        return json_response((await self.threads.run(read)).plain)


@dataclass(frozen=True)
class LayoutEndpoints:
    """Handlers of the autopilot's attempts; changes are logged with the caller."""

    control: Control
    threads: ControlThreads
    changes: ChangeRecorder

    async def list(self, request: Request, _caller: Caller) -> Response:
        """Return a page of attempts."""
        query = read_query(request, PageQuery)
        found = await self.threads.run(lambda: self._layouts.list(query.offset, query.limit))
        return json_response(found.plain)

    async def get(self, request: Request, _caller: Caller) -> Response:
        """Return one attempt."""
        return json_response((await self.threads.run(lambda: self._layouts.get(_id(request)))).plain)

    async def change(self, change: Change, request: Request, caller: Caller) -> Response:
        """Request a change of an attempt."""
        body, by = read_model(await read_body(request), LayoutChange), describe_caller(caller)
        attempt_id = _id(request)
        job = await self.threads.run(
            lambda: self._layouts.request(attempt_id, change, table=body.table, by=by, reason=body.reason)
        )
        log.info("layout change requested", by=by, attempt=attempt_id, change=change, job=job.id, reason=body.reason)
        facts = {"table": body.table, "job": job.id, "reason": body.reason}
        await self.changes.record(request, caller, f"layout.{change}", attempt_id, **facts)
        return json_response(JobReport.model_validate(job).plain, status=ACCEPTED)

    @cached_property
    def _layouts(self) -> Layouts:
        return Layouts(self.control.documents, self.control.jobs)


@dataclass(frozen=True)
class SimulationEndpoints:
    """Handlers of policy files and simulations; requests are logged with the caller."""

    control: Control
    threads: ControlThreads
    changes: ChangeRecorder

    async def policies(self, _request: Request, _caller: Caller) -> Response:
        """Return the policies in force."""
        source, text = await self.threads.run(lambda: read_current_policies(self.control.settings))
        return json_response(PolicyFileDocument(source=source, policies=text).plain)

    async def check(self, request: Request, _caller: Caller) -> Response:
        """Check a policy file."""
        body = read_model(await read_body(request), PolicyText)
        found = await self.threads.run(lambda: check_policies(self.control.settings, body.policies))
        return json_response(found.plain)

    async def list(self, _request: Request, _caller: Caller) -> Response:
        """Return the simulations."""
        return json_response(SimulationsDocument(simulations=await self.threads.run(self._simulations.list)).plain)

    async def start(self, request: Request, caller: Caller) -> Response:
        """Request a simulation."""
        body, by = read_model(await read_body(request), SimulationBody), describe_caller(caller)
        wanted = SimulationRequest(body.policies, body.since, body.until, body.price)
        made = await self.threads.run(lambda: self._simulations.request(wanted, by))
        log.info("simulation requested", by=by, simulation=made.id)
        await self.changes.record(request, caller, "simulation.start", made.id)
        return json_response(made.plain, status=ACCEPTED)

    async def get(self, request: Request, _caller: Caller) -> Response:
        """Return one simulation."""
        return json_response((await self.threads.run(lambda: self._simulations.get(_id(request)))).plain)

    async def cancel(self, request: Request, caller: Caller) -> Response:
        """Cancel a simulation."""
        simulation_id = _id(request)
        made = await self.threads.run(lambda: self._simulations.cancel(simulation_id))
        log.info("simulation cancelled", by=describe_caller(caller), simulation=simulation_id)
        await self.changes.record(request, caller, "simulation.cancel", simulation_id)
        return json_response(made.plain, status=ACCEPTED)

    @cached_property
    def _simulations(self) -> Simulations:
        return Simulations(self.control.settings, self.control.documents, self.control.jobs)


def _name(request: Request) -> str:
    found: str = request.path_params["name"]
    return found


def _id(request: Request) -> str:
    found: str = request.path_params["id"]
    return found


def operator_handlers(
    control: Control, threads: ControlThreads, changes: ChangeRecorder
) -> Mapping[str, Mapping[str, Handler]]:
    """Return the handlers of every path of operators, by path and method."""
    tables = TableEndpoints(control, threads)
    layouts = LayoutEndpoints(control, threads, changes)
    simulations = SimulationEndpoints(control, threads, changes)

    def change(name: Change) -> Callable[[Request, Caller], Awaitable[Response]]:
        return partial(layouts.change, name)

    return {
        "/lake/tables/{name}/partitions": {"GET": tables.partitions},
        "/lake/tables/{name}/plan": {"GET": tables.plan},
        "/lake/tables/{name}/sizes": {"GET": tables.sizes},
        "/lake/tables/{name}/snapshots": {"GET": tables.snapshots},
        "/lake/tables/{name}/runs": {"GET": tables.runs},
        "/ledger": {"GET": tables.ledger},
        "/costs": {"GET": tables.costs},
        "/audit": {"GET": tables.audit},
        "/layouts": {"GET": layouts.list},
        "/layouts/{id}": {"GET": layouts.get},
        "/layouts/{id}/approve": {"POST": change("approve")},
        "/layouts/{id}/reject": {"POST": change("reject")},
        "/layouts/{id}/rollback": {"POST": change("rollback")},
        "/sampling/policies": {"GET": simulations.policies},
        "/sampling/check": {"POST": simulations.check},
        "/sampling/simulations": {"GET": simulations.list, "POST": simulations.start},
        "/sampling/simulations/{id}": {"GET": simulations.get, "DELETE": simulations.cancel},
    }
