"""What a cycle decided, counted as it is written."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from neve.tail.decisions import DROPPED, LATE, REVISED, SAMPLED


@dataclass(frozen=True)
class Count:
    """Traces and their spans."""

    traces: int = 0
    spans: int = 0

    def __add__(self, other: Count) -> Count:
        return Count(self.traces + other.traces, self.spans + other.spans)


NONE = Count()


@dataclass
class Tally:
    """Sums over rows of decisions; `estimated` is how many traces the kept ones stand for."""

    decided: Count = NONE
    sampled: Count = NONE
    dropped: Count = NONE
    late: Count = NONE
    revised: Count = NONE
    taken: Count = NONE
    estimated: float = 0.0
    traces_by_policy: Counter[str] = field(default_factory=Counter)
    spans_by_policy: Counter[str] = field(default_factory=Counter)

    def add(self, rows: pa.Table) -> pa.Table:
        """Count some rows; they are given back."""
        first = pc.equal(rows.column("revision"), 0)
        revised, kept = pc.equal(rows.column("kind"), REVISED), pc.equal(rows.column("decision"), SAMPLED)
        new = pc.or_(first, revised)
        self.decided += _count(rows, first)
        self.sampled += _count(rows, pc.and_(kept, new))
        self.dropped += _count(rows, pc.and_(first, pc.equal(rows.column("decision"), DROPPED)))
        self.late += _count(rows, pc.equal(rows.column("kind"), LATE), "late_spans")
        self.revised += _count(rows, revised)
        self.taken += _count(rows, pc.is_valid(rows.column("taken_by")))
        self.estimated += pc.sum(rows.filter(first).column("adjusted_count")).as_py() or 0.0
        by_policy = rows.filter(pc.and_(new, pc.is_valid(rows.column("policy")))).group_by("policy")
        for line in by_policy.aggregate([("span_count", "sum"), ("span_count", "count")]).to_pylist():
            self.traces_by_policy[line["policy"]] += line["span_count_count"]
            self.spans_by_policy[line["policy"]] += line["span_count_sum"]
        return rows

    @property
    def by_policy(self) -> dict[str, Count]:
        """What each policy decided."""
        return {name: Count(traces, self.spans_by_policy[name]) for name, traces in self.traces_by_policy.items()}


def _count(rows: pa.Table, mask: pa.ChunkedArray, column: str = "span_count") -> Count:
    chosen = rows.filter(mask).column(column)
    return Count(len(chosen), pc.sum(chosen).as_py() or 0)
