"""What becomes of traces: how many are kept, by which policies, and which errors are not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from neve.tail.decisions import DROPPED, NOT_SAMPLED, SAMPLED
from neve.tail.policy.tree import Drop
from neve.tail.simulate.report import ErrorGroup, Errors, PolicyVolume, Volume

if TYPE_CHECKING:
    from neve.tail.policy.tree import PolicySet
    from neve.tail.simulate.judged import Judged

MILLION = 1_000_000
GROUPS = 10
EXAMPLES = 3  # ids of each group


@dataclass(frozen=True)
class Scale:
    """What a span takes: bytes of the data files, and money."""

    bytes_per_span: float = 0.0
    price_per_million: float = 0.0

    def volume(self, traces: int, spans: int) -> Volume:
        """What so many spans take."""
        return Volume(traces, spans, round(spans * self.bytes_per_span), spans * self.price_per_million / MILLION)


def volumes(judged: Judged, scale: Scale) -> dict[str, Volume]:
    """How much there is of each decision."""
    rows = judged.ask(f"SELECT decision, count(*), sum(spans)::BIGINT FROM {judged.name} GROUP BY decision")
    found = {decision: scale.volume(traces, spans) for decision, traces, spans in rows}
    return {decision: found.get(decision, Volume()) for decision in (SAMPLED, NOT_SAMPLED, DROPPED)}


def policy_volumes(judged: Judged, policies: PolicySet) -> tuple[PolicyVolume, ...]:
    """What each policy decided, in the order in which they are asked; those that decided nothing too."""
    rows = judged.ask(
        f"SELECT policy, count(*), sum(spans)::BIGINT FROM {judged.name} WHERE policy IS NOT NULL GROUP BY policy"
    )
    found = {policy: (traces, spans) for policy, traces, spans in rows}
    return tuple(
        PolicyVolume(node.name, node.kind, DROPPED if isinstance(node, Drop) else SAMPLED, *found.get(node.name, ()))
        for node in policies.policies
    )


def errors(judged: Judged) -> Errors:
    """The traces with an error, and which of them are not kept."""
    ((traces, missed, dropped),) = judged.ask(
        f"SELECT count(*), count(*) FILTER (NOT kept), count(*) FILTER (decision = '{DROPPED}') "
        f"FROM {judged.name} WHERE has_error"
    )
    return Errors(traces, missed, dropped, error_groups(judged, f"{judged.name} WHERE has_error AND NOT kept"))


def error_groups(judged: Judged, rows: str) -> tuple[ErrorGroup, ...]:
    """The largest groups of some traces by the operation that they begin with; `rows` names them."""
    found = judged.ask(
        f"SELECT organization_id, service, operation, count(*) AS traces, min(lower(hex(trace_id)), {EXAMPLES}) "
        f"FROM {rows} GROUP BY ALL ORDER BY traces DESC, organization_id, service, operation LIMIT {GROUPS}"
    )
    return tuple(
        ErrorGroup(organization, service, operation, traces, tuple(ids))
        for organization, service, operation, traces, ids in found
    )
