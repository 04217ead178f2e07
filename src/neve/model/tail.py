"""The tables of tail sampling: what was decided about each trace, and what is known of those still open."""

import pyarrow as pa

from neve.model.columns import TIMESTAMP, Column, Table

ORGANIZATION = Column("organization_id", pa.string(), "tenant that the trace belongs to", required=True)
SELECTOR = Column("selector", pa.string(), "name of the selector", required=True)

# What remains of a trace's spans: enough to decide, and to go on when more of them come.
SUMMARY = (
    Column("trace_id", pa.binary(), "16 bytes", required=True),
    Column("span_count", pa.int64(), "spans that were seen", required=True),
    Column("spans_bytes", pa.int64(), "their size, about, as they came; 0 where no policy asks", required=True),
    Column("start_time_unix_nano", pa.int64(), "earliest start of a span", required=True),
    Column("end_time_unix_nano", pa.int64(), "latest end of a span", required=True),
    Column("first_seen", TIMESTAMP, "when the first span arrived, or ended, as the selector is set", required=True),
    Column("last_seen", TIMESTAMP, "when the last span arrived, or ended", required=True),
    Column("root_seen", TIMESTAMP, "when the root span arrived, or ended; null until then"),
    Column("has_error", pa.bool_(), "whether a span has the status error", required=True),
    Column("root_order", pa.int64(), "start of the root span, or 2^62 more than that of the first other one"),
    Column("service_name", pa.string(), "service of that span"),
    Column("operation_name", pa.string(), "operation of that span"),
    Column("facts", pa.list_(pa.int64()), "what policies ask of spans, a bit each, 63 in a number", required=True),
    Column("sampling_keys", pa.list_(pa.list_(pa.string())), "texts that dynamic rates go by, for each such policy"),
    Column("head_threshold", pa.int64(), "T of ot=th in the trace state; 0 where nobody sampled before", required=True),
    Column("randomness", pa.int64(), "R of ot=rv in the trace state; null where the id tells it"),
)

DECISIONS = Table(
    name="trace_decisions",
    comment="which traces were kept and which were not, each with its reason; made by `neve tail run`",
    columns=(
        ORGANIZATION,
        Column("decided_at", TIMESTAMP, "when it was decided", required=True),
        SELECTOR,
        Column("decision", pa.string(), "sampled, not_sampled or dropped", required=True),
        Column("policy", pa.string(), "the policy that decided; null where none did"),
        Column("reason", pa.string(), "why, in words", required=True),
        Column("adjusted_count", pa.float64(), "how many traces a kept one stands for; 0 for one that is not kept"),
        Column("probability", pa.float64(), "chance with which a trace like it is kept"),
        Column("threshold", pa.string(), "that chance as ot=th of the trace state has it"),
        Column("revision", pa.int32(), "0 for the first decision; counts those after it", required=True),
        Column(
            "kind", pa.string(), "decided, late (more spans of it came) or revised (they changed it)", required=True
        ),
        Column("late_spans", pa.int64(), "spans that came after the decision before this one", required=True),
        Column("taken_by", pa.string(), "selector that had kept the trace before; it is not exported again"),
        Column("ready_at", TIMESTAMP, "when the trace was ready", required=True),
        Column("ready_because", pa.string(), "inactive, max_duration, root_ended or memory", required=True),
        Column("duration_ms", pa.float64(), "latest end minus earliest start", required=True),
        *SUMMARY,
        Column("source", pa.string(), "table that the spans are in", required=True),
        Column("source_snapshot_id", pa.int64(), "snapshot of it that the decision was made from"),
        Column("previous_snapshot_id", pa.int64(), "snapshot that the selector had read before"),
        Column("policies_hash", pa.string(), "SHA-256 of the policies", required=True),
        Column("cycle", pa.int64(), "number of the selector's cycle", required=True),
    ),
    partition=(("organization_id", "identity"), ("decided_at", "day")),
    sort=("trace_id",),
    bounded=("organization_id", "decided_at", "decision", "policy", "trace_id", "service_name", "cycle", "selector"),
)

OPEN_TRACES = Table(
    name="open_traces",
    comment="traces that are not decided yet: what `neve tail run` needs of the spans that it has read",
    columns=(ORGANIZATION, SELECTOR, *SUMMARY),
    partition=(("organization_id", "identity"), ("selector", "identity")),
    sort=("trace_id",),
    bounded=("organization_id", "selector", "trace_id", "last_seen"),
)
