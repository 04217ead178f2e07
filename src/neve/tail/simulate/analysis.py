"""Analyze judged traces: volumes, missed errors, accuracy of estimates, and the difference between two policy sets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from neve.tail.decisions import DROPPED, NOT_SAMPLED, SAMPLED
from neve.tail.policy.tree import Drop
from neve.tail.simulate.report import (
    Comparison,
    DecisionPair,
    ErrorGroup,
    Errors,
    Estimate,
    Estimates,
    PolicyVolume,
    ServiceEstimate,
    TraceTotals,
    Volume,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neve.tail.policy.tree import PolicySet
    from neve.tail.simulate.report import Simulation
    from neve.tail.simulate.simulator import JudgedTraces


MILLION = 1_000_000
MAX_ERROR_GROUPS = 10
EXAMPLE_IDS = 3  # ids of each group


@dataclass(frozen=True)
class SpanCost:
    """Cost of a span: bytes of the data files, and money."""

    bytes_per_span: float = 0.0
    price_per_million: float = 0.0

    def volume(self, traces: int, spans: int) -> Volume:
        """Return the volume of a number of traces and spans."""
        return Volume(traces, spans, round(spans * self.bytes_per_span), spans * self.price_per_million / MILLION)


def compute_volumes(judged: JudgedTraces, cost: SpanCost) -> dict[str, Volume]:
    """Compute the volume of each decision."""
    rows = judged.query(f"SELECT decision, count(*), sum(spans)::BIGINT FROM {judged.name} GROUP BY decision")
    found = {decision: cost.volume(traces, spans) for decision, traces, spans in rows}
    return {decision: found.get(decision, Volume()) for decision in (SAMPLED, NOT_SAMPLED, DROPPED)}


def compute_policy_volumes(judged: JudgedTraces, policies: PolicySet) -> tuple[PolicyVolume, ...]:
    """Compute the volume of each policy's decisions in the order of evaluation, including policies without any."""
    rows = judged.query(
        f"SELECT policy, count(*), sum(spans)::BIGINT FROM {judged.name} WHERE policy IS NOT NULL GROUP BY policy"
    )
    found = {policy: (traces, spans) for policy, traces, spans in rows}
    return tuple(
        PolicyVolume(node.name, node.kind, DROPPED if isinstance(node, Drop) else SAMPLED, *found.get(node.name, ()))
        for node in policies.policies
    )


def compute_errors(judged: JudgedTraces) -> Errors:
    """Count the traces with an error, and find those that are not kept."""
    ((traces, missed, dropped),) = judged.query(
        f"SELECT count(*), count(*) FILTER (NOT kept), count(*) FILTER (decision = '{DROPPED}') "
        f"FROM {judged.name} WHERE has_error"
    )
    return Errors(traces, missed, dropped, find_error_groups(judged, f"{judged.name} WHERE has_error AND NOT kept"))


def find_error_groups(judged: JudgedTraces, rows: str) -> tuple[ErrorGroup, ...]:
    """Find the largest groups by root operation of the traces that `rows` selects."""
    found = judged.query(
        f"SELECT organization_id, service, operation, count(*) AS traces, min(lower(hex(trace_id)), {EXAMPLE_IDS}) "
        f"FROM {rows} GROUP BY ALL ORDER BY traces DESC, organization_id, service, operation LIMIT {MAX_ERROR_GROUPS}"
    )
    return tuple(
        ErrorGroup(organization, service, operation, traces, tuple(ids))
        for organization, service, operation, traces, ids in found
    )


QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
MAX_SERVICES = 100  # that are listed


def compute_estimates(judged: JudgedTraces) -> Estimates:
    """Compute actual values, and their estimates from the sample."""
    ((truth, estimated, true_errors, errors),) = judged.query(
        "SELECT coalesce(sum(weight), 0), coalesce(sum(adjusted), 0), coalesce(sum(weight) FILTER (has_error), 0), "
        f"coalesce(sum(adjusted) FILTER (has_error), 0) FROM {judged.name}"
    )
    services, left, mean_error = _estimate_services(judged)
    return Estimates(
        traces=Estimate(truth, estimated),
        error_rate=Estimate(true_errors / truth if truth else 0.0, errors / estimated if estimated else None),
        latency_ms=_estimate_latencies(judged),
        services=services,
        services_left=left,
        mean_error=mean_error,
    )


def _estimate_services(judged: JudgedTraces) -> tuple[tuple[ServiceEstimate, ...], int, float | None]:
    """Return the services with the most traces, the number of other services, and the error over all."""
    by_service = (
        "SELECT organization_id, service, count(*) AS traces, count(*) FILTER (kept) AS kept, "
        f"sum(weight) AS truth, sum(adjusted) AS estimated FROM {judged.name} GROUP BY organization_id, service"
    )
    ((count, mean_error),) = judged.query(
        f"SELECT count(*), sum(abs(estimated - truth)) / sum(truth) FROM ({by_service})"
    )
    rows = judged.query(f"{by_service} ORDER BY traces DESC, organization_id, service LIMIT {MAX_SERVICES}")
    listed = tuple(
        ServiceEstimate(organization, service, traces, kept, Estimate(truth, estimated))
        for organization, service, traces, kept, truth, estimated in rows
    )
    return listed, count - len(listed), mean_error


