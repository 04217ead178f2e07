"""The second half of a cycle: traces that are ready are judged, window by window, and become rows of decisions."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from neve.tail.again import is_limited, without_limits
from neve.tail.batches import integers, traces_of
from neve.tail.decisions import DECIDED, DROPPED, LATE, NOT_SAMPLED, REVISED, SAMPLED, Outcome, decision_rows
from neve.tail.gather import LATE as LATE_TRACES
from neve.tail.gather import MERGED
from neve.tail.lots import by_owner, by_window
from neve.tail.policy.decide import Judge
from neve.tail.policy.state import LimitState
from neve.tail.policy.thresholds import threshold_text
from neve.tail.policy.traces import MAX_THRESHOLD
from neve.tail.ready import MICROS

if TYPE_CHECKING:
    from collections.abc import Iterator

    import duckdb
    import numpy.typing as npt

    from neve.tail.claims import Claims
    from neve.tail.decisions import Made
    from neve.tail.policy.traces import Bools, Doubles, Traces
    from neve.tail.policy.tree import PolicySet
    from neve.tail.policy.verdicts import Verdicts
    from neve.tail.ready import Readiness
    from neve.tail.summary import Summary

BATCH_ROWS = 25_000
WORDS = pa.array([DROPPED, NOT_SAMPLED, SAMPLED])  # by the number of a verdict, plus one


@dataclass
class Judging:
    """Judges the traces of one cycle. `limits` moves on with every batch, for each organization apart."""

    connection: duckdb.DuckDBPyConnection
    summary: Summary
    readiness: Readiness
    policies: PolicySet
    window_seconds: int
    claims: Claims
    made: Made
    since_us: int  # traces that were ready before are decided already
    until_us: int  # those that are ready before are decided in this cycle
    limits: dict[str, LimitState] = field(default_factory=dict)
    new_spans: int = 0

    @cached_property
    def judge(self) -> Judge:
        """Who decides."""
        return Judge(self.policies, self.window_seconds)

    @cached_property
    def judge_again(self) -> Judge:
        """Who looks at decisions again."""
        return Judge(without_limits(self.policies), self.window_seconds)

    @property
    def is_ready(self) -> str:
        """Whether a trace is decided in this cycle, as SQL."""
        return f"({self._moment}) < {self.until_us}"

    @property
    def _moment(self) -> str:
        """When a trace is ready, as limits go by it.

        One whose spans were committed late may have been ready in a window that is closed: the next one takes it, and
        it waits for the end of that one.
        """
        return f"greatest({self.readiness.at}, {self.since_us})" if is_limited(self.policies) else self.readiness.at

    def open_count(self) -> int:
        """How many traces stay open."""
        found = self.connection.execute(f"SELECT count(*) FROM {MERGED} WHERE NOT {self.is_ready}").fetchone()
        return int(found[0]) if found else 0

    def decided(self) -> Iterator[pa.Table]:
        """Rows for traces that are decided for the first time."""
        moment = self._moment
        window = self.window_seconds * MICROS
        order = f"ORDER BY organization_id, {moment} // {window}, {moment}, trace_id"
        batches = self.connection.execute(
            f"SELECT *, {moment} AS ready_us, {self.readiness.because} AS ready_because FROM {MERGED} "
            f"WHERE {self.is_ready} {order if is_limited(self.policies) else ''}"
        ).to_arrow_reader(BATCH_ROWS)
        for rows in by_window(batches, window) if is_limited(self.policies) else by_owner(batches):
            yield self._first(rows)

    def late(self) -> Iterator[pa.Table]:
        """Rows for traces of which more spans came after they were decided."""
        batches = self.connection.execute(
            f"SELECT *, {self.made.now_us} AS ready_us, 'late' AS ready_because FROM {LATE_TRACES} "
            "ORDER BY organization_id, trace_id"
        ).to_arrow_reader(BATCH_ROWS)
        yield from map(self._again, by_owner(batches))

    def _first(self, rows: pa.Table) -> pa.Table:
        organization = rows.column("organization_id")[0].as_py()
        traces = traces_of(rows, self.summary, integers(rows, "ready_us"))
        verdicts, state = self.judge.judge(traces, self.limits.get(organization, LimitState()))
        self.limits[organization] = state
        outcome = self._outcome(organization, traces, verdicts, verdicts.decision == 1)
        return decision_rows(rows, self.summary, self.made, outcome)

    def _again(self, rows: pa.Table) -> pa.Table:
        """Only what spans tell may change a decision, and only from not kept to kept: budgets are not spent twice."""
        traces = traces_of(rows, self.summary, integers(rows, "ready_us"))
        verdicts, _state = self.judge_again.judge(traces, LimitState())
        before = rows.column("decision").combine_chunks()
        was_kept = np.asarray(pc.equal(before, SAMPLED))
        same = np.asarray(pc.equal(rows.column("policies_hash"), self.made.policies))
        revised = ~was_kept & same & (verdicts.decision == 1)
        outcome = self._outcome(rows.column("organization_id")[0].as_py(), traces, verdicts, revised)
        kept = pa.array(revised)
        late_words = pa.array(_late_reasons(before, rows.column("late_spans"), same))
        count = np.asarray(rows.column("adjusted_count").fill_null(0), dtype=np.float64)
        outcome = replace(
            outcome,
            decision=pc.if_else(kept, outcome.decision, before),
            policy=_else(kept, outcome.policy, rows, "policy"),
            threshold=_else(kept, outcome.threshold, rows, "threshold"),
            taken_by=_else(kept, outcome.taken_by, rows, "taken_by"),
            reason=pc.if_else(kept, _revised(outcome.reason), late_words),
            probability=np.where(revised, outcome.probability, _chance(was_kept, same, count, outcome.probability)),
            policies=pc.if_else(pa.array(same), self.made.policies, rows.column("policies_hash").combine_chunks()),
            kind=pc.if_else(kept, REVISED, LATE),
            revision=pc.add(rows.column("revision").combine_chunks(), 1).cast(pa.int32()),
            late_spans=rows.column("late_spans").combine_chunks(),
        )
        return decision_rows(rows, self.summary, self.made, outcome)

    def _outcome(self, organization: str, traces: Traces, verdicts: Verdicts, kept: Bools) -> Outcome:
        """What verdicts come to; the traces that are kept now are claimed."""
        count = len(traces)
        names = pa.array([policy.name for policy in self.policies.policies], pa.string())
        places = pa.array(np.maximum(verdicts.policy, 0), mask=verdicts.policy < 0)
        return Outcome(
            decision=WORDS.take(pa.array(verdicts.decision.astype(np.int64) + 1)),
            policy=names.take(places) if len(names) else pa.nulls(count, pa.string()),
            reason=pa.array(verdicts.reasons(), pa.string()),
            probability=verdicts.probability,
            threshold=_threshold_texts(verdicts),
            taken_by=self._taken(organization, traces, np.flatnonzero(kept)),
            kind=pa.repeat(pa.scalar(DECIDED), count),
            revision=pa.repeat(pa.scalar(0, pa.int32()), count),
            late_spans=pa.repeat(pa.scalar(0, pa.int64()), count),
        )

    def _taken(self, organization: str, traces: Traces, kept: npt.NDArray[np.int64]) -> pa.StringArray:
        """For kept traces that another selector keeps already, its name."""
        holders = np.full(len(traces), None, dtype=object)
        claimed = self.claims.claim(organization, [traces.ids[place].tobytes() for place in kept])
        holders[kept] = [None if holder == self.made.selector else holder for holder in claimed]
        return pa.array(holders, pa.string())


def horizon(policies: PolicySet, window_seconds: int, now_us: int, since_us: int) -> int:
    """Until when traces that are ready are decided: now, or the end of the last whole window where limits go by it."""
    if not is_limited(policies):
        return now_us + 1
    window = window_seconds * MICROS
    return max(since_us, now_us // window * window)


def _else(kept: pa.BooleanArray, now: pa.StringArray, rows: pa.Table, name: str) -> pa.StringArray:
    """What holds now where a trace was kept for it, else what held before."""
    return pc.if_else(kept, now, rows.column(name).combine_chunks().cast(pa.string()))


def _threshold_texts(verdicts: Verdicts) -> pa.StringArray:
    """T of each kept trace as the trace state has it; there are few different ones."""
    found, places = np.unique(verdicts.threshold, return_inverse=True)
    texts = pa.array([threshold_text(int(threshold)) if threshold < MAX_THRESHOLD else None for threshold in found])
    return texts.cast(pa.string()).take(pa.array(places, mask=verdicts.decision != 1))


def _chance(was_kept: Bools, same: Bools, count: Doubles, now: Doubles) -> Doubles:
    """With what chance a trace that stays as it was is kept: an error that came late may have made it certain."""
    before = 1 / np.where(was_kept, count, 1)
    return np.where(was_kept, np.where(same, np.maximum(before, now), before), 0.0)


def _late_reasons(before: pa.StringArray, late: pa.ChunkedArray, same: Bools) -> list[str]:
    words = {
        SAMPLED: "kept before: they are exported too",
        NOT_SAMPLED: "not kept before, and they change nothing",
        DROPPED: "dropped before",
    }
    others = ", by other policies than now's: it stays so"
    return [
        f"{count:,} more span{'s' if count > 1 else ''} came of a trace that was "
        + (words[decision] if alike or decision == SAMPLED else words[decision].partition(",")[0] + others)
        for decision, count, alike in zip(before.to_pylist(), late.to_pylist(), same.tolist(), strict=True)
    ]


def _revised(reasons: pa.StringArray) -> pa.StringArray:
    return pc.binary_join_element_wise("late spans changed the decision", reasons, ": ")
