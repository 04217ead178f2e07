"""Result of a cycle: its numbers, the evaluated groups, and the alerts to send."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from neve.rules import metrics
from neve.rules.alerts import AlertState

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from neve.rules.alerts import Notification
    from neve.rules.running.recorded_rows import GroupKey, GroupResult
    from neve.rules.running.stored_state import GroupState

__all__ = ["CycleResult", "SentAlert", "count_cycle", "summarize_cycle"]


@dataclass(frozen=True)
class SentAlert:
    """Notification of a cycle, with its group and the time of the evaluation."""

    key: GroupKey
    cycle: int
    time_ms: int
    notification: Notification


@dataclass(frozen=True)
class CycleResult:
    """Result of a cycle. Without due groups nothing was committed."""

    cycle: int
    groups: int = 0
    rules: int = 0
    failed: int = 0
    samples: int = 0
    firing: int = 0
    pending: int = 0
    lag_seconds: float = 0.0
    seconds: float = 0.0
    snapshot_id: int | None = None
    results: tuple[GroupResult, ...] = field(default=(), repr=False)
    sent: tuple[SentAlert, ...] = field(default=(), repr=False)

    def as_document(self) -> dict[str, Any]:
        """Return the numbers as JSON values."""
        names = ("cycle", "groups", "rules", "failed", "samples", "firing", "pending", "lag_seconds", "seconds")
        return {**{name: getattr(self, name) for name in names}, "notifications": len(self.sent)}


def summarize_cycle(
    results: Sequence[GroupResult], groups: Mapping[GroupKey, GroupState], cycle: int, snapshot_id: int
) -> CycleResult:
    """Return the numbers of a cycle. `groups` are the states of all groups after it."""
    states = [alert.state for one in groups.values() for state in one.states for alert in state.alerts.values()]
    rules = [result for one in results for result in one.results]
    sent = [
        SentAlert(one.key, cycle, one.time_ms, note)
        for one in results
        for result in one.results
        for note in result.notifications
    ]
    return CycleResult(
        cycle,
        groups=len(results),
        rules=len(rules),
        failed=sum(bool(result.state.error) for result in rules),
        samples=sum(len(result.samples) for result in rules),
        firing=states.count(AlertState.FIRING),
        pending=states.count(AlertState.PENDING),
        snapshot_id=snapshot_id,
        results=tuple(results),
        sent=tuple(sent),
    )


def count_cycle(result: CycleResult) -> None:
    """Count a cycle in the metrics."""
    metrics.EVALUATIONS.labels("done").inc(result.rules - result.failed)
    metrics.EVALUATIONS.labels("failed").inc(result.failed)
    metrics.SAMPLES.inc(result.samples)
    metrics.ALERTS.labels("firing").set(result.firing)
    metrics.ALERTS.labels("pending").set(result.pending)
    metrics.LAG.set(result.lag_seconds)
    metrics.CYCLE_SECONDS.observe(result.seconds)