def _estimate_latencies(judged: JudgedTraces) -> dict[str, Estimate]:
    """Estimate the latency quantiles, each as the smallest latency that covers its share of all traces."""
    within = "OVER (ORDER BY duration_ms)"
    running = (
        f"SELECT duration_ms, sum(sum(weight)) {within} AS truth, sum(sum(adjusted)) {within} AS estimated, "
        f"sum(sum(weight)) OVER () AS all_truth, sum(sum(adjusted)) OVER () AS all_estimated "
        f"FROM {judged.name} GROUP BY duration_ms"
    )
    columns = ", ".join(
        f"min(duration_ms) FILTER (truth >= {quantile} * all_truth), "
        f"min(duration_ms) FILTER (all_estimated > 0 AND estimated >= {quantile} * all_estimated)"
        for quantile in QUANTILES.values()
    )
    (row,) = judged.query(f"SELECT {columns} FROM ({running})")
    pairs = zip(row[::2], row[1::2], strict=True)
    return {name: Estimate(truth or 0.0, estimated) for name, (truth, estimated) in zip(QUANTILES, pairs, strict=True)}


BOTH, NEW, OLD, NEITHER = "both", "new", "old", "neither"
JOINED_TRACES = "together"


def compare_simulations(
    new: tuple[Simulation, JudgedTraces], old: tuple[Simulation, JudgedTraces], cost: SpanCost
) -> Comparison:
    """Compare two simulations of one snapshot, over the traces that both have judged."""
    (new_simulation, new_judged), (old_simulation, old_judged) = new, old
    _join_judged(new_judged, old_judged)
    pairs = _count_pairs(new_judged)
    outcomes = {outcome: _sum_pairs(pairs, outcome) for outcome in (BOTH, NEW, OLD, NEITHER)}
    compared = sum(pair.traces for pair in pairs)
    more, fewer = (cost.volume(outcomes[outcome].traces, outcomes[outcome].spans) for outcome in (NEW, OLD))
    return Comparison(
        new=new_simulation,
        old=old_simulation,
        compared=compared,
        left_out=new_simulation.before.traces + old_simulation.before.traces - 2 * compared,
        both=outcomes[BOTH],
        only_new=outcomes[NEW],
        only_old=outcomes[OLD],
        neither=outcomes[NEITHER],
        moves=pairs,
        difference=_subtract_volumes(more, fewer),
        errors_gained=_find_errors_kept_by(new_judged, NEW),
        errors_lost=_find_errors_kept_by(new_judged, OLD),
    )


def _join_judged(new: JudgedTraces, old: JudgedTraces) -> None:
    """Join the traces that both have judged, with both decisions."""
    outcome = (
        f"CASE WHEN n.kept AND o.kept THEN '{BOTH}' WHEN n.kept THEN '{NEW}' "
        f"WHEN o.kept THEN '{OLD}' ELSE '{NEITHER}' END"
    )
    new.connection.execute(
        f"CREATE TABLE {JOINED_TRACES} AS SELECT {outcome} AS kept_by, n.decision AS new_decision, "
        "n.policy AS new_policy, o.decision AS old_decision, o.policy AS old_policy, "
        "n.organization_id, n.trace_id, n.spans, n.has_error, "
        f"n.service, n.operation FROM {new.name} AS n JOIN {old.name} AS o USING (organization_id, trace_id)"
    )


def _count_pairs(judged: JudgedTraces) -> tuple[DecisionPair, ...]:
    rows = judged.query(
        "SELECT kept_by, new_decision, new_policy, old_decision, old_policy, count(*) AS traces, "
        f"sum(spans)::BIGINT, count(*) FILTER (has_error) FROM {JOINED_TRACES} GROUP BY ALL "
        "ORDER BY traces DESC, kept_by, new_decision, new_policy, old_decision, old_policy"
    )
    return tuple(DecisionPair(*row) for row in rows)


def _sum_pairs(pairs: Sequence[DecisionPair], outcome: str) -> TraceTotals:
    mine = [pair for pair in pairs if pair.kept_by == outcome]
    return TraceTotals(*(sum(getattr(pair, name) for pair in mine) for name in ("traces", "spans", "errors")))


def _find_errors_kept_by(judged: JudgedTraces, outcome: str) -> tuple[ErrorGroup, ...]:
    return find_error_groups(judged, f"{JOINED_TRACES} WHERE has_error AND kept_by = '{outcome}'")


def _subtract_volumes(more: Volume, fewer: Volume) -> Volume:
    return Volume(
        more.traces - fewer.traces, more.spans - fewer.spans, more.bytes - fewer.bytes, more.cost - fewer.cost
    )
