"""Operations of operators on tables, the ledger, layouts, simulations and costs, and the models of their requests."""

from __future__ import annotations

from datetime import datetime  # noqa: TC003 - pydantic reads it
from functools import partial
from typing import Literal

from pydantic import Field

from neve.api.control.operations import (
    BAD_REQUEST,
    LONGEST_NAME,
    LONGEST_REASON,
    ControlRequest,
    PrintableText,
    QueryParameters,
)
from neve.api.query.models import Document, UtcTime
from neve.api.query.operations import Operation
from neve.app.operator.costs import DEFAULT_DAYS, MAX_DAYS, CostReport
from neve.app.operator.layouts import AttemptDetail, AttemptsReport
from neve.app.operator.ledger import LedgerPage
from neve.app.operator.simulations import MAX_POLICY_CHARACTERS, PolicyCheck, SimulationLine, SimulationReport
from neve.app.operator.table_pages import FileSizesReport, PartitionPage, PlanPage, PlanPart, RunPage, SnapshotPage
from neve.app.reports import JobReport, Report
from neve.state.scopes import Scope

MAX_PAGE = 1000
MAX_OFFSET = 10_000_000


class PageQuery(QueryParameters):
    """A page of a list."""

    offset: int = Field(0, ge=0, le=MAX_OFFSET, description="a number of results to skip, from 0")
    limit: int = Field(100, ge=1, le=MAX_PAGE, description="a maximum number of results, from 1 to 1000")


class PlanQuery(PageQuery):
    """A page of one part of a plan."""

    part: PlanPart = Field("groups", description="one of groups, left_alone, cut")


class LedgerQuery(PageQuery):
    """A page of the ledger."""

    source: PrintableText = Field("", max_length=LONGEST_NAME, description="the name of a stream, or files")
    day: str = Field("", pattern=r"^(\d{4}-\d{2}-\d{2})?$", description="a day in UTC as YYYY-MM-DD")
    wrong: Literal["", "true"] = Field("", description="true: only batches whose sums differ")


class CostQuery(QueryParameters):
    """Days of a report on costs."""

    days: int = Field(DEFAULT_DAYS, ge=1, le=MAX_DAYS, description=f"a number of days, from 1 to {MAX_DAYS}")


class AuditQuery(QueryParameters):
    """Selection of audit entries."""

    organization: PrintableText = Field("", max_length=64, description="an organization, or * for the lake itself")
    action: PrintableText = Field("", max_length=LONGEST_NAME, description="the beginning of an action, such as key")
    since: datetime | None = Field(None, description="an RFC 3339 time with a time zone")
    limit: int = Field(100, ge=1, le=MAX_PAGE, description="a maximum number of results, from 1 to 1000")


class AuditLine(Report):
    """One entry of the audit log."""

    organization_id: str = Field(description="organization that it concerns; * for the whole lake")
    timestamp: datetime
    entry_id: str
    action: str
    actor: str
    origin: str
    subject: str
    occurrences: int
    details: dict[str, str]


class AuditDocument(Report):
    """Entries of the audit log, newest first."""

    entries: list[AuditLine]


class LayoutChange(ControlRequest):
    """A requested change of an attempt; it repeats the name of the table."""

    table: str = Field(min_length=1, max_length=LONGEST_NAME, description="the full name of the attempt's table")
    reason: PrintableText = Field(
        "", max_length=LONGEST_REASON, description="a reason in one line of at most 500 characters"
    )


class PolicyText(ControlRequest):
    """A policy file to check."""

    policies: str = Field(
        min_length=1,
        max_length=MAX_POLICY_CHARACTERS,
        description="a policy file of at most 200,000 characters, in YAML as for the collector",
    )


class SimulationBody(PolicyText):
    """A policy file to simulate, and the traces to simulate it on."""

    since: UtcTime = Field(None, description="an RFC 3339 time with a time zone; traces before it are excluded")
    until: UtcTime = Field(None, description="an RFC 3339 time with a time zone; traces at or after it are excluded")
    price: float | None = Field(None, ge=0, le=1e6, description="a price in dollars for a million spans")


class SimulationsDocument(Report):
    """Simulations, newest first."""

    simulations: list[SimulationLine]


class PolicyFileDocument(Document):
    """The policies in force, as a file to start from."""

    source: str = Field(description="path of the configured file; empty: the built-in policies")
    policies: str = Field(description="the file, or a file with the same meaning as the built-in policies")


