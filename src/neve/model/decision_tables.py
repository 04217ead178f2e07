"""Tables of tail sampling: decisions about traces, and the traces that wait for one."""

import pyarrow as pa

from neve.model.columns import TIMESTAMP, Column, Table
from neve.model.signals import DECISIONS_TABLE, OPEN_TRACES_TABLE

TRACE_ORGANIZATION = Column("organization_id", pa.string(), "tenant that the trace belongs to", required=True)
TRACE_SELECTOR = Column("selector", pa.string(), "name of the selector", required=True)

# Summary of a trace's spans: enough to decide, and to continue when more spans arrive.
TRACE_SUMMARY = (
    Column("trace_id", pa.binary(), "16 bytes", required=True),
    Column("span_count", pa.int64(), "number of spans", required=True),
    Column("spans_bytes", pa.int64(), "approximate size as received; 0 if no policy needs it", required=True),
    Column("start_time_unix_nano", pa.int64(), "earliest start of a span", required=True),
    Column("end_time_unix_nano", pa.int64(), "latest end of a span", required=True),
    Column("first_seen", TIMESTAMP, "when the first span arrived, or ended, depending on the selector", required=True),
    Column("last_seen", TIMESTAMP, "when the last span arrived, or ended", required=True),
    Column("root_seen", TIMESTAMP, "when the root span arrived, or ended; null until then"),
    Column("has_error", pa.bool_(), "whether a span has the status error", required=True),
    Column("root_order", pa.int64(), "start of the root span, or 2^62 more than that of the first other one"),
    Column("service_name", pa.string(), "service of that span"),
    Column("operation_name", pa.string(), "operation of that span"),
    Column(
        "facts",
        pa.list_(pa.int64()),
        "conditions of policies that a span fulfils, one bit each, 63 per number; if a policy depends on the order of "
        "spans, followed by arrival, arrival_order, start and end of each span that extended the trace",
        required=True,
    ),
    Column("sampling_keys", pa.list_(pa.list_(pa.string())), "sampling keys of each policy with dynamic rates"),
    Column(
        "head_threshold",
        pa.int64(),
        "T of ot=th in the trace state; 0 if not sampled before",
        required=True,
    ),
    Column("randomness", pa.int64(), "R of ot=rv in the trace state; null if it is part of the trace id"),
)

DECISIONS = Table(
    name=DECISIONS_TABLE,
    comment="sampling decisions about traces, each with its reason; written by `neve tail run`",
    columns=(
        TRACE_ORGANIZATION,
        Column("decided_at", TIMESTAMP, "time of the decision", required=True),
        TRACE_SELECTOR,
        Column("decision", pa.string(), "sampled, not_sampled or dropped", required=True),
        Column("policy", pa.string(), "policy that made the decision; null if none did"),
        Column("reason", pa.string(), "reason, as text", required=True),
        Column("adjusted_count", pa.float64(), "number of traces that a sampled trace represents; 0 if not sampled"),
        Column("probability", pa.float64(), "probability that such a trace is sampled"),
        Column("threshold", pa.string(), "that probability in the form of ot=th in the trace state"),
        Column("revision", pa.int32(), "0 for the first decision about the trace; later ones count up", required=True),
        Column(
            "kind",
            pa.string(),
            "decided, late (more spans arrived) or revised (decided again)",
            required=True,
        ),
        Column("late_spans", pa.int64(), "spans that arrived after the previous decision", required=True),
        Column("taken_by", pa.string(), "selector that sampled the trace before; it is not exported again"),
        Column("ready_at", TIMESTAMP, "when the trace became ready for a decision", required=True),
        Column("ready_because", pa.string(), "inactive, max_duration, root_ended or memory", required=True),
        Column("duration_ms", pa.float64(), "latest end minus earliest start", required=True),
        *TRACE_SUMMARY,
        Column("source", pa.string(), "table with the spans", required=True),
        Column("source_snapshot_id", pa.int64(), "snapshot of that table that the decision is based on"),
        Column("previous_snapshot_id", pa.int64(), "snapshot that the selector read before"),
        Column("policies_hash", pa.string(), "SHA-256 of the policies", required=True),
        Column("cycle", pa.int64(), "number of the selector's cycle", required=True),
    ),
    partition=(("organization_id", "identity"), ("decided_at", "day")),
    sort=("trace_id",),
    bounded=("organization_id", "decided_at", "decision", "policy", "trace_id", "service_name", "cycle", "selector"),
)

OPEN_TRACES = Table(
    name=OPEN_TRACES_TABLE,
    comment="traces without a decision: state of `neve tail run` about the spans that it has read",
    columns=(TRACE_ORGANIZATION, TRACE_SELECTOR, *TRACE_SUMMARY),
    partition=(("organization_id", "identity"), ("selector", "identity")),
    sort=("trace_id",),
    bounded=("organization_id", "selector", "trace_id", "last_seen"),
)
