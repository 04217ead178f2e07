"""Policies that depend on the order of arrival: the latency policy of the collector with an upper bound.

The collector evaluates it after each span, on the earliest start and the latest end so far. A summary therefore keeps
the spans that made their trace longer, as four numbers each: time of arrival, place in that time, start and end. Other
spans change neither, in any order in which summaries are merged.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neve.tail.policy.evaluate.traces import Bools, Integers
    from neve.tail.policy.tree import Latency

NUMBERS_PER_SPAN = 4
UNKNOWN_PLACE = -(1 << 63)  # of a span of which only the time of arrival is known
NANOS_PER_MS = 1_000_000
REMARK = "; the arrival order of its spans is unknown, so they were ordered by arrival time and start"


def mark_extending_spans_sql(spans: str, arrived: str) -> str:
    """Return a subquery in parentheses: spans in the order of arrival, with `extends` for those that extend a trace."""
    past = (
        f"PARTITION BY organization_id, trace_id ORDER BY {arrived}, arrival_order, start_ns, span_id "
        "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING"
    )
    extends = "coalesce(start_ns < min(start_ns) OVER past OR end_ns > max(end_ns) OVER past, true)"
    return f"(SELECT *, {extends} AS extends FROM {spans} WINDOW past AS ({past}))"


def extents_sql(arrived: str) -> str:
    """Return the aggregate of the spans that extend a trace, as a flat list of numbers."""
    numbers = f"[{arrived}, coalesce(arrival_order, {UNKNOWN_PLACE}), start_ns, end_ns]"
    return f"flatten(list({numbers}::BIGINT[]) FILTER (WHERE extends))"


def stored_extents_sql(words: int) -> str:
    """Return the list of a stored summary: what follows its bits.

    A summary without one is of an older release. It represents one span at an unknown place.
    """
    whole = f"[epoch_us(first_seen), {UNKNOWN_PLACE}, start_time_unix_nano, end_time_unix_nano]::BIGINT[]"
    rest = f"len(facts) - {words}"
    is_there = f"{rest} > 0 AND ({rest}) % {NUMBERS_PER_SPAN} = 0"
    return f"CASE WHEN {is_there} THEN facts[{words + 1}:] ELSE {whole} END"


@dataclass(frozen=True)
class OrderedSpans:
    """Spans that extended their traces, in the order of arrival, with the duration of the trace after each."""

    trace: Integers
    is_placed: Bools
    duration_ms: Integers
    count: int

    @classmethod
    def of(cls, extents: pa.ChunkedArray) -> OrderedSpans:
        """Sort the spans of each trace, and compute the durations."""
        lists = pa.concat_arrays(extents.chunks) if extents.num_chunks else pa.array([], pa.list_(pa.int64()))
        numbers = np.asarray(pc.list_flatten(lists), dtype=np.int64).reshape(-1, NUMBERS_PER_SPAN)
        trace = np.asarray(pc.list_parent_indices(lists), dtype=np.int64)[::NUMBERS_PER_SPAN]
        order = np.lexsort((numbers[:, 3], numbers[:, 2], numbers[:, 1], numbers[:, 0], trace))
        trace, numbers = trace[order], numbers[order]
        start, end = _accumulate(trace, numbers[:, 2].copy(), numbers[:, 3].copy())
        nanos = end - start
        duration = (np.sign(nanos) * (np.abs(nanos) // NANOS_PER_MS)).astype(np.int64)
        return cls(trace, numbers[:, 1] != UNKNOWN_PLACE, duration, len(lists))

    def evaluate(self, latencies: Sequence[Latency]) -> Bools:
        """Return for each trace and policy whether the duration was within the bounds after some span."""
        hits = np.zeros((self.count, len(latencies)), np.bool_)
        for place, one in enumerate(latencies):
            hits[self.trace[self._is_within(one)], place] = True
        return hits

    def find_unordered(self, latencies: Sequence[Latency], span_count: Integers) -> Bools:
        """Return the traces of several spans whose result depends on an order that is not known.

        Durations only grow. So the order matters only if the last one is beyond the upper bound.
        """
        longest = np.full(self.count, np.iinfo(np.int64).min)
        np.maximum.at(longest, self.trace, self.duration_ms)
        unplaced = np.zeros(self.count, np.bool_)
        unplaced[self.trace[~self.is_placed]] = True
        lowest = min(one.upper_ms or 0 for one in latencies)
        return unplaced & (span_count > 1) & (longest > lowest)

    def _is_within(self, policy: Latency) -> Bools:
        return (self.duration_ms > policy.threshold_ms) & (self.duration_ms <= (policy.upper_ms or 0))


def _accumulate(trace: Integers, start: Integers, end: Integers) -> tuple[Integers, Integers]:
    """Return the running minimum of starts and maximum of ends within each trace, whose rows are neighbours.

    Each pass doubles the number of rows that are read, until no trace has more.
    """
    step, most = 1, int(np.bincount(trace).max()) if len(trace) else 0
    while step < most:
        same = np.flatnonzero(trace[step:] == trace[:-step]) + step
        lower, upper = np.minimum(start[same], start[same - step]), np.maximum(end[same], end[same - step])
        start[same], end[same] = lower, upper
        step *= 2
    return start, end


def add_order_remark(reasons: pa.Array, unordered: Bools | None) -> pa.Array:
    """Add a remark to the reasons of traces whose order of arrival is unknown."""
    if unordered is None or not unordered.any():
        return reasons
    return pc.if_else(pa.array(unordered), pc.binary_join_element_wise(reasons, REMARK, ""), reasons)
