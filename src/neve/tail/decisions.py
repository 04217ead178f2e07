"""Decisions of a cycle: rows of `trace_decisions` and `open_traces`, their counts, and the result of the cycle."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from neve.model.columns import TIMESTAMP
from neve.model.decision_tables import DECISIONS, OPEN_TRACES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neve.tail.checkpoint import Checkpoint
    from neve.tail.new_files import NewFiles
    from neve.tail.policy.evaluate.traces import Doubles
    from neve.tail.trace_summary import SummaryQuery


DECIDED, LATE, REVISED = "decided", "late", "revised"
SAMPLED, NOT_SAMPLED, DROPPED = "sampled", "not_sampled", "dropped"
NANOS_PER_MS = 1_000_000


@dataclass(frozen=True)
class DecisionContext:
    """Values that all decisions of a cycle share."""

    selector: str
    source: str
    snapshot_id: int | None
    since: int | None
    policies: str
    cycle: int
    now_us: int


@dataclass(frozen=True)
class Outcome:
    """Decisions about a batch of traces, with one value for each trace in each array."""

    decision: pa.StringArray
    policy: pa.StringArray
    reason: pa.StringArray
    probability: Doubles
    threshold: pa.StringArray
    taken_by: pa.StringArray
    kind: pa.StringArray
    revision: pa.Int32Array
    late_spans: pa.Int64Array
    policies: pa.StringArray | None = None  # hash of the policies that decided, if it differs from the cycle's


def build_decision_rows(rows: pa.Table, summary: SummaryQuery, context: DecisionContext, outcome: Outcome) -> pa.Table:
    """Build rows of the table of decisions."""
    count = rows.num_rows
    kept = np.asarray(pc.equal(outcome.decision, SAMPLED))
    adjusted = np.where(kept, 1 / np.where(kept, outcome.probability, 1), 0.0)
    nanos = pc.subtract(rows.column("end_ns"), rows.column("start_ns"))
    columns = {
        "decided_at": to_timestamps(_repeat_value(context.now_us, count, pa.int64())),
        "selector": _repeat_value(context.selector, count),
        "decision": outcome.decision,
        "policy": outcome.policy,
        "reason": outcome.reason,
        "adjusted_count": pa.array(adjusted),
        "probability": pa.array(outcome.probability),
        "threshold": outcome.threshold,
        "revision": outcome.revision,
        "kind": outcome.kind,
        "late_spans": outcome.late_spans,
        "taken_by": outcome.taken_by,
        "ready_at": to_timestamps(rows.column("ready_us")),
        "ready_because": rows.column("ready_because"),
        "duration_ms": pc.divide(pc.cast(nanos, pa.float64(), safe=False), float(NANOS_PER_MS)),
        **_build_summary_columns(rows, summary),
        "source": _repeat_value(context.source, count),
        "source_snapshot_id": _repeat_value(context.snapshot_id, count, pa.int64()),
        "previous_snapshot_id": _repeat_value(context.since, count, pa.int64()),
        "policies_hash": _repeat_value(context.policies, count) if outcome.policies is None else outcome.policies,
        "cycle": _repeat_value(context.cycle, count, pa.int64()),
    }
    return pa.table(columns).select(DECISIONS.schema.names).cast(DECISIONS.schema)


def build_open_rows(rows: pa.Table, summary: SummaryQuery, selector: str) -> pa.Table:
    """Build rows of the table of open traces."""
    columns = {"selector": _repeat_value(selector, rows.num_rows), **_build_summary_columns(rows, summary)}
    return pa.table(columns).select(OPEN_TRACES.schema.names).cast(OPEN_TRACES.schema)


def _build_summary_columns(rows: pa.Table, summary: SummaryQuery) -> dict[str, pa.ChunkedArray]:
    root = rows.column("root").combine_chunks()
    root = pa.concat_arrays(root.chunks) if isinstance(root, pa.ChunkedArray) else root
    return {
        "organization_id": rows.column("organization_id"),
        "trace_id": rows.column("trace_id"),
        "span_count": rows.column("span_count"),
        "spans_bytes": rows.column("spans_bytes"),
        "start_time_unix_nano": rows.column("start_ns"),
        "end_time_unix_nano": rows.column("end_ns"),
        "first_seen": to_timestamps(rows.column("first_us")),
        "last_seen": to_timestamps(rows.column("last_us")),
        "root_seen": to_timestamps(rows.column("root_us")),
        "has_error": rows.column("has_error"),
        "root_order": root.field("place"),
        "service_name": root.field("service"),
        "operation_name": root.field("operation"),
        "facts": _build_facts(rows, summary),
        "sampling_keys": _build_lists(
            [rows.column(f"key_{place}") for place in range(len(summary.policies.keys))],
            rows.num_rows,
            pa.list_(pa.string()),
        ),
        "head_threshold": rows.column("head_threshold"),
        "randomness": rows.column("randomness"),
    }


def _build_facts(rows: pa.Table, summary: SummaryQuery) -> pa.ListArray:
    """Build the numbers of each trace: its bits, then the spans that extended it, where their order matters."""
    words = [rows.column(f"facts_{word}") for word in range(summary.words)]
    bits = _build_lists(words, rows.num_rows, pa.int64())
    if not summary.latencies:
        return bits
    extents = pa.concat_arrays(rows.column("extents").chunks)
    widths = pc.add(pc.list_value_length(extents), summary.words)
    offsets = np.concatenate([[0], np.cumsum(widths)]).astype(np.int32)
    values = np.empty(offsets[-1], np.int64)
    is_bit = np.zeros(offsets[-1], np.bool_)
    is_bit[offsets[:-1, None] + np.arange(summary.words)] = True
    values[is_bit], values[~is_bit] = bits.flatten(), extents.flatten()
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(values))


def to_timestamps(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Convert microseconds to timestamps."""
    return pc.cast(pc.cast(column, pa.int64()), TIMESTAMP)


