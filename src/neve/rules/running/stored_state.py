"""State of rules in the table `recorded`: positions in snapshot summaries, states and notifications in rows.

A cycle commits samples, alerts and its position at once, so that another process continues where this one was killed.
The position has the oldest time that is still needed, so that a start reads few files.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from neve.errors import CommitConflict
from neve.lake.calendar import EPOCH
from neve.lake.read.positions import StoredPosition
from neve.lake.time_ranges import moment_of
from neve.promql.labels import Labels, make_labels
from neve.promql.language.syntax import METRIC_NAME
from neve.rules.alerts import Alert, AlertState, Notification
from neve.rules.evaluation import RuleState
from neve.rules.running.recorded_rows import REPEATED, GroupKey, list_rule_ids

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from datetime import datetime

    import pyarrow as pa
    from pyiceberg.table import Table

    from neve.rules.rule_file import Group

__all__ = ["STREAM_NAME", "GroupState", "RulesPosition", "load_groups", "load_notifications", "require_cycle"]

STREAM_NAME = "rules"
TIMES_AT_ONCE = 100
MARGIN_MS = 86_400_000  # samples are earlier than their evaluation by the offset of their group


@dataclass(frozen=True)
class RulesPosition(StoredPosition):
    """Position after a cycle: its number, and the oldest evaluation that has a current state.

    Late data up to `corrected_snapshot_id` of `metrics` has corrected recorded values.
    """

    cycle: int = 0
    since_ms: int = 0
    corrected_snapshot_id: int | None = None


@dataclass(frozen=True)
class GroupState:
    """State of a group after its last evaluation. `state_times` is the evaluation that a rule's state is from."""

    time_ms: int
    states: tuple[RuleState, ...]
    state_times: Mapping[str, int] = field(default_factory=dict)


def require_cycle(cycle: int) -> Callable[[Table], None]:
    """Return a guard that rejects a commit if another process has committed a cycle since."""

    def check(table: Table) -> None:
        found = RulesPosition.load(table, STREAM_NAME) or RulesPosition()
        if found.cycle != cycle:
            raise CommitConflict(
                f"another process evaluated the rules: the last cycle is {found.cycle}, expected {cycle}",
                hint="the state is loaded again",
            )

    return check


def load_groups(table: Table, position: RulesPosition, groups: Mapping[GroupKey, Group]) -> dict[GroupKey, GroupState]:
    """Return the state of each group that was evaluated before. Rules that are new or renamed have an empty one."""
    last = _load_last_evaluations(table, position)
    wanted = {key: row for key, row in last.items() if key in groups}
    times = {at for row in wanted.values() for at in (row["time_ms"], *row["state_times"].values())}
    rows = _load_rule_rows(table, times)
    found = {}
    for key, row in wanted.items():
        ids = list_rule_ids(groups[key])
        at = {rule_id: row["state_times"].get(rule_id, row["time_ms"]) for rule_id in ids}
        states = [_build_state(rows.get((key, one, at[one]), ()), at[one], row["failures"].get(one, "")) for one in ids]
        older = {rule_id: time for rule_id, time in row["state_times"].items() if rule_id in at}
        found[key] = GroupState(row["time_ms"], tuple(states), older)
    return found


def load_notifications(
    table: Table, after_cycle: int, groups: Mapping[GroupKey, Group], valid_ms: Callable[[Group], int]
) -> list[tuple[GroupKey, int, int, Notification]]:
    """Return the notifications of the cycles after one, oldest first, with their group, cycle and time.

    `valid_ms` is the time that a firing alert of a group is valid after it was sent.
    """
    wanted = f"notification is not null and cycle > {after_cycle}"
    found = []
    for row in sorted(_read(table, wanted), key=lambda row: row["cycle"]):
        key = _key(row)
        group = groups.get(key)
        if group is None:
            continue
        expressions = dict(zip(list_rule_ids(group), (rule.expression for rule in group.rules), strict=True))
        alert = _build_alert(row)
        ends = alert.resolved_at_ms
        note = Notification(
            alert.labels,
            alert.annotations,
            alert.active_at_ms if alert.fired_at_ms is None else alert.fired_at_ms,
            _millis(row["evaluated_at"]) + valid_ms(group) if ends is None else ends,
            ends is not None,
            expressions.get(row["rule_id"], ""),
            row["notification"] == REPEATED,
        )
        found.append((key, row["cycle"], _millis(row["evaluated_at"]), note))
    return found


def _load_last_evaluations(table: Table, position: RulesPosition) -> dict[GroupKey, dict[str, Any]]:
    wanted = f"rule_id is null and metric_name is null and timestamp >= {_literal(position.since_ms)}"
    found: dict[GroupKey, dict[str, Any]] = {}
    for row in _read(table, wanted):
        key, time_ms = _key(row), _millis(row["evaluated_at"])
        if key not in found or found[key]["time_ms"] < time_ms:
            older = {rule_id: int(at) for rule_id, at in dict(row["state_times"] or ()).items()}
            found[key] = {"time_ms": time_ms, "state_times": older, "failures": dict(row["failures"] or ())}
    return found


def _load_rule_rows(table: Table, times: set[int]) -> dict[tuple[GroupKey, str, int], list[dict[str, Any]]]:
    found: dict[tuple[GroupKey, str, int], list[dict[str, Any]]] = {}
    ordered = sorted(times)
    for some in (ordered[first : first + TIMES_AT_ONCE] for first in range(0, len(ordered), TIMES_AT_ONCE)):
        evaluated = ", ".join(map(_literal, some))
        since = _literal(some[0] - MARGIN_MS)
        wanted = f"rule_id is not null and evaluated_at in ({evaluated}) and timestamp >= {since}"
        for row in _read(table, wanted):
            found.setdefault((_key(row), row["rule_id"], _millis(row["evaluated_at"])), []).append(row)
    return found


def _literal(time_ms: int) -> str:
    return f"'{moment_of(time_ms * 1000).isoformat()}'"


def _read(table: Table, wanted: str) -> Iterator[dict[str, Any]]:
    rows: pa.Table = table.scan(row_filter=wanted).to_arrow()
    for batch in rows.to_batches(max_chunksize=8192):
        yield from batch.to_pylist()


def _key(row: Mapping[str, Any]) -> GroupKey:
    return GroupKey(row["organization_id"], row["rule_file"], row["rule_group"])


def _build_state(rows: Sequence[Mapping[str, Any]], time_ms: int, error: str) -> RuleState:
    alerts = [_build_alert(row) for row in rows if row["alert_state"] is not None]
    series = frozenset(
        make_labels({**dict(row["labels"] or ()), METRIC_NAME: row["metric_name"]})
        for row in rows
        if row["metric_name"] is not None and row["value"] is not None
    )
    return RuleState({one.labels: one for one in alerts}, series, time_ms, error)


def _build_alert(row: Mapping[str, Any]) -> Alert:
    times = (row[name] for name in ("fired_at", "resolved_at", "last_sent_at", "keep_firing_since"))
    return Alert(
        make_labels(dict(row["labels"] or ())),
        _sorted_pairs(row["annotations"]),
        row["alert_value"],
        AlertState(row["alert_state"]),
        _millis(row["active_at"]),
        *(None if at is None else _millis(at) for at in times),
    )


def _sorted_pairs(pairs: Any) -> Labels:
    return tuple(sorted(dict(pairs or ()).items()))


def _millis(moment: datetime) -> int:
    return round((moment - EPOCH).total_seconds() * 1000)
