"""The service map over the lake, by statements that the query service runs for its caller."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from neve.app.query.traceql import LocalContext
from neve.explore.edges import read_edges
from neve.explore.source import RecordSource
from neve.model.signals import SERVICE_EDGES_TABLE, TRACE_SUMMARIES_TABLE

if TYPE_CHECKING:
    from datetime import datetime

    from neve.query.engine.program import Program
    from neve.query.service import QueryService

__all__ = ["add_service_edges", "has_service_edges", "read_service_map"]


def has_service_edges(service: QueryService) -> bool:
    """Return whether the lake has the service map. An older lake lacks it, and a new one until the first run."""
    return service.has_rows(SERVICE_EDGES_TABLE) and service.has_rows(TRACE_SUMMARIES_TABLE)


def add_service_edges(service: QueryService, program: Program) -> Program:
    """Return a program that also reads the service map, if the lake has it."""
    if not has_service_edges(service):
        return program
    tables = (*program.tables, SERVICE_EDGES_TABLE, TRACE_SUMMARIES_TABLE)
    return replace(program, arguments={**program.arguments, "has_service_edges": True}, tables=tables)


def read_service_map(
    service: QueryService, organization: str, since: datetime | None, until: datetime | None
) -> dict[str, Any]:
    """Return the calls between services of an organization, as the page gets them."""
    context = LocalContext(service, organization)
    return read_edges(RecordSource(context, since, until, has_service_edges(service)))
