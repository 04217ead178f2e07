"""A proposal to test with, and layouts of all kinds."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import strategies as st

from neve.autopilot.layout import Layout, PartField, Promoted
from neve.autopilot.propose.proposal import CanaryLine, Proposal, Reduction, RejectedCandidate, make_proposal_id

TABLE = "telemetry.spans"
BEFORE = Layout(partition=(PartField("organization_id", "identity"), PartField("time", "day")), sort=("trace_id",))
AFTER = Layout(partition=BEFORE.partition, zorder=("service_name", "time"), blooms=("trace_id",))
OTHER = Layout(partition=BEFORE.partition, sort=("service_name",))
LITERAL = "customer-4711"
PROPOSAL = Proposal(
    id=make_proposal_id(TABLE, BEFORE, AFTER),
    table=TABLE,
    kind="zorder",
    before=BEFORE,
    after=AFTER,
    created=datetime(2026, 1, 31, 2, tzinfo=UTC),
    table_bytes=5 * 1024**3,
    estimate=Reduction(62.0, 55.5, 70.0),
    measured=Reduction(60.0, 57.0, 63.0),
    cost_seconds=90,
    cost_dollars=0.42,
    payback_days=3.5,
    rollback_command="neve autopilot rollback telemetry.spans --attempt a1",
    canary=(
        CanaryLine("f00d", True, 900, 300, 1.5, 0.5, "SELECT a|b FROM t WHERE c = ?", f"SELECT '{LITERAL}'"),
        CanaryLine("beef", True, 4096, 2048, 0.2, 0.1),
    ),
    reasons=("service_name is filtered in 61 % of the queries",),
    rejected=(RejectedCandidate("sorted by name", "only 12 % less to scan"),),
)

names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
fields = st.builds(PartField, names, st.sampled_from(["identity", "day", "bucket[16]", "truncate[4]"]))
columns = st.lists(names, max_size=3).map(tuple)
_promoted = st.lists(st.builds(Promoted, names, names), max_size=2).map(tuple)
orders: st.SearchStrategy[dict[str, tuple[str, ...]]] = st.one_of(
    st.just({}), columns.map(lambda found: {"sort": found}), columns.map(lambda found: {"zorder": found})
)
layouts = st.builds(
    lambda partition, order, promoted, blooms, target: Layout(
        partition=partition, promoted=promoted, blooms=blooms, target_file_bytes=target, **order
    ),
    st.lists(fields, max_size=3).map(tuple),
    orders,
    _promoted,
    columns,
    st.none() | st.integers(1, 2**60),
)
