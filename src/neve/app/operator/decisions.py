"""Sampling decisions of one organization: volumes over time, by policy and service, a page of them, and one trace."""

# ruff: noqa: S608 - statements consist of names of our own; values are parameters

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime  # noqa: TC003 - pydantic reads it
from typing import TYPE_CHECKING, Any

from pydantic import Field

from neve.app.operator.tenant_queries import choose_step, format_range
from neve.app.reports import Report
from neve.jobs.job import WorkNotFound
from neve.model.decision_tables import DECISIONS

if TYPE_CHECKING:
    from neve.app.operator.tenant_queries import TenantQueries
    from neve.app.settings import Settings
    from neve.lake.lake import Lake
    from neve.state.documents import Documents

MAX_SERVICES = 50
FIRST = "revision = 0"  # each trace once, by its first decision
RANGE = "decided_at >= CAST($since AS TIMESTAMPTZ) AND decided_at < CAST($until AS TIMESTAMPTZ)"
# Each kept trace stands for `adjusted_count` traces. The variance of their sum is estimated from the kept ones alone.
VOLUME = (
    "count(*) AS traces, coalesce(sum(span_count), 0)::BIGINT AS spans, "
    "count(*) FILTER (decision = 'sampled') AS kept, "
    "coalesce(sum(span_count) FILTER (decision = 'sampled'), 0)::BIGINT AS kept_spans, "
    "count(*) FILTER (decision = 'dropped') AS dropped, count(*) FILTER (has_error) AS errors, "
    "count(*) FILTER (has_error AND decision = 'sampled') AS kept_errors, "
    "coalesce(sum(adjusted_count) FILTER (decision = 'sampled'), 0) AS estimated, "
    "coalesce(sqrt(greatest(0, sum(adjusted_count * (adjusted_count - 1)) FILTER (decision = 'sampled'))), 0) "
    "AS estimated_error"
)


class DecisionVolume(Report):
    """Decided traces, kept traces, and the traces that the kept ones represent."""

    traces: int
    spans: int
    kept: int
    kept_spans: int
    dropped: int
    errors: int = Field(description="traces with an error")
    kept_errors: int
    estimated: float = Field(description="traces that the kept ones represent")
    estimated_error: float = Field(description="standard error of `estimated`")


class PolicyDecisions(DecisionVolume):
    """Decisions of one policy; the empty name means that no policy kept the trace."""

    policy: str


class ServiceDecisions(DecisionVolume):
    """Decisions about traces that begin with one service."""

    service: str


class DecisionBar(Report):
    """Decisions of one kind in one interval."""

    at: datetime
    decision: str
    policy: str
    traces: int
    spans: int


class DecisionVolumes(Report):
    """Decisions of a range, by policy, by service and over time."""

    all: DecisionVolume
    policies: list[PolicyDecisions]
    services: list[ServiceDecisions] = Field(description="those with most traces")
    services_left_out: int
    step_seconds: int
    bars: list[DecisionBar]
    revisions: int = Field(description="later decisions about the same traces, which the numbers above leave out")


class DecisionLine(Report):
    """One decision about one trace."""

    trace_id: str
    decided_at: datetime
    decision: str
    policy: str
    reason: str
    kind: str
    revision: int
    adjusted_count: float | None
    probability: float | None
    spans: int
    duration_ms: float
    has_error: bool
    service: str
    operation: str


class DecisionPage(Report):
    """Decisions, newest first."""

    offset: int
    decisions: list[DecisionLine]
    more: bool


class TraceDecisionReport(Report):
    """Sampling status of one trace."""

    state: str = Field(description="decided, open or unseen")
    trace: dict[str, Any] = Field(description="decisions, open entries and the vote of each policy now")


