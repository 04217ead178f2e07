"""One cycle in memory: judge complete traces, then decide the oldest ones early if memory is short, and release both.

Early decisions get the part of a limit's budget that the time since the last early decisions is worth.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from neve.model.decision_tables import DECISIONS
from neve.tail.decisions import IDLE, REVISED, CycleResult, Tally, TraceCount
from neve.tail.judge import MEMORY_PRESSURE, MICROS, Readiness, has_limits, remove_limits
from neve.tail.memory.delivery import DecidedSpans, take_decided_spans
from neve.tail.policy.semantics import Semantics
from neve.tail.policy.tree import Composite, Dynamic, RateLimit
from neve.tail.span_aggregation import DUCKDB, MERGED_TRACES

if TYPE_CHECKING:
    from collections.abc import Iterator

    import duckdb

    from neve.tail.config import TailConfig
    from neve.tail.export.destination import DeliveryResult
    from neve.tail.judge import CycleJudge
    from neve.tail.memory.span_buffer import SpanBuffer
    from neve.tail.memory.trace_store import TraceStore
    from neve.tail.policy.tree import PolicySet


MEMORY_SOURCE = "memory"  # source of decisions about spans that come from no table
NO_TRACES = TraceCount()


@dataclass(frozen=True)
class MemoryCycleResult(CycleResult):
    """Result of a cycle in memory: also the memory in use after it, early decisions and losses."""

    held_spans: int = 0
    held_bytes: int = 0
    early: TraceCount = field(default=NO_TRACES)
    forgotten: int = 0
    lost: dict[str, int] = field(default_factory=dict)  # spans, by destination
    decisions: pa.Table = field(default_factory=DECISIONS.schema.empty_table, repr=False, compare=False)
    deliveries: tuple[DeliveryResult, ...] = field(default=(), repr=False, compare=False)

    def as_document(self) -> dict[str, Any]:
        """Return the result as a JSON document, in which decisions are counted and not listed."""
        plain = {
            one.name: getattr(self, one.name) for one in fields(self) if one.name not in ("decisions", "deliveries")
        }
        return {name: _to_plain(value) for name, value in plain.items()}


def build_memory_result(
    config: TailConfig, cycle: MemoryCycle, new: pa.Table, *, open_count: int, seconds: float
) -> MemoryCycleResult:
    """Build the result of a cycle over some new rows."""
    idle = not cycle.rows and not new.num_rows
    return MemoryCycleResult(
        selector=config.name,
        source=MEMORY_SOURCE,
        cycle=cycle.judge.context.cycle,
        committed=not idle,
        reason=IDLE if idle else "aggregated the spans since the last cycle",
        engine=DUCKDB,
        spans=new.num_rows,
        bytes=new.nbytes,
        open=open_count,
        **cycle.tally.result,
        seconds=seconds,
        held_spans=cycle.held.rows,
        held_bytes=cycle.held.bytes,
        early=cycle.early,
        decisions=cycle.decisions,
    )


def _to_plain(value: object) -> object:
    if isinstance(value, TraceCount):
        return {"traces": value.traces, "spans": value.spans}
    return {key: _to_plain(one) for key, one in value.items()} if isinstance(value, dict) else value


EARLY_TRACES = "pressed"


@dataclass(frozen=True)
class EarlyReadiness(Readiness):
    """Readiness rule by which the selected traces are ready at a given time, and no others."""

    moment_us: int = 0

    @property
    def at(self) -> str:
        """SQL of the time at which a trace is ready."""
        chosen = f"(organization_id, trace_id) IN (SELECT (organization_id, trace_id) FROM {EARLY_TRACES})"
        return f"CASE WHEN {chosen} THEN {self.moment_us} ELSE {self.moment_us + MICROS} END"

    @property
    def because(self) -> str:
        """SQL of the reason why a trace is ready."""
        return f"'{MEMORY_PRESSURE}'"


def select_early_traces(connection: duckdb.DuckDBPyConnection, spans: int | None) -> int:
    """Select the oldest traces up to a number of spans, or all traces, and return how many were selected."""
    before = "sum(span_count) OVER (ORDER BY first_us, trace_id ROWS UNBOUNDED PRECEDING) - span_count"
    chosen = "" if spans is None else f"QUALIFY {before} < {spans}"
    connection.execute(
        f"CREATE OR REPLACE TABLE {EARLY_TRACES} AS SELECT organization_id, trace_id FROM {MERGED_TRACES} {chosen}"
    )
    row = connection.execute(f"SELECT count(*) FROM {EARLY_TRACES}").fetchone()
    return int(row[0]) if row else 0


class EarlyAllowance:
    """Budget for traces that are decided early: the part of a limit for the time since the last early decisions.

    A limit shares out the budget of a window when the window is over. Traces that can't wait for that are judged
    separately, with the seconds since the last early decisions. If no second has passed, no limit samples them. So all
    early traces together get no more than the limit, and traces that wait get their budget as usual.
    """

    def __init__(self, policies: PolicySet, window_seconds: int) -> None:
        nodes = policies.nodes
        has_budget = any(isinstance(node, RateLimit | Composite) for node in nodes)
        self._policies, self._window = policies, window_seconds
        self._step = math.lcm(1, *(node.interval_seconds for node in nodes if isinstance(node, Dynamic)))
        # The collector's buckets fill with time by themselves.
        self.matters = has_limits(policies) and has_budget and policies.semantics is Semantics.DOCUMENTED
        self._until_us = 0

    def take(self, since_us: int, now_us: int) -> tuple[PolicySet, int]:
        """Return the policies for early decisions now, and the seconds that their limits apply to."""
        if not self.matters:
            return self._policies, self._window
        begin = max(self._until_us, since_us, now_us - self._window * MICROS)
        seconds = (now_us - begin) // MICROS // self._step * self._step
        if seconds < 1:
            return remove_limits(self._policies), self._window
        self._until_us = begin + seconds * MICROS
        return self._policies, seconds


TARGET_SHARE = 0.75  # of the bound: if spans exceed the bound, the oldest traces are decided down to this share
LARGE_TRACE_SHARE = 0.5  # of the bound: a single trace of at least this share is reported


@dataclass
class MemoryCycle:
    """Decisions of one cycle and their effects, which leave the process only after the cycle."""

    held: SpanBuffer
    store: TraceStore
    judge: CycleJudge
    allowance: EarlyAllowance
    bound: int
    rows: list[pa.Table] = field(default_factory=list)
    decided_spans: list[DecidedSpans] = field(default_factory=list)
    tally: Tally = field(default_factory=Tally)
    early: TraceCount = field(default=NO_TRACES)
    large: list[str] = field(default_factory=list)  # trace ids in hex

    @property
    def decisions(self) -> pa.Table:
        """All decisions of the cycle."""
        return pa.concat_tables(self.rows) if self.rows else DECISIONS.schema.empty_table()

    def decide_ready(self) -> None:
        """Decide ready traces, and decided traces with late spans."""
        self._remove_decided(self.judge, list(self.judge.decide_ready()))
        late = list(self.judge.decide_late())
        if late:
            self._record(pa.concat_tables(late))

    def decide_early(self, *, everything: bool) -> None:
        """Decide the oldest traces until the buffer fits its bound, or all traces if none may stay."""
        while everything or self.held.bytes > self.bound:
            each = self.held.bytes / max(1, self.held.rows)
            spans = None if everything else math.ceil((self.held.bytes - TARGET_SHARE * self.bound) / each)
            if not select_early_traces(self.store.connection, spans):
                break
            rows = self._remove_decided(*self._judge_early())
            self.early += TraceCount(rows.num_rows, pc.sum(rows.column("span_count")).as_py() or 0)
            large = rows.filter(pc.greater(rows.column("span_count"), LARGE_TRACE_SHARE * self.bound / each))
            self.large += [] if everything else [one.hex() for one in large.column("trace_id").to_pylist()]

    def _judge_early(self) -> tuple[CycleJudge, list[pa.Table]]:
        now_us = self.judge.context.now_us
        policies, seconds = self.allowance.take(self.judge.since_us, now_us)
        judge = replace(
            self.judge,
            readiness=EarlyReadiness(None, 0, moment_us=now_us),
            policies=policies,
            window_seconds=seconds,
            until_us=now_us + 1,
        )
        return judge, list(judge.decide_ready())

    def _remove_decided(self, judge: CycleJudge, decided: list[pa.Table]) -> pa.Table:
        self.store.connection.execute(f"DELETE FROM {MERGED_TRACES} WHERE {judge.is_ready}")
        return self._record(pa.concat_tables(decided)) if decided else DECISIONS.schema.empty_table()

    def _record(self, rows: pa.Table) -> pa.Table:
        self.store.remember(rows, self.judge.context.now_us)
        self.decided_spans += take_decided_spans(self.held, rows)
        self.rows.append(self.tally.add(rows))
        return rows


MAX_NAMED_TRACES = 3


def build_remarks(
    cycle: MemoryCycle, result: MemoryCycleResult, config: TailConfig, most_remembered: int, *, everything: bool
) -> Iterator[str]:
    """Yield remarks on deviations from a selector with sufficient memory."""
    if cycle.early.traces:
        why = "the selector stops" if everything else f"spans filled tail.buffer_mb, which is {config.buffer_mb}"
        limits = (
            "; limits gave them the budget of the time since the last early decisions"
            if cycle.allowance.matters
            else ""
        )
        yield f"{cycle.early.traces:,} traces were decided before they were complete: {why}{limits}"
    if cycle.large:
        named = ", ".join(cycle.large[:MAX_NAMED_TRACES]) + (", …" if len(cycle.large) > MAX_NAMED_TRACES else "")
        yield f"traces that use more than half of tail.buffer_mb: {named}; their later spans follow the decision"
    yield from _build_revision_remarks(result.decisions)
    if result.forgotten:
        yield (
            f"{result.forgotten:,} decisions were forgotten before tail.late_seconds: no more than "
            f"{most_remembered:,} are remembered"
        )
    for name, spans in result.lost.items():
        yield (
            f"{spans:,} kept spans were lost for the destination {name}: its queue is full, tail.buffer_mb "
            f"is {config.buffer_mb}"
        )
    if cycle.judge.claims.trouble:
        yield cycle.judge.claims.trouble


def _build_revision_remarks(decisions: pa.Table) -> Iterator[str]:
    revised = decisions.filter(pc.equal(decisions.column("kind"), REVISED))
    if revised.num_rows:
        gone = pc.sum(pc.subtract(revised.column("span_count"), revised.column("late_spans"))).as_py()
        yield (
            f"late spans changed the decision of {revised.num_rows:,} traces to sampled: {gone:,} earlier spans are no "
            "longer in memory and are not exported"
        )
