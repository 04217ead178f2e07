"""The corrector: recompute recorded values that late data changes, and replace their rows.

    new commits of metrics ──► touched times ──► affected evaluations ──► range queries ──► replaced rows

Alerts are decisions that were sent: their history stays. Values that did not change are not written again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions.parser import parse as parse_filter

from neve.errors import CommitConflict, QueryError
from neve.lake.commit.append import append_once
from neve.lake.read.data_file_reader import DataFileReader
from neve.lake.read.incremental import TouchedWindows, find_touched_windows
from neve.lake.read.positions import find_changes
from neve.lake.read.snapshot_files import scan_files
from neve.lake.time_ranges import EVERYTHING, moment_of
from neve.lake.write.table_writer import Target, write_files
from neve.logger import get_logger
from neve.promql.labels import make_labels
from neve.promql.language.syntax import METRIC_NAME
from neve.promql.series import STALE
from neve.rules.evaluation import RecordedSample
from neve.rules.running.group_documents import is_stale_mark
from neve.rules.running.late_data import add_stale_marks, differ, find_reach, list_affected_steps
from neve.rules.running.recorded_rows import GroupKey, build_samples, list_rule_ids
from neve.rules.running.stored_state import STREAM_NAME, RulesPosition, require_cycle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import FileScanTask, Table

    from neve.promql.labels import Labels
    from neve.rules.rule_file import Group, Rule
    from neve.rules.running.late_data import Samples

__all__ = ["Correction", "Corrector", "RangeRequest"]

OPERATION_NAME = "rules-correction"
SECOND_MICROS = 1_000_000
MAX_STEPS = 2000  # of one correction; the first ones of a longer range stay as they are

log = get_logger("neve.rules")


@dataclass(frozen=True)
class RangeRequest:
    """Evaluation of a group's recording rules at many times."""

    organization: str
    group: Group
    start_ms: int
    end_ms: int
    step_ms: int


@dataclass(frozen=True)
class Correction:
    """Correction of one group: changed samples, and the series of each rule at the last step."""

    key: GroupKey
    changed: int
    last_ms: int
    series: Mapping[str, frozenset[Labels]]


@dataclass(frozen=True)
class Corrector:
    """Correction of recorded values. `evaluate` returns the samples of each rule, or `None` without a result."""

    recorded: Table
    metrics: Table
    groups: Mapping[GroupKey, Group]
    evaluate: Callable[[RangeRequest], Sequence[Sequence[Any] | None]]
    interval_ms: Callable[[Group], int]
    late_ms: int

    def find_touched(self, since: int | None) -> TouchedWindows:
        """Return the times that commits after a snapshot touched. If they are unknown, all of them."""
        changes = find_changes(self.metrics, since)
        if changes.gap:
            return TouchedWindows(everyone=EVERYTHING)
        return find_touched_windows(self.metrics, changes.snapshots, SECOND_MICROS)

    def correct(
        self, touched: TouchedWindows, last: Mapping[GroupKey, int], position: RulesPosition, check: Callable[[], None]
    ) -> list[Correction]:
        """Correct the groups that read each other's results in the order of their dependence.

        `last` is the last evaluation of each group. `check` raises if this process may not commit any more.
        """
        found = []
        for key in self._order_groups():
            group = self.groups[key]
            if key not in last or all(rule.is_alert for rule in group.rules):
                continue
            steps = self._find_steps(key, group, touched, last[key])
            if steps:
                try:
                    found.append(self._correct_group(key, group, steps, position, check))
                except QueryError as error:
                    log.warning("recorded values not corrected", group=key.name, error=error.message)
        return found

    def _recorded_rules(self, organization: str) -> dict[str, Rule]:
        return {
            rule.name: rule
            for key, group in self.groups.items()
            if key.organization == organization
            for rule in group.rules
            if not rule.is_alert
        }

    def _order_groups(self) -> list[GroupKey]:
        """Return the groups, those with the shortest reach first: a rule reaches farther than those that it reads."""
        return sorted(self.groups, key=lambda key: self._reach(key, self.groups[key]))

    def _reach(self, key: GroupKey, group: Group) -> int:
        known = self._recorded_rules(key.organization)
        return max((find_reach(rule, known) for rule in group.rules if not rule.is_alert), default=0)

    def _find_steps(self, key: GroupKey, group: Group, touched: TouchedWindows, last_ms: int) -> range:
        step = self.interval_ms(group)
        ranges = touched.of(key.organization)
        steps = list_affected_steps(ranges, self._reach(key, group), step, last_ms - self.late_ms, last_ms)
        return steps[-MAX_STEPS:]

    def _correct_group(
        self, key: GroupKey, group: Group, steps: range, position: RulesPosition, check: Callable[[], None]
    ) -> Correction:
        offset = group.query_offset_ms
        asked = range(steps[0] - offset, steps[-1] - offset + 1, steps.step)
        results = self.evaluate(RangeRequest(key.organization, group, asked[0], asked[-1], asked.step))
        tasks = self._scan(key.organization, asked)
        rows = {task.file.file_path: self._read(task) for task in tasks}
        stored = _collect(rows.values(), key)
        changes = [
            _compare(rule, rule_id, stored.get(rule_id, {}), samples, asked)
            for rule, rule_id, samples in zip(group.rules, list_rule_ids(group), results, strict=True)
            if samples is not None
        ]
        changed = [one for one in changes if one.changed]
        if changed:
            added = [
                build_samples(key, one.rule, one.rule_id, one.list_samples(), position.cycle, offset) for one in changed
            ]
            replaced = {one.rule_id for one in changed}
            masks = {path: _mask_replaced(table, key, replaced, asked) for path, table in rows.items()}
            kept = [table.filter(pc.invert(pa.array(masks[path]))) for path, table in rows.items() if any(masks[path])]
            old_files = [task.file for task in tasks if any(masks[task.file.file_path])]
            parts = [pa.concat_tables(some) for some in (kept, added) if some]
            self._commit(key, asked, old_files, parts, position, check)
        return Correction(
            key, sum(one.changed for one in changes), steps[-1], {one.rule_id: one.series for one in changes}
        )

    def _scan(self, organization: str, asked: range) -> list[FileScanTask]:
        """Return the files with evaluations at these times, and at the one before."""
        return scan_files(self.recorded, _filter(organization, asked))

    def _read(self, task: FileScanTask) -> pa.Table:
        if task.delete_files:
            raise QueryError(
                "files of `recorded` have deletes, which have to be applied before values can be corrected",
                hint="run `neve compact run recorded --strategy deletes`",
            )
        reader = DataFileReader(self.recorded.io, self.recorded.schema())
        return pa.concat_tables(list(reader.read(task.file.file_path)))

    def _commit(
        self,
        key: GroupKey,
        asked: range,
        old_files: Sequence[DataFile],
        rows: Sequence[pa.Table],
        position: RulesPosition,
        check: Callable[[], None],
    ) -> None:
        """Replace files by rows: those that they keep, and the new ones."""
        target = Target.of(self.recorded)
        files = [file for some in rows if some.num_rows for file in write_files(target, some)]
        old_paths = {file.file_path for file in old_files}
        check()

        def require_files(table: Table) -> None:
            require_cycle(position.cycle)(table)
            live = {task.file.file_path for task in scan_files(table, _filter(key.organization, asked))}
            if old_paths - live:
                raise CommitConflict("other writers replaced files of `recorded` while values were corrected")

        append_once(
            self.recorded,
            files,
            batch_id=f"{OPERATION_NAME}-{uuid4().hex}",
            operation=OPERATION_NAME,
            summary=position.to_summary(STREAM_NAME),
            guard=require_files,
            removed=lambda _table: old_files,
        )