EXAMPLE_POLICIES = {
    "policies": "policies:\n  - name: errors\n    type: status_code\n    status_code: {status_codes: [ERROR]}\n",
}
EXAMPLE_CHANGE = {"table": "telemetry.spans", "reason": "reviewed with the team"}
NO_TABLE = (404, "no such table")
NO_ATTEMPT = (404, "no such attempt")
NO_SIMULATION = (404, "no such simulation")

_read = partial(Operation, "get", scope=Scope.ADMIN)
_write = partial(Operation, "post", scope=Scope.ADMIN, status=202)


def _change(name: str, summary: str) -> Operation:
    return _write(
        f"/layouts/{{id}}/{name}",
        f"{name}Layout",
        summary,
        JobReport,
        failures=(BAD_REQUEST, NO_ATTEMPT, (409, "the stage of the attempt does not permit it")),
        body=LayoutChange,
        example=EXAMPLE_CHANGE,
    )


OPERATOR_OPERATIONS = (
    _read(
        "/lake/tables/{name}/partitions",
        "listPartitions",
        "Partitions of a table with the parts of their health, least healthy first",
        PartitionPage,
        failures=(BAD_REQUEST, NO_TABLE),
        query=PageQuery,
    ),
    _read(
        "/lake/tables/{name}/plan",
        "planTable",
        "The compaction plan of a table with reasons: groups, partitions that stay, and work that a limit postponed",
        PlanPage,
        failures=(BAD_REQUEST, NO_TABLE),
        query=PlanQuery,
    ),
    _read(
        "/lake/tables/{name}/sizes",
        "listFileSizes",
        "Distribution of a table's file sizes",
        FileSizesReport,
        failures=(NO_TABLE,),
    ),
    _read(
        "/lake/tables/{name}/snapshots",
        "listSnapshots",
        "Snapshots of a table, newest first",
        SnapshotPage,
        failures=(BAD_REQUEST, NO_TABLE),
        query=PageQuery,
    ),
    _read(
        "/lake/tables/{name}/runs",
        "listRuns",
        "Compactions of a table with rows and hashes before and after, newest first",
        RunPage,
        failures=(BAD_REQUEST, NO_TABLE),
        query=PageQuery,
    ),
    _read(
        "/ledger",
        "readLedger",
        "Records received, stored, refused and left out as resends, by batch, source and day",
        LedgerPage,
        failures=(BAD_REQUEST,),
        query=LedgerQuery,
    ),
    _read(
        "/costs", "readCosts", "Estimated costs of maintenance", CostReport, failures=(BAD_REQUEST,), query=CostQuery
    ),
    _read(
        "/audit",
        "readAudit",
        "Audit log of all organizations, newest first",
        AuditDocument,
        failures=(BAD_REQUEST,),
        query=AuditQuery,
    ),
    _read(
        "/layouts",
        "listLayouts",
        "Attempts of the autopilot, newest first",
        AttemptsReport,
        failures=(BAD_REQUEST,),
        query=PageQuery,
    ),
    _read("/layouts/{id}", "getLayout", "One attempt of the autopilot", AttemptDetail, failures=(NO_ATTEMPT,)),
    _change("approve", "Approve an attempt and merge its layout, as a job"),
    _change("reject", "Reject an attempt that is not merged and delete its branch, as a job"),
    _change("rollback", "Roll back a merged layout, as a job"),
    _read("/sampling/policies", "readSamplingPolicies", "The sampling policies in force", PolicyFileDocument),
    Operation(
        "post",
        "/sampling/check",
        "checkSamplingPolicies",
        "Check a file of sampling policies",
        PolicyCheck,
        failures=(BAD_REQUEST,),
        body=PolicyText,
        example=EXAMPLE_POLICIES,
        scope=Scope.ADMIN,
    ),
    _read("/sampling/simulations", "listSimulations", "Simulations, newest first", SimulationsDocument),
    _write(
        "/sampling/simulations",
        "startSimulation",
        "Simulate sampling policies on past traces beside the current ones, as a job",
        SimulationReport,
        failures=(BAD_REQUEST, (409, "too many simulations wait")),
        body=SimulationBody,
        example=EXAMPLE_POLICIES,
    ),
    _read(
        "/sampling/simulations/{id}",
        "getSimulation",
        "One simulation with its result",
        SimulationReport,
        failures=(NO_SIMULATION,),
    ),
    Operation(
        "delete",
        "/sampling/simulations/{id}",
        "cancelSimulation",
        "Cancel a simulation",
        SimulationReport,
        status=202,
        failures=(NO_SIMULATION, (409, "the simulation has ended already")),
        scope=Scope.ADMIN,
    ),
)
