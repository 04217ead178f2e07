"""Rows of `trace_decisions` and `open_traces`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from neve.model.columns import TIMESTAMP
from neve.model.tail import DECISIONS, OPEN_TRACES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neve.tail.policy.traces import Doubles
    from neve.tail.summary import Summary

DECIDED, LATE, REVISED = "decided", "late", "revised"
SAMPLED, NOT_SAMPLED, DROPPED = "sampled", "not_sampled", "dropped"
NANOS_PER_MS = 1_000_000


@dataclass(frozen=True)
class Made:
    """What all decisions of a cycle have in common."""

    selector: str
    source: str
    snapshot_id: int | None
    since: int | None
    policies: str
    cycle: int
    now_us: int


@dataclass(frozen=True)
class Outcome:
    """What was decided about some traces: a value for each."""

    decision: pa.StringArray
    policy: pa.StringArray
    reason: pa.StringArray
    probability: Doubles
    threshold: pa.StringArray
    taken_by: pa.StringArray
    kind: pa.StringArray
    revision: pa.Int32Array
    late_spans: pa.Int64Array
    policies: pa.StringArray | None = None  # the hash of those that decided, where it is not that of the cycle


def decision_rows(rows: pa.Table, summary: Summary, made: Made, outcome: Outcome) -> pa.Table:
    """The rows of the table of decisions."""
    count = rows.num_rows
    kept = np.asarray(pc.equal(outcome.decision, SAMPLED))
    adjusted = np.where(kept, 1 / np.where(kept, outcome.probability, 1), 0.0)
    nanos = pc.subtract(rows.column("end_ns"), rows.column("start_ns"))
    columns = {
        "decided_at": times(_all(made.now_us, count, pa.int64())),
        "selector": _all(made.selector, count),
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
        "ready_at": times(rows.column("ready_us")),
        "ready_because": rows.column("ready_because"),
        "duration_ms": pc.divide(pc.cast(nanos, pa.float64(), safe=False), float(NANOS_PER_MS)),
        **_summary_columns(rows, summary),
        "source": _all(made.source, count),
        "source_snapshot_id": _all(made.snapshot_id, count, pa.int64()),
        "previous_snapshot_id": _all(made.since, count, pa.int64()),
        "policies_hash": _all(made.policies, count) if outcome.policies is None else outcome.policies,
        "cycle": _all(made.cycle, count, pa.int64()),
    }
    return pa.table(columns).select(DECISIONS.schema.names).cast(DECISIONS.schema)


def open_rows(rows: pa.Table, summary: Summary, selector: str) -> pa.Table:
    """The rows of the table of open traces."""
    columns = {"selector": _all(selector, rows.num_rows), **_summary_columns(rows, summary)}
    return pa.table(columns).select(OPEN_TRACES.schema.names).cast(OPEN_TRACES.schema)


def _summary_columns(rows: pa.Table, summary: Summary) -> dict[str, pa.ChunkedArray]:
    root = rows.column("root").combine_chunks()
    root = pa.concat_arrays(root.chunks) if isinstance(root, pa.ChunkedArray) else root
    return {
        "organization_id": rows.column("organization_id"),
        "trace_id": rows.column("trace_id"),
        "span_count": rows.column("span_count"),
        "spans_bytes": rows.column("spans_bytes"),
        "start_time_unix_nano": rows.column("start_ns"),
        "end_time_unix_nano": rows.column("end_ns"),
        "first_seen": times(rows.column("first_us")),
        "last_seen": times(rows.column("last_us")),
        "root_seen": times(rows.column("root_us")),
        "has_error": rows.column("has_error"),
        "root_order": root.field("place"),
        "service_name": root.field("service"),
        "operation_name": root.field("operation"),
        "facts": _lists([rows.column(f"facts_{word}") for word in range(summary.words)], rows.num_rows, pa.int64()),
        "sampling_keys": _lists(
            [rows.column(f"key_{place}") for place in range(len(summary.policies.keys))],
            rows.num_rows,
            pa.list_(pa.string()),
        ),
        "head_threshold": rows.column("head_threshold"),
        "randomness": rows.column("randomness"),
    }


def times(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Microseconds as times."""
    return pc.cast(pc.cast(column, pa.int64()), TIMESTAMP)


def _all(value: object, count: int, kind: pa.DataType | None = None) -> pa.Array:
    return pa.repeat(pa.scalar(value, kind or pa.string()), count)


def _lists(columns: Sequence[pa.ChunkedArray], count: int, kind: pa.DataType) -> pa.ListArray:
    """One list a row, with the values of some columns."""
    width = len(columns)
    offsets = pa.array(np.arange(count + 1, dtype=np.int32) * width)
    if not width:
        return pa.ListArray.from_arrays(offsets, pa.array([], kind))
    joined = pa.concat_arrays([pc.cast(chunk, kind) for column in columns for chunk in column.chunks])
    order = np.arange(count * width).reshape(width, count).T.reshape(-1)
    return pa.ListArray.from_arrays(offsets, joined.take(pa.array(order)))
