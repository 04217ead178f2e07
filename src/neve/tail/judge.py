"""Second half of a cycle: find the complete traces and judge them, window by window, into rows of decisions.

Traces are judged in batches of one organization, and of whole windows if a policy has limits. Late spans make a
decided trace judged again without limits: facts may change the decision, chance stays, budgets are not spent twice.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from neve.tail.decisions import DECIDED, DROPPED, LATE, NOT_SAMPLED, REVISED, SAMPLED, Outcome, build_decision_rows
from neve.tail.policy.evaluate.batch_evaluator import PolicyEvaluator
from neve.tail.policy.evaluate.limits import LimitState
from neve.tail.policy.evaluate.thresholds import format_threshold
from neve.tail.policy.evaluate.traces import MAX_THRESHOLD
from neve.tail.policy.semantics import Semantics
from neve.tail.policy.tree import All, Always, Composite, Dynamic, Not, RateLimit
from neve.tail.span_aggregation import LATE_TRACES, MERGED_TRACES
from neve.tail.span_order import add_order_remark
from neve.tail.trace_summary import build_traces, extract_integers

if TYPE_CHECKING:
    from collections.abc import Iterator

    import duckdb
    import numpy.typing as npt

    from neve.tail.claims import Claims
    from neve.tail.config import TailConfig
    from neve.tail.decisions import DecisionContext
    from neve.tail.policy.evaluate.traces import Bools, Doubles, Traces
    from neve.tail.policy.evaluate.verdicts import Verdicts
    from neve.tail.policy.tree import Node, PolicySet
    from neve.tail.trace_summary import SummaryQuery


NEVER_SAMPLE = Not("never", "not", Always("always", "always_sample"))


def has_limits(policies: PolicySet) -> bool:
    """Return whether a policy depends on the number of other traces."""
    return any(map(_is_limit, policies.nodes))


def remove_limits(policies: PolicySet) -> PolicySet:
    """Return the same policies, where those that depend on other traces never sample.

    Places do not change.
    """
    return replace(policies, policies=tuple(map(_remove_limit, policies.policies)))


def _is_limit(node: Node) -> bool:
    return isinstance(node, RateLimit | Composite | Dynamic)


def _remove_limit(node: Node) -> Node:
    match node:
        case RateLimit() | Dynamic():
            return replace(NEVER_SAMPLE, name=node.name)
        case Composite():
            return All(node.name, node.kind, (NEVER_SAMPLE, *(_remove_limit(share.part) for share in node.shares)))
        case Not() if any(map(_is_limit, node.walk())):
            return All(node.name, node.kind, (NEVER_SAMPLE, _remove_limit(node.part)))
        case All():
            return replace(node, parts=tuple(map(_remove_limit, node.parts)))
    return node


MICROS = 1_000_000
INACTIVE, MAX_DURATION, ROOT_ENDED, MEMORY_PRESSURE = "inactive", "max_duration", "root_ended", "memory"


@dataclass(frozen=True)
class Readiness:
    """Rules for when a trace is ready, as waits in microseconds.

    `None` disables a rule.
    """

    inactivity_us: int | None
    longest_us: int
    after_root_us: int | None = None

    @classmethod
    def of(cls, config: TailConfig, policies: PolicySet) -> Readiness:
        """Build the rules from the settings, and from the policy file if it has waits.

        A collector decides a fixed time after the first span, whatever arrives. So does `otelcol` if the file has that
        time.
        """
        after_root = config.after_root_seconds
        if after_root is None and policies.after_root_seconds:
            after_root = policies.after_root_seconds
        root = None if after_root is None else round(after_root * MICROS)
        if policies.semantics == Semantics.OTELCOL and policies.decision_wait_seconds is not None:
            return cls(None, round(policies.decision_wait_seconds * MICROS), root)
        return cls(round(config.inactivity_seconds * MICROS), round(config.max_duration_seconds * MICROS), root)

    @property
    def at(self) -> str:
        """SQL of the time at which a trace is ready."""
        moments = [f"first_us + {self.longest_us}"]
        if self.inactivity_us is not None:
            moments.append(f"last_us + {self.inactivity_us}")
        if self.after_root_us is not None:
            moments.append(f"coalesce(root_us + {self.after_root_us}, first_us + {self.longest_us})")
        return f"least({', '.join(moments)})"

    @property
    def because(self) -> str:
        """SQL of the reason why a trace is ready."""
        cases = ""
        if self.after_root_us is not None:
            cases += f"WHEN root_us + {self.after_root_us} <= {self.at} THEN '{ROOT_ENDED}' "
        if self.inactivity_us is not None:
            cases += f"WHEN last_us + {self.inactivity_us} <= {self.at} THEN '{INACTIVE}' "
        return f"CASE {cases}ELSE '{MAX_DURATION}' END" if cases else f"'{MAX_DURATION}'"


def split_by_organization(batches: pa.RecordBatchReader) -> Iterator[pa.Table]:
    """Split rows by organization, in any order."""
    for batch in batches:
        owners = batch.column("organization_id").dictionary_encode()
        for place in range(len(owners.dictionary)):
            yield pa.Table.from_batches([batch.filter(pc.equal(owners.indices, place))])


def split_by_window(batches: pa.RecordBatchReader, window_us: int) -> Iterator[pa.Table]:
    """Split rows by organization into whole windows.

    The input is sorted by both.
    """
    held: list[pa.RecordBatch] = []
    for batch in batches:
        if not batch.num_rows:
            continue
        held.append(batch)
        rows = pa.Table.from_batches(held)
        *whole, last = _split_rows(rows, window_us)
        yield from whole
        held = last.to_batches()
    if held:
        yield pa.Table.from_batches(held)


def _split_rows(rows: pa.Table, window_us: int) -> list[pa.Table]:
    """Split rows where the organization changes, and before the last window, which may be incomplete."""
    owners = pc.run_end_encode(rows.column("organization_id").combine_chunks()).run_ends.to_numpy()
    cuts = {0, *owners.tolist()}
    start = int(owners[-2]) if len(owners) > 1 else 0
    changes = np.flatnonzero(np.diff(extract_integers(rows, "ready_us")[start:] // window_us)) + 1
    if len(changes):
        cuts.add(start + int(changes[-1]))
    edges = sorted(cuts)
    return [rows.slice(first, end - first) for first, end in itertools.pairwise(edges)]


BATCH_ROWS = 25_000
DECISION_WORDS = pa.array([DROPPED, NOT_SAMPLED, SAMPLED])  # by the number of a verdict, plus one


@dataclass
class CycleJudge:
    """Judge of the traces of one cycle.

    Each batch updates `limits`, separately for each organization.
    """

    connection: duckdb.DuckDBPyConnection
    summary: SummaryQuery
    readiness: Readiness
    policies: PolicySet
    window_seconds: int
    claims: Claims
    context: DecisionContext
    since_us: int  # traces that were ready before are already decided
    until_us: int  # traces that are ready before are decided in this cycle
    limits: dict[str, LimitState] = field(default_factory=dict)
    new_spans: int = 0

    @cached_property
    def evaluator(self) -> PolicyEvaluator:
        """Evaluator of the policies."""
        return PolicyEvaluator(self.policies, self.window_seconds)

    @cached_property
    def late_evaluator(self) -> PolicyEvaluator:
        """Evaluator for decided traces with late spans, without limits."""
        return PolicyEvaluator(remove_limits(self.policies), self.window_seconds)

    @property
    def is_ready(self) -> str:
        """SQL condition for traces that are decided in this cycle."""
        return f"({self._ready_at}) < {self.until_us}"

    @property
    def _ready_at(self) -> str:
        """SQL of the time at which a trace is ready, for limits.

        A trace whose spans were committed late may have been ready in a closed window. It belongs to the next window,
        and waits for the end of that one.
        """
        return f"greatest({self.readiness.at}, {self.since_us})" if has_limits(self.policies) else self.readiness.at

    def open_count(self) -> int:
        """Return the number of traces that stay open."""
        found = self.connection.execute(f"SELECT count(*) FROM {MERGED_TRACES} WHERE NOT {self.is_ready}").fetchone()
        return int(found[0]) if found else 0

    def decide_ready(self) -> Iterator[pa.Table]:
        """Yield decision rows for traces that are decided for the first time."""
        moment = self._ready_at
        window = self.window_seconds * MICROS
        order = f"ORDER BY organization_id, {moment} // {window}, {moment}, trace_id"
        batches = self.connection.execute(
            f"SELECT *, {moment} AS ready_us, {self.readiness.because} AS ready_because FROM {MERGED_TRACES} "
            f"WHERE {self.is_ready} {order if has_limits(self.policies) else ''}"
        ).to_arrow_reader(BATCH_ROWS)
        for rows in split_by_window(batches, window) if has_limits(self.policies) else split_by_organization(batches):
            yield self._decide(rows)

    def decide_late(self) -> Iterator[pa.Table]:
        """Yield decision rows for decided traces with late spans."""
        batches = self.connection.execute(
            f"SELECT *, {self.context.now_us} AS ready_us, 'late' AS ready_because FROM {LATE_TRACES} "
            "ORDER BY organization_id, trace_id"
        ).to_arrow_reader(BATCH_ROWS)
        yield from map(self._decide_again, split_by_organization(batches))

    def _decide(self, rows: pa.Table) -> pa.Table:
        organization = rows.column("organization_id")[0].as_py()
        traces = build_traces(rows, self.summary, extract_integers(rows, "ready_us"))
        verdicts, state = self.evaluator.judge(traces, self.limits.get(organization, LimitState()))
        self.limits[organization] = state
        outcome = self._outcome(organization, traces, verdicts, verdicts.decision == 1)
        return build_decision_rows(rows, self.summary, self.context, outcome)

    def _decide_again(self, rows: pa.Table) -> pa.Table:
        """Judge traces again.

        Only facts may change a decision, and only to kept, so budgets are not spent twice.
        """
        traces = build_traces(rows, self.summary, extract_integers(rows, "ready_us"))
        verdicts, _state = self.late_evaluator.judge(traces, LimitState())
        before = rows.column("decision").combine_chunks()
        was_kept = np.asarray(pc.equal(before, SAMPLED))
        same = np.asarray(pc.equal(rows.column("policies_hash"), self.context.policies))
        revised = ~was_kept & same & (verdicts.decision == 1)
        outcome = self._outcome(rows.column("organization_id")[0].as_py(), traces, verdicts, revised)
        kept = pa.array(revised)
        late_words = pa.array(_format_late_reasons(before, rows.column("late_spans"), same))
        count = np.asarray(rows.column("adjusted_count").fill_null(0), dtype=np.float64)
        outcome = replace(
            outcome,
            decision=pc.if_else(kept, outcome.decision, before),
            policy=_use_if_revised(kept, outcome.policy, rows, "policy"),
            threshold=_use_if_revised(kept, outcome.threshold, rows, "threshold"),
            taken_by=_use_if_revised(kept, outcome.taken_by, rows, "taken_by"),
            reason=pc.if_else(kept, _format_revised_reasons(outcome.reason), late_words),
            probability=np.where(
                revised, outcome.probability, _compute_probability(was_kept, same, count, outcome.probability)
            ),
            policies=pc.if_else(pa.array(same), self.context.policies, rows.column("policies_hash").combine_chunks()),
            kind=pc.if_else(kept, REVISED, LATE),
            revision=pc.add(rows.column("revision").combine_chunks(), 1).cast(pa.int32()),
            late_spans=rows.column("late_spans").combine_chunks(),
        )
        return build_decision_rows(rows, self.summary, self.context, outcome)

    def _outcome(self, organization: str, traces: Traces, verdicts: Verdicts, kept: Bools) -> Outcome:
        """Build the outcome of verdicts, and claim the traces that are kept now."""
        count = len(traces)
        names = pa.array([policy.name for policy in self.policies.policies], pa.string())
        places = pa.array(np.maximum(verdicts.policy, 0), mask=verdicts.policy < 0)
        return Outcome(
            decision=DECISION_WORDS.take(pa.array(verdicts.decision.astype(np.int64) + 1)),
            policy=names.take(places) if len(names) else pa.nulls(count, pa.string()),
            reason=add_order_remark(pa.array(verdicts.reasons(), pa.string()), traces.unordered),
            probability=verdicts.probability,
            threshold=_format_thresholds(verdicts),
            taken_by=self._claim(organization, traces, np.flatnonzero(kept)),
            kind=pa.repeat(pa.scalar(DECIDED), count),
            revision=pa.repeat(pa.scalar(0, pa.int32()), count),
            late_spans=pa.repeat(pa.scalar(0, pa.int64()), count),
        )

    def _claim(self, organization: str, traces: Traces, kept: npt.NDArray[np.int64]) -> pa.StringArray:
        """Return the name of the other selector for each kept trace that it has claimed before."""
        holders = np.full(len(traces), None, dtype=object)
        claimed = self.claims.claim(organization, [traces.ids[place].tobytes() for place in kept])
        holders[kept] = [None if holder == self.context.selector else holder for holder in claimed]
        return pa.array(holders, pa.string())


def compute_horizon(policies: PolicySet, window_seconds: int, now_us: int, since_us: int) -> int:
    """Return the time up to which ready traces are decided.

    It is now, or the end of the last whole window if there are limits.
    """
    if not has_limits(policies):
        return now_us + 1
    window = window_seconds * MICROS
    return max(since_us, now_us // window * window)


def _use_if_revised(kept: pa.BooleanArray, now: pa.StringArray, rows: pa.Table, name: str) -> pa.StringArray:
    """Return the new value for traces that are kept now, otherwise the value before."""
    return pc.if_else(kept, now, rows.column(name).combine_chunks().cast(pa.string()))


def _format_thresholds(verdicts: Verdicts) -> pa.StringArray:
    """Format T of each kept trace as in the trace state.

    There are few distinct values.
    """
    found, places = np.unique(verdicts.threshold, return_inverse=True)
    texts = pa.array([format_threshold(int(threshold)) if threshold < MAX_THRESHOLD else None for threshold in found])
    return texts.cast(pa.string()).take(pa.array(places, mask=verdicts.decision != 1))


def _compute_probability(was_kept: Bools, same: Bools, count: Doubles, now: Doubles) -> Doubles:
    """Compute the probability of traces with an unchanged decision.

    A late error may have made a kept trace certain.
    """
    before = 1 / np.where(was_kept, count, 1)
    return np.where(was_kept, np.where(same, np.maximum(before, now), before), 0.0)


def _format_late_reasons(before: pa.StringArray, late: pa.ChunkedArray, same: Bools) -> list[str]:
    words = {
        SAMPLED: "sampled before: they are exported, too",
        NOT_SAMPLED: "not sampled before, and they change nothing",
        DROPPED: "dropped before",
    }
    others = ", by other policies than the current ones: the decision stays"
    return [
        f"{count:,} late span{'s' if count > 1 else ''} of a trace that was "
        + (words[decision] if alike or decision == SAMPLED else words[decision].partition(",")[0] + others)
        for decision, count, alike in zip(before.to_pylist(), late.to_pylist(), same.tolist(), strict=True)
    ]


def _format_revised_reasons(reasons: pa.StringArray) -> pa.StringArray:
    return pc.binary_join_element_wise("late spans changed the decision", reasons, ": ")
