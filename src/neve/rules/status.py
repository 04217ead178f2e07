"""Status of rules in the state store: a copy of the last evaluation of each group, for the API and the commands.

The table `recorded` is the source. The copy is written after each commit: readers need no evaluating process.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from neve.model.signals import RULES_SPACE
from neve.promql.labels import make_labels
from neve.rules.alerts import AlertState
from neve.rules.notify.outgoing_alert import AddedLabels
from neve.rules.running.recorded_rows import list_rule_ids

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from neve.promql.labels import Labels
    from neve.rules.alerts import Alert
    from neve.rules.evaluation import RuleState
    from neve.rules.rule_file import Rule
    from neve.rules.running.recorded_rows import GroupKey, GroupResult
    from neve.state.documents import Documents

__all__ = ["AlertStatus", "GroupStatus", "RuleStatuses"]

_TIMES = ("active_at_ms", "fired_at_ms", "resolved_at_ms", "last_sent_at_ms", "keep_firing_since_ms")


@dataclass(frozen=True)
class AlertStatus:
    """Alert of a rule, from the document of its group."""

    document: Mapping[str, Any]
    rule: Mapping[str, Any]
    group: Mapping[str, Any]

    @property
    def labels(self) -> dict[str, str]:
        """Return the labels."""
        return dict(self.document["labels"])

    @property
    def state(self) -> str:
        """Return pending, firing or inactive."""
        return str(self.document["state"])

    @property
    def sent_labels(self) -> Labels:
        """Return the labels with which the alert is sent, by which silences match it."""
        known = self.group.get("added_labels", {"external": {}})
        return AddedLabels(**known).add_to(make_labels(self.labels), self.group["organization"])


@dataclass(frozen=True)
class GroupStatus:
    """Last evaluation of a group."""

    document: Mapping[str, Any]

    @property
    def alerts(self) -> Iterator[AlertStatus]:
        """Yield the alerts of all rules, with resolved ones."""
        for rule in self.document["rules"]:
            for one in rule["alerts"]:
                yield AlertStatus(one, rule, self.document)

    @property
    def errors(self) -> dict[str, str]:
        """Return the error of each rule that fails."""
        return {rule["name"]: rule["error"] for rule in self.document["rules"] if rule["error"]}


class RuleStatuses:
    """Documents of all groups. Readers name their organization."""

    def __init__(self, documents: Documents) -> None:
        self._documents = documents

    def publish(
        self,
        results: Iterable[GroupResult],
        cycle: int,
        snapshot_id: int | None,
        intervals: Mapping[GroupKey, int],
        added: AddedLabels | None = None,
    ) -> None:
        """Store the last evaluation of groups."""
        labels = {"added_labels": {"external": {}} if added is None else asdict(added)}
        for one in results:
            document = describe_evaluation(one, cycle, snapshot_id, intervals.get(one.key, 0)) | labels
            self._documents.put(RULES_SPACE, one.key.text, document)

    def remove_others(self, known: Collection[GroupKey]) -> None:
        """Remove groups that are no longer configured."""
        keys = {key.text for key in known}
        for name, _ in list(self._documents.entries(RULES_SPACE)):
            if name not in keys:
                self._documents.delete(RULES_SPACE, name)

    def of(self, organization: str) -> list[GroupStatus]:
        """Return the groups of an organization, by file and name."""
        return [GroupStatus(document) for _, document in self._documents.entries(RULES_SPACE, f"{organization}/")]

    def all(self) -> list[GroupStatus]:
        """Return the groups of all organizations, for the operator."""
        return [GroupStatus(document) for _, document in self._documents.entries(RULES_SPACE)]


def describe_evaluation(one: GroupResult, cycle: int, snapshot_id: int | None, interval_ms: int) -> dict[str, Any]:
    """Return the evaluation of a group as a document."""
    rules = zip(one.group.rules, list_rule_ids(one.group), one.results, strict=True)
    return {
        "organization": one.key.organization,
        "file": one.key.file,
        "name": one.key.name,
        "interval_ms": interval_ms,
        "limit": one.group.limit,
        "time_ms": one.time_ms,
        "seconds": round(one.seconds, 6),
        "cycle": cycle,
        # Snapshot ids have 64 bits, more than JavaScript's numbers.
        "snapshot_id": None if snapshot_id is None else str(snapshot_id),
        "source_snapshot_id": None if one.snapshot_id is None else str(one.snapshot_id),
        "rules": [_describe_rule(rule, rule_id, result.state) for rule, rule_id, result in rules],
    }


def _describe_rule(rule: Rule, rule_id: str, state: RuleState) -> dict[str, Any]:
    alerts = [_describe_alert(one) for one in state.alerts.values()]
    states = {one["state"] for one in alerts}
    order = (AlertState.FIRING.value, AlertState.PENDING.value, AlertState.INACTIVE.value)
    return {
        "name": rule.name,
        "id": rule_id,
        "kind": rule.kind,
        "expression": rule.expression,
        "hold_ms": rule.hold_ms,
        "keep_firing_ms": rule.keep_firing_ms,
        "labels": dict(rule.labels),
        "annotations": dict(rule.annotations),
        "state": next((one for one in order if one in states), order[-1]) if rule.is_alert else "",
        "series": len(state.series),
        "alerts": alerts,
        "error": state.error,
    }


def _describe_alert(alert: Alert) -> dict[str, Any]:
    return {
        "labels": dict(alert.labels),
        "annotations": dict(alert.annotations),
        "state": alert.state.value,
        "value": alert.value if math.isfinite(alert.value) else str(alert.value),
        **{name: getattr(alert, name) for name in _TIMES},
    }