def _repeat_value(value: object, count: int, kind: pa.DataType | None = None) -> pa.Array:
    return pa.repeat(pa.scalar(value, kind or pa.string()), count)


def _build_lists(columns: Sequence[pa.ChunkedArray], count: int, kind: pa.DataType) -> pa.ListArray:
    """Build one list for each row from the values of some columns."""
    width = len(columns)
    offsets = pa.array(np.arange(count + 1, dtype=np.int32) * width)
    if not width:
        return pa.ListArray.from_arrays(offsets, pa.array([], kind))
    joined = pa.concat_arrays([pc.cast(chunk, kind) for column in columns for chunk in column.chunks])
    order = np.arange(count * width).reshape(width, count).T.reshape(-1)
    return pa.ListArray.from_arrays(offsets, joined.take(pa.array(order)))


@dataclass(frozen=True)
class TraceCount:
    """Number of traces and of their spans."""

    traces: int = 0
    spans: int = 0

    def __add__(self, other: TraceCount) -> TraceCount:
        return TraceCount(self.traces + other.traces, self.spans + other.spans)


NO_TRACES = TraceCount()


@dataclass
class Tally:
    """Totals over rows of decisions.

    `estimated` is the number of traces that the kept ones represent.
    """

    decided: TraceCount = NO_TRACES
    sampled: TraceCount = NO_TRACES
    dropped: TraceCount = NO_TRACES
    late: TraceCount = NO_TRACES
    revised: TraceCount = NO_TRACES
    taken: TraceCount = NO_TRACES
    estimated: float = 0.0
    traces_by_policy: Counter[str] = field(default_factory=Counter)
    spans_by_policy: Counter[str] = field(default_factory=Counter)

    def add(self, rows: pa.Table) -> pa.Table:
        """Add rows to the totals, and return the rows."""
        first = pc.equal(rows.column("revision"), 0)
        revised, kept = pc.equal(rows.column("kind"), REVISED), pc.equal(rows.column("decision"), SAMPLED)
        new = pc.or_(first, revised)
        self.decided += _count_rows(rows, first)
        self.sampled += _count_rows(rows, pc.and_(kept, new))
        self.dropped += _count_rows(rows, pc.and_(first, pc.equal(rows.column("decision"), DROPPED)))
        self.late += _count_rows(rows, pc.equal(rows.column("kind"), LATE), "late_spans")
        self.revised += _count_rows(rows, revised)
        self.taken += _count_rows(rows, pc.is_valid(rows.column("taken_by")))
        self.estimated += pc.sum(rows.filter(first).column("adjusted_count")).as_py() or 0.0
        by_policy = rows.filter(pc.and_(new, pc.is_valid(rows.column("policy")))).group_by("policy")
        for line in by_policy.aggregate([("span_count", "sum"), ("span_count", "count")]).to_pylist():
            self.traces_by_policy[line["policy"]] += line["span_count_count"]
            self.spans_by_policy[line["policy"]] += line["span_count_sum"]
        return rows

    @property
    def by_policy(self) -> dict[str, TraceCount]:
        """Counts of the decisions of each policy."""
        return {name: TraceCount(traces, self.spans_by_policy[name]) for name, traces in self.traces_by_policy.items()}

    @property
    def result(self) -> dict[str, Any]:
        """The totals by the names that they have in `CycleResult`."""
        names = ("decided", "sampled", "dropped", "late", "revised", "taken")
        counts = {name: getattr(self, name) for name in names}
        return counts | {"policies": self.by_policy, "estimated_traces": self.estimated}


