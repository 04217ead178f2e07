"""Why a trace was kept or not: what was decided about it, whether it is still open, and what the policies say now."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from neve.lake.duck import literal
from neve.lake.manifest_sources import readable
from neve.model.tail import DECISIONS, OPEN_TRACES
from neve.tail.again import is_limited
from neve.tail.single import JudgedTrace, SingleTraces, judge_trace, moment, single_traces
from neve.tail.stored import trace_files

if TYPE_CHECKING:
    from collections.abc import Iterator

    import duckdb
    from pyiceberg.table import Table

    from neve.tail.job import Selector

__all__ = ["Explained", "JudgedTrace", "SingleTraces", "explain", "judge_trace", "single_traces"]

UNKNOWN, UNSEEN, OPEN, DECIDED = "unknown", "unseen", "open", "decided"


@dataclass(frozen=True)
class DecisionMade:
    """A row of the table of decisions."""

    decided_at: datetime
    selector: str
    revision: int
    kind: str
    decision: str
    policy: str | None
    reason: str
    adjusted_count: float
    probability: float
    threshold: str | None
    late_spans: int
    taken_by: str | None
    ready_at: datetime
    ready_because: str
    span_count: int
    duration_ms: float
    has_error: bool
    source: str
    source_snapshot_id: int | None
    policies_hash: str
    cycle: int


@dataclass(frozen=True)
class OpenTrace:
    """A trace that a selector has not decided about; when it is ready is known of the selector that is asked."""

    selector: str
    span_count: int
    has_error: bool
    first_seen: datetime
    last_seen: datetime
    root_seen: datetime | None
    ready_at: datetime | None = None
    ready_because: str = ""


@dataclass(frozen=True)
class Explained:
    """All that is known of a trace."""

    organization: str
    trace_id: str
    selector: str
    decisions: tuple[DecisionMade, ...]
    open: tuple[OpenTrace, ...]
    now: JudgedTrace | None
    tables: tuple[str, ...]  # that were looked at
    policies_hash: str
    semantics: str
    notes: tuple[str, ...] = ()

    @property
    def state(self) -> str:
        """How far it is: decided, open, unseen (it has spans that no cycle has read) or unknown."""
        if self.decisions:
            return DECIDED
        if self.open:
            return OPEN
        return UNSEEN if self.now else UNKNOWN

    def as_document(self) -> dict[str, Any]:
        """The answer as JSON has it; times are texts."""
        told: dict[str, Any] = _plain({"state": self.state, **asdict(self)})
        return told


def explain(selector: Selector, organization: str, trace_id: bytes) -> Explained:
    """Look at the decisions and the open traces of all selectors, and ask this one's policies."""
    lake = selector.lake
    with single_traces(selector) as traces:
        made, left = (_rows(lake.table(table.name), organization, trace_id) for table in (DECISIONS, OPEN_TRACES))
        decisions = _decisions(traces.connection, made) if made else ()
        waiting = _open(traces, left) if left else ()
        now = traces.judged(organization, trace_id)
    return Explained(
        organization=organization,
        trace_id=trace_id.hex(),
        selector=selector.config.name,
        decisions=decisions,
        open=waiting,
        now=now,
        tables=(selector.source.name, DECISIONS.name, OPEN_TRACES.name),
        policies_hash=selector.policies.fingerprint,
        semantics=selector.policies.semantics.value,
        notes=tuple(_notes(selector, decisions, now)),
    )


def _decisions(connection: duckdb.DuckDBPyConnection, rows: str) -> tuple[DecisionMade, ...]:
    """Every revision of every selector, as they were made."""
    listed = ", ".join(DecisionMade.__annotations__)
    found = connection.execute(f"SELECT {listed} FROM {rows} ORDER BY decided_at, selector, revision").to_arrow_table()
    return tuple(DecisionMade(**row) for row in found.to_pylist())


def _open(traces: SingleTraces, rows: str) -> tuple[OpenTrace, ...]:
    readiness, mine = traces.selector.readiness, traces.selector.config.name
    names = ("selector", "span_count", "has_error", "first_seen", "last_seen", "root_seen")
    micros = ", ".join(f"epoch_us({of}_seen) AS {of}_us" for of in ("first", "last", "root"))
    found = traces.connection.execute(
        f"SELECT {', '.join(names)}, {readiness.at} AS ready_us, {readiness.because} AS ready_because "
        f"FROM (SELECT *, {micros} FROM {rows}) ORDER BY selector"
    ).to_arrow_table()
    return tuple(_open_trace(row, mine) for row in found.to_pylist())


def _open_trace(row: dict[str, Any], mine: str) -> OpenTrace:
    """The waits of other selectors are not known here."""
    is_mine, ready_us = row["selector"] == mine, row.pop("ready_us")
    ready = {"ready_at": moment(ready_us)} if is_mine else {"ready_because": ""}
    return OpenTrace(**row | ready)


def _rows(table: Table, organization: str, trace_id: bytes) -> str:
    """A subquery in parentheses: what a table of the selector's own says about one trace."""
    mine = f"trace_id = unhex('{trace_id.hex()}') AND organization_id = {literal(organization)}"
    paths = ", ".join(literal(readable(path)) for path in trace_files(table, organization, trace_id))
    return f"(SELECT * FROM read_parquet([{paths}]) WHERE {mine})" if paths else ""


def _notes(selector: Selector, decisions: tuple[DecisionMade, ...], now: JudgedTrace | None) -> Iterator[str]:
    """What must be known to read the answer."""
    mine = [one for one in decisions if one.selector == selector.config.name]
    if mine and mine[-1].policies_hash != selector.policies.fingerprint:
        yield "it was decided by other policies than those that are asked here"
    if now is None and decisions:
        yield "its spans are not in the table any more: policies can't be asked"
    more = now.spans - mine[-1].span_count if now is not None and mine else 0
    if more > 0:
        yield f"{more:,} more span{'' if more == 1 else 's'} came after its last decision"
    if now is not None and is_limited(selector.policies):
        yield "limits and rates by key depend on the other traces: here each policy is asked about this trace alone"


def _plain(value: Any) -> Any:
    """Times as texts, at any depth."""
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return value.isoformat() if isinstance(value, datetime) else value