@dataclass(frozen=True)
class _RuleChange:
    """New samples of a rule, the number of those that changed, and its series at the last step."""

    rule: Rule
    rule_id: str
    samples: Samples
    changed: int
    series: frozenset[Labels]

    def list_samples(self) -> list[RecordedSample]:
        return [RecordedSample(labels, time_ms, value) for (labels, time_ms), value in self.samples.items()]


def _compare(rule: Rule, rule_id: str, old: Samples, samples: Sequence[Any], asked: range) -> _RuleChange:
    before = _series_at(old, asked[0] - asked.step)
    found = {(tuple((name, text) for name, text in labels), time_ms): value for labels, time_ms, value in samples}
    new = add_stale_marks(found, asked, before)
    known = {place: value for place, value in old.items() if place[1] in asked}
    changed = len(differ(known, new)) + len(known.keys() - new.keys())
    return _RuleChange(rule, rule_id, new, changed, _series_at(new, asked[-1]))


def _series_at(samples: Samples, time_ms: int) -> frozenset[Labels]:
    return frozenset(labels for (labels, at), value in samples.items() if at == time_ms and not is_stale_mark(value))


def _filter(organization: str, asked: range) -> BooleanExpression:
    first, last = (f"'{moment_of(at * 1000).isoformat()}'" for at in (asked[0] - asked.step, asked[-1]))
    return parse_filter(f"organization_id = '{organization}' and timestamp >= {first} and timestamp <= {last}")


def _collect(tables: Iterable[pa.Table], key: GroupKey) -> dict[str, Samples]:
    """Return the stored samples of a group, by rule. A null value is a stale mark."""
    found: dict[str, Samples] = {}
    for table in tables:
        for row in table.select((*_PLACE, "labels", "value")).to_pylist():
            if _is_sample_of(row, key):
                labels = make_labels({**dict(row["labels"] or ()), METRIC_NAME: row["metric_name"]})
                value = STALE if row["value"] is None else row["value"]
                found.setdefault(row["rule_id"], {})[labels, round(row["timestamp"].timestamp() * 1000)] = value
    return found


_PLACE = ("rule_id", "rule_group", "rule_file", "metric_name", "timestamp")


def _is_sample_of(row: Mapping[str, Any], key: GroupKey) -> bool:
    return (row["rule_group"], row["rule_file"]) == (key.name, key.file) and row["metric_name"] is not None


def _mask_replaced(table: pa.Table, key: GroupKey, replaced: set[str], asked: range) -> list[bool]:
    return [
        row["rule_id"] in replaced and _is_sample_of(row, key) and round(row["timestamp"].timestamp() * 1000) in asked
        for row in table.select(_PLACE).to_pylist()
    ]
