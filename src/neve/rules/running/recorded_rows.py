"""Rows of the table `recorded` from the results of an evaluation: samples, alerts, and one row for each group."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import xxhash

from neve.lake.calendar import EPOCH
from neve.model.recorded import RECORDED
from neve.promql.labels import get, without
from neve.promql.language.syntax import METRIC_NAME
from neve.rules.running.group_documents import is_stale_mark

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from neve.rules.alerts import Alert, Notification
    from neve.rules.evaluation import RecordedSample, RuleResult
    from neve.rules.rule_file import Group, Rule

__all__ = ["FIRING", "REPEATED", "RESOLVED", "GroupKey", "GroupResult", "build_rows", "build_samples", "list_rule_ids"]

FIRING, RESOLVED, REPEATED = "firing", "resolved", "repeated"


@dataclass(frozen=True, slots=True, order=True)
class GroupKey:
    """Identity of a group in the lake."""

    organization: str
    file: str
    name: str

    @property
    def text(self) -> str:
        """Return the key of its document in the state store."""
        return f"{self.organization}/{self.file};{self.name}"


@dataclass(frozen=True)
class GroupResult:
    """Results of one evaluation of a group. `state_times` is the evaluation that has the state of each failed rule.

    `snapshot_id` is the snapshot of `metrics` that was current before the evaluation.
    """

    key: GroupKey
    group: Group
    time_ms: int
    results: Sequence[RuleResult]
    snapshot_id: int | None = None
    state_times: Mapping[str, int] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def failures(self) -> dict[str, str]:
        """Return the errors of its rules, by their id."""
        pairs = zip(list_rule_ids(self.group), self.results, strict=True)
        return {rule_id: result.state.error for rule_id, result in pairs if result.state.error}


def list_rule_ids(group: Group) -> list[str]:
    """Return an id for each rule: a hash of kind, name and labels, by which a changed file keeps its states.

    Equal rules get a number each.
    """
    seen: Counter[str] = Counter()
    found = []
    for rule in group.rules:
        digest = xxhash.xxh64_hexdigest(repr((rule.is_alert, rule.name, rule.labels)).encode(errors="replace"))
        found.append(f"{digest}-{seen[digest]}" if seen[digest] else digest)
        seen[digest] += 1
    return found


def build_rows(results: Iterable[GroupResult], cycle: int) -> pa.Table:
    """Return the rows of a commit."""
    rows = [row for one in results for row in _list_rows(one, cycle)]
    return pa.Table.from_pylist(rows, RECORDED.schema)


def _list_rows(one: GroupResult, cycle: int) -> Iterator[dict[str, Any]]:
    shared = _shared_columns(one.key, one.time_ms, cycle)
    state_times = {rule_id: str(at) for rule_id, at in one.state_times.items()}
    yield {
        **shared,
        "timestamp": _moment(one.time_ms),
        "failures": one.failures,
        "state_times": state_times,
        "source_snapshot_id": one.snapshot_id,
    }
    for rule, rule_id, result in zip(one.group.rules, list_rule_ids(one.group), one.results, strict=True):
        if result.state.error:
            continue  # nothing changed: the state is that of an earlier evaluation
        named = {**shared, "rule_name": rule.name, "rule_id": rule_id}
        yield from (_sample_row(named, sample) for sample in result.samples)
        sent = {notification.labels: notification for notification in result.notifications}
        for labels, alert in result.state.alerts.items():
            yield _alert_row(named, alert, sent.get(labels), one.time_ms)


def build_samples(
    key: GroupKey, rule: Rule, rule_id: str, samples: Iterable[RecordedSample], cycle: int, offset_ms: int
) -> pa.Table:
    """Return the rows of corrected samples of one rule. `offset_ms` is the query offset of its group."""
    rows = []
    for sample in samples:
        shared = _shared_columns(key, sample.time_ms + offset_ms, cycle)
        rows.append(_sample_row({**shared, "rule_name": rule.name, "rule_id": rule_id}, sample))
    return pa.Table.from_pylist(rows, RECORDED.schema)


def _shared_columns(key: GroupKey, time_ms: int, cycle: int) -> dict[str, Any]:
    return {
        "organization_id": key.organization,
        "rule_group": key.name,
        "rule_file": key.file,
        "evaluated_at": _moment(time_ms),
        "cycle": cycle,
    }


def _sample_row(shared: Mapping[str, Any], sample: RecordedSample) -> dict[str, Any]:
    return {
        **shared,
        "timestamp": _moment(sample.time_ms),
        "metric_name": get(sample.labels, METRIC_NAME),
        "value": None if is_stale_mark(sample.value) else sample.value,
        "labels": dict(without(sample.labels, {METRIC_NAME})),
    }


def _alert_row(
    shared: Mapping[str, Any], alert: Alert, notification: Notification | None, time_ms: int
) -> dict[str, Any]:
    return {
        **shared,
        "timestamp": _moment(time_ms),
        "labels": dict(alert.labels),
        "alert_state": alert.state.value,
        "alert_value": alert.value,
        "active_at": _moment(alert.active_at_ms),
        "fired_at": _moment(alert.fired_at_ms),
        "resolved_at": _moment(alert.resolved_at_ms),
        "last_sent_at": _moment(alert.last_sent_at_ms),
        "keep_firing_since": _moment(alert.keep_firing_since_ms),
        "annotations": dict(alert.annotations),
        "notification": None if notification is None else describe_kind(notification),
    }


def describe_kind(notification: Notification) -> str:
    """Return the reason why an alert is sent."""
    if notification.is_repeated:
        return REPEATED
    return RESOLVED if notification.is_resolved else FIRING


def _moment(time_ms: int | None) -> datetime | None:
    return None if time_ms is None else EPOCH + timedelta(milliseconds=time_ms)