@dataclass(frozen=True)
class Decisions:
    """The sampling decisions of one organization."""

    queries: TenantQueries

    def volumes(self, since: datetime, until: datetime) -> DecisionVolumes:
        """Return the volumes of a range."""
        span, step = format_range(since, until), choose_step(since, until)
        where = f"FROM {DECISIONS.name} WHERE {RANGE} AND {FIRST}"
        (whole,) = self.queries.rows(f"SELECT {VOLUME} {where}", **span)
        policies = self.queries.rows(
            f"SELECT coalesce(policy, '') AS policy, {VOLUME} {where} GROUP BY ALL ORDER BY traces DESC, policy", **span
        )
        services = self.queries.rows(
            f"SELECT coalesce(service_name, '') AS service, {VOLUME} {where} GROUP BY ALL "
            "ORDER BY traces DESC, service",
            **span,
        )
        bars = self.queries.rows(
            "SELECT to_timestamp(floor(epoch(decided_at) / $step) * $step) AS at, decision, "
            "coalesce(policy, '') AS policy, count(*) AS traces, sum(span_count)::BIGINT AS spans "
            f"{where} GROUP BY ALL ORDER BY ALL",
            step=step,
            **span,
        )
        (later,) = self.queries.rows(
            f"SELECT count(*) AS revisions FROM {DECISIONS.name} WHERE {RANGE} AND NOT ({FIRST})", **span
        )
        return DecisionVolumes(
            all=DecisionVolume(**whole),
            policies=[PolicyDecisions(**row) for row in policies],
            services=[ServiceDecisions(**row) for row in services[:MAX_SERVICES]],
            services_left_out=max(0, len(services) - MAX_SERVICES),
            step_seconds=step,
            bars=[DecisionBar(**row) for row in bars],
            revisions=later["revisions"],
        )

    def page(  # noqa: PLR0913 - the filters of the list
        self,
        since: datetime,
        until: datetime,
        *,
        decision: str = "",
        policy: str = "",
        service: str = "",
        offset: int,
        limit: int,
    ) -> DecisionPage:
        """Return a page of decisions, newest first."""
        filters = {"decision": decision, "policy": policy, "service_name": service}
        given = {name: value for name, value in filters.items() if value}
        where = " AND ".join([RANGE, *(f"{name} = ${name}" for name in given)])
        rows = self.queries.rows(
            "SELECT lower(hex(trace_id)) AS trace_id, decided_at, decision, coalesce(policy, '') AS policy, reason, "
            "kind, revision, adjusted_count, probability, span_count AS spans, duration_ms, has_error, "
            "coalesce(service_name, '') AS service, coalesce(operation_name, '') AS operation "
            f"FROM {DECISIONS.name} WHERE {where} ORDER BY decided_at DESC, trace_id, revision "
            "LIMIT $limit OFFSET $offset",
            limit=limit + 1,
            offset=offset,
            **format_range(since, until),
            **given,
        )
        lines = [DecisionLine(**row) for row in rows[:limit]]
        return DecisionPage(offset=offset, decisions=lines, more=len(rows) > limit)


def explain_decision(
    settings: Settings, lake: Lake, documents: Documents, organization: str, trace_id: str
) -> TraceDecisionReport:
    """Explain the sampling of one trace of an organization; raises `WorkNotFound`."""
    from neve.app.tail import build_selector  # noqa: PLC0415 - the sampler, for this alone
    from neve.tail.explain import UNKNOWN, explain_trace  # noqa: PLC0415

    selector = build_selector(settings, lake, documents=documents)
    found = explain_trace(selector, organization, bytes.fromhex(trace_id))
    if found.state == UNKNOWN:
        raise WorkNotFound(f"there is no trace {trace_id}", hint="check the id and the organization")
    return TraceDecisionReport(state=found.state, trace=_text_ids(found.as_document()))


def _text_ids(value: Any) -> Any:
    """Return a document with ids of snapshots as text, which a browser would round."""
    if isinstance(value, dict):
        return {
            key: str(inner) if key.endswith("snapshot_id") and isinstance(inner, int) else _text_ids(inner)
            for key, inner in value.items()
        }
    return [_text_ids(inner) for inner in value] if isinstance(value, list) else value
