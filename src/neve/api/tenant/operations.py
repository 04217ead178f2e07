"""Operations of tenants on their own decisions, rejected records, costs and freshness, and their parameters."""

from __future__ import annotations

from datetime import datetime  # noqa: TC003 - pydantic reads it
from functools import partial
from typing import Literal

from pydantic import Field

from neve.api.control.operations import BAD_REQUEST, LONGEST_NAME, PrintableText
from neve.api.operator.operations import CostQuery, PageQuery
from neve.api.query.models import UtcTime  # noqa: TC001 - pydantic reads the annotation
from neve.api.query.operations import QUERY_FAILURES, Operation
from neve.app.operator.costs import OwnCostReport
from neve.app.operator.decisions import DecisionPage, DecisionVolumes, TraceDecisionReport
from neve.app.operator.quarantine import RefusalGroups, RefusedDetail, RefusedPage, RetryReport
from neve.app.reports import Report
from neve.state.scopes import Scope

LIMITS = tuple((status, QUERY_FAILURES[status]) for status in (422, 429))
DEFAULT_HOURS = 24
MAX_HOURS = 24 * 400


class RangeQuery(PageQuery):
    """A range of time and a page; without `since`, the last 24 hours before `until`."""

    since: UtcTime = Field(None, description="an RFC 3339 time with a time zone")
    until: UtcTime = Field(None, description="an RFC 3339 time with a time zone; default: now")


class QuarantineQuery(RangeQuery):
    """Rejected records of one reason and source."""

    reason: PrintableText = Field("", max_length=LONGEST_NAME, description="the name of a reason")
    source: str = Field("", max_length=2000, description="the name of a source")


class DecisionsQuery(RangeQuery):
    """Decisions of one kind, policy and service."""

    decision: Literal["", "sampled", "not_sampled", "dropped"] = Field(
        "", description="one of sampled, not_sampled, dropped"
    )
    policy: str = Field("", max_length=LONGEST_NAME, description="the name of a policy")
    service: str = Field("", max_length=LONGEST_NAME, description="the name of a service")


class FreshnessLine(Report):
    """The newest record of an organization in one table."""

    table: str
    rows: int
    latest: datetime | None = Field(description="time of the newest record; null if there is none")


class FreshnessDocument(Report):
    """The newest records of an organization."""

    organization: str
    at: datetime
    tables: list[FreshnessLine]


_read = partial(Operation, "get")
TENANT_OPERATIONS = (
    _read("/own/freshness", "readOwnFreshness", "The newest records of the organization by table", FreshnessDocument),
    _read(
        "/own/costs",
        "readOwnCosts",
        "Estimated costs of the organization",
        OwnCostReport,
        failures=(BAD_REQUEST,),
        query=CostQuery,
    ),
    _read(
        "/decisions",
        "listDecisions",
        "Sampling decisions about traces of the organization, newest first",
        DecisionPage,
        failures=(BAD_REQUEST, *LIMITS),
        query=DecisionsQuery,
    ),
    _read(
        "/decisions/volumes",
        "readDecisionVolumes",
        "Traces and spans of the organization that were kept and not kept, by policy, service and time",
        DecisionVolumes,
        failures=(BAD_REQUEST, *LIMITS),
        query=RangeQuery,
    ),
    _read(
        "/decisions/{id}",
        "explainDecision",
        "The sampling of one trace of the organization: its decisions, and the vote of each policy now",
        TraceDecisionReport,
        failures=((404, "no such trace"), (429, "too many requests at a time")),
    ),
    _read(
        "/quarantine",
        "listRejected",
        "Rejected records of the organization, newest first",
        RefusedPage,
        failures=(BAD_REQUEST, *LIMITS),
        query=QuarantineQuery,
    ),
    _read(
        "/quarantine/groups",
        "groupRejected",
        "Rejected records of the organization by reason, source and time",
        RefusalGroups,
        failures=(BAD_REQUEST, *LIMITS),
        query=RangeQuery,
    ),
    _read(
        "/quarantine/{id}",
        "getRejected",
        "One rejected record with its bytes",
        RefusedDetail,
        failures=((404, "no such record"), *LIMITS),
    ),
    Operation(
        "post",
        "/quarantine/{id}/retry",
        "retryRejected",
        "Decode a rejected record again, and store it if it is accepted now; the key needs the scope `write` too",
        RetryReport,
        status=202,
        failures=((404, "no such record"), (409, "the record is still rejected"), *LIMITS),
        scope=Scope.READ,
    ),
)