def _count_rows(rows: pa.Table, mask: pa.ChunkedArray, column: str = "span_count") -> TraceCount:
    chosen = rows.filter(mask).column(column)
    return TraceCount(len(chosen), pc.sum(chosen).as_py() or 0)


IDLE = "no new spans, and no trace became complete"


@dataclass(frozen=True)
class CycleResult:
    """Result of a cycle: what it read and decided.

    `policies` counts the traces that each policy kept or dropped.
    """

    selector: str
    source: str
    cycle: int
    committed: bool
    reason: str
    engine: str
    files: int = 0
    spans: int = 0
    bytes: int = 0
    decided: TraceCount = NO_TRACES
    sampled: TraceCount = NO_TRACES
    dropped: TraceCount = NO_TRACES
    late: TraceCount = NO_TRACES
    revised: TraceCount = NO_TRACES
    taken: TraceCount = NO_TRACES
    open: int = 0
    policies: dict[str, TraceCount] = field(default_factory=dict)
    estimated_traces: float = 0.0
    snapshot: str = ""
    seconds: float = 0.0
    remarks: tuple[str, ...] = ()

    def as_document(self) -> dict[str, object]:
        """Return the result as a JSON document."""
        return asdict(self)


def build_cycle_result(  # noqa: PLR0913 - all but the first five by keyword
    selector: str,
    position: Checkpoint,
    new_files: NewFiles,
    began: float,
    tally: Tally,
    *,
    engine: str = "",
    idle: bool = False,
    snapshot: int | None = None,
    left: int = 0,
    remarks: tuple[str, ...] = (),
) -> CycleResult:
    """Build the result of a cycle that began at a time of the monotonic clock."""
    read = f"read all spans: {new_files.whole}" if new_files.whole else "read the spans since the last cycle"
    return CycleResult(
        selector=selector,
        source=position.source,
        cycle=position.cycle,
        committed=not idle,
        reason=IDLE if idle else read,
        engine=engine,
        files=len(new_files.files),
        spans=new_files.rows,
        bytes=new_files.bytes,
        open=left,
        **tally.result,
        snapshot=str(snapshot or ""),
        seconds=time.monotonic() - began,
        remarks=remarks,
    )
