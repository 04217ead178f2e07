"""The runner: evaluate the groups that are due, and commit samples, alerts and the position at once.

    complete data ──► due groups ──► query workers ──► rows ──► one commit ──► status, notifications

Groups are evaluated at multiples of their interval, when the data up to that time is committed. A cycle that was killed
before its commit has no effect. One that was killed after it is continued from the table. Evaluations that were missed
meanwhile are made up for, the oldest first, so that an alert that fired and ended in that time is no exception.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from neve.errors import QueryError
from neve.lake.commit.append import append_once
from neve.lake.write.table_writer import Target, write_files
from neve.logger import get_logger
from neve.model.recorded import RECORDED_TABLE
from neve.rules import metrics
from neve.rules.alerts import VALID_INTERVALS
from neve.rules.evaluation import EvaluationOptions, RuleResult, RuleState
from neve.rules.running import source_alert
from neve.rules.running.corrector import Correction, Corrector, RangeRequest
from neve.rules.running.cycle_result import CycleResult, SentAlert, count_cycle, summarize_cycle
from neve.rules.running.recorded_rows import GroupKey, GroupResult, build_rows, list_rule_ids
from neve.rules.running.stored_state import (
    STREAM_NAME,
    GroupState,
    RulesPosition,
    load_groups,
    load_notifications,
    require_cycle,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyiceberg.table import Table

    from neve.lake.lake import Lake
    from neve.rules.config import RulesConfig
    from neve.rules.rule_file import Group
    from neve.state.leases import Lease

__all__ = ["GroupRequest", "RuleRunner", "RunnerPorts"]

OPERATION_NAME = "rules"
log = get_logger("neve.rules")


@dataclass(frozen=True)
class GroupRequest:
    """Evaluation of a group that a query worker makes."""

    organization: str
    group: Group
    states: Sequence[RuleState]
    time_ms: int
    options: EvaluationOptions


@dataclass(frozen=True)
class RunnerPorts:
    """Dependencies of a runner. `evaluate` raises `QueryError` if the whole group can't be evaluated.

    `find_complete_ms` returns the time up to which all received data is committed.
    """

    evaluate: Callable[[GroupRequest], Sequence[RuleResult]]
    evaluate_range: Callable[[RangeRequest], Sequence[Sequence[Any] | None]]
    find_complete_ms: Callable[[], int]
    now_ms: Callable[[], int]


@dataclass
class _Memory:
    """State of all groups after the last commit of this process, or as it was loaded."""

    position: RulesPosition
    groups: dict[GroupKey, GroupState]


class RuleRunner:
    """Runner of the rules of all organizations. One thread uses it, while it holds the lease."""

    def __init__(self, lake: Lake, config: RulesConfig, groups: Mapping[GroupKey, Group], ports: RunnerPorts) -> None:
        self.lake, self.config, self.ports = lake, config, ports
        self.groups = {key: self._limit_series(group) for key, group in groups.items()}
        self.options = EvaluationOptions(
            round(config.interval_seconds * 1000),
            round(config.resend_seconds * 1000),
            config.external_labels,
            config.external_url,
        )
        self._memory: _Memory | None = None
        self._seconds: dict[GroupKey, float] = {}  # of the last cycle of each group
        self.is_behind = False  # whether the last cycle left evaluations that are due

    def _limit_series(self, group: Group) -> Group:
        return replace(group, limit=min(group.limit or self.config.max_series, self.config.max_series))

    @property
    def known_groups(self) -> dict[GroupKey, Group]:
        """Return all groups, with those of the alerts about failing rules."""
        organizations = {key.organization for key in self.groups}
        return {**self.groups, **{source_alert.build_key(one): source_alert.build_group() for one in organizations}}

    def load(self) -> RulesPosition:
        """Load the state of all rules from the table, and return the position. Other processes may have changed it."""
        table = self._table
        position = RulesPosition.load(table, STREAM_NAME) or RulesPosition()
        groups = load_groups(table, position, self.known_groups) if position.cycle else {}
        self._memory = _Memory(position, groups)
        return position

    def load_notifications(self, after_cycle: int) -> list[SentAlert]:
        """Return the notifications of committed cycles after one, for a destination that has not received them."""
        found = load_notifications(self._table, after_cycle, self.known_groups, self._valid_ms)
        return [SentAlert(*one) for one in found]

    def state_of(self, key: GroupKey) -> GroupState | None:
        """Return the state of a group after the last commit."""
        return None if self._memory is None else self._memory.groups.get(key)

    def forget(self) -> None:
        """Forget the state, because a commit failed or the lease was lost. The next cycle loads it."""
        self._memory = None

    def run(self, lease: Lease) -> CycleResult:
        """Evaluate the groups that are due. Any error leaves the table as it was, or with a whole cycle."""
        if self._memory is None:
            self.load()
        try:
            return self._cycle(lease)
        except BaseException:
            self.forget()
            raise

    def _cycle(self, lease: Lease) -> CycleResult:
        memory, began = self._require_memory(), time.monotonic()
        due = self._find_due(memory)
        lag = self._measure_lag(memory, due)
        late = self._find_delayed(memory, due, lag)
        if not due and not late:
            metrics.LAG.set(lag)
            return CycleResult(memory.position.cycle, lag_seconds=lag)
        snapshot = self.lake.table("metrics").metadata.current_snapshot_id
        results = self._evaluate(due, memory, snapshot)
        results += self._evaluate_sources(results, memory, late, lag)
        cycle = memory.position.cycle + 1
        groups = {**memory.groups, **{one.key: _build_state(one) for one in results}}
        corrected = memory.position.corrected_snapshot_id or snapshot
        position = RulesPosition(cycle, _find_oldest(groups), corrected)
        committed = self._commit(results, position, lease)
        self._memory = _Memory(position, groups)
        found = summarize_cycle(results, groups, cycle, committed)
        seconds = time.monotonic() - began
        self._seconds |= dict.fromkeys(due, seconds)
        result = replace(found, lag_seconds=self._measure_lag(self._memory, {}), seconds=seconds)
        count_cycle(result)
        return result

    def correct(self, lease: Lease) -> int:
        """Correct recorded values by data that arrived late, and return the number of changed samples."""
        memory = self._memory
        if memory is None or not self.config.late_seconds or memory.position.corrected_snapshot_id is None:
            return 0
        metrics_table = self.lake.table("metrics")
        current = metrics_table.metadata.current_snapshot_id
        if current == memory.position.corrected_snapshot_id:
            return 0
        corrector = Corrector(
            self._table,
            metrics_table,
            self.groups,
            self.ports.evaluate_range,
            self.interval_ms,
            round(self.config.late_seconds * 1000),
        )
        last = {key: state.time_ms for key, state in memory.groups.items()}
        touched = corrector.find_touched(memory.position.corrected_snapshot_id)
        done = corrector.correct(touched, last, memory.position, lease.check)
        for one in done:
            memory.groups[one.key] = _with_series(self.groups[one.key], memory.groups[one.key], one)
        memory.position = replace(memory.position, corrected_snapshot_id=current)
        changed = sum(one.changed for one in done)
        metrics.CORRECTED.inc(changed)
        return changed

    def _require_memory(self) -> _Memory:
        assert self._memory is not None  # noqa: S101 - `run` has loaded it
        return self._memory

    def interval_ms(self, group: Group) -> int:
        """Return the time between two evaluations of a group."""
        return group.interval_ms or self.options.interval_ms

    def _valid_ms(self, group: Group) -> int:
        return VALID_INTERVALS * max(self.interval_ms(group), self.options.resend_ms)

    def next_due_ms(self) -> int:
        """Return the earliest time at which a group can be due, by the clock. 0 if that is not known."""
        if self._memory is None:
            return 0
        known = self._memory.groups
        return min(
            (known[key].time_ms + self.interval_ms(group) if key in known else 0 for key, group in self.groups.items()),
            default=self.ports.now_ms() + self.options.interval_ms,
        )

    def _find_due(self, memory: _Memory) -> dict[GroupKey, int]:
        """Return the groups that have complete data for a new evaluation, with its time."""
        complete = self.ports.find_complete_ms() - round(self.config.delay_seconds * 1000)
        due: dict[GroupKey, int] = {}
        self.is_behind = False
        for key, group in self.groups.items():
            interval, known = self.interval_ms(group), memory.groups.get(key)
            newest = complete // interval * interval
            if known is None:
                due[key] = newest
            elif newest > known.time_ms:
                due[key] = self._choose_time(key, (known.time_ms // interval + 1) * interval, newest, interval)
                self.is_behind = self.is_behind or due[key] < newest
        return due

    def _choose_time(self, key: GroupKey, oldest_ms: int, newest_ms: int, interval_ms: int) -> int:
        """Return the oldest evaluation that was missed if all of them take little time, else the newest."""
        missed = (newest_ms - oldest_ms) // interval_ms
        takes = missed * self._seconds.get(key, 0.0)
        is_long = takes > max(interval_ms / 1000, self.config.catch_up_seconds)
        is_old = newest_ms - oldest_ms > self.config.late_seconds * 1000
        return newest_ms if is_long or is_old else oldest_ms

    def _measure_lag(self, memory: _Memory, due: Mapping[GroupKey, int]) -> float:
        """Return the seconds by which the slowest group is behind its interval."""
        now = self.ports.now_ms()
        behind = [
            now - due.get(key, memory.groups[key].time_ms if key in memory.groups else now) - self.interval_ms(group)
            for key, group in self.groups.items()
        ]
        return max(0, *behind, 0) / 1000

    def _find_delayed(self, memory: _Memory, due: Mapping[GroupKey, int], lag: float) -> set[str]:
        """Return the organizations without due groups whose alert about the delay must be evaluated."""
        if lag <= self.config.max_lag_seconds:
            return set()
        now, found = self.ports.now_ms(), set()
        for organization in {key.organization for key in self.groups} - {key.organization for key in due}:
            state = memory.groups.get(source_alert.build_key(organization))
            if state is None or now - state.time_ms >= self.options.interval_ms:
                found.add(organization)
        return found

    def _evaluate(self, due: Mapping[GroupKey, int], memory: _Memory, snapshot: int | None) -> list[GroupResult]:
        with ThreadPoolExecutor(self.config.concurrency, "rules") as pool:
            return list(pool.map(lambda key: self._evaluate_group(key, due[key], memory, snapshot), due))

    def _evaluate_group(self, key: GroupKey, time_ms: int, memory: _Memory, snapshot: int | None) -> GroupResult:
        group, known = self.groups[key], memory.groups.get(key)
        states = known.states if known else (RuleState(),) * len(group.rules)
        results: Sequence[RuleResult]
        began = time.monotonic()
        try:
            results = self.ports.evaluate(GroupRequest(key.organization, group, states, time_ms, self.options))
        except QueryError as error:
            log.warning("group not evaluated", organization=key.organization, group=key.name, error=error.message)
            results = [RuleResult(replace(state, evaluated_at_ms=time_ms, error=error.message)) for state in states]
        older = {
            rule_id: known.state_times.get(rule_id, known.time_ms)
            for rule_id, result in zip(list_rule_ids(group), results, strict=True)
            if result.state.error and known is not None
        }
        return GroupResult(key, group, time_ms, results, snapshot, older, time.monotonic() - began)

    def _evaluate_sources(
        self, results: Sequence[GroupResult], memory: _Memory, late: set[str], lag: float
    ) -> list[GroupResult]:
        """Evaluate the alert about failing rules of each organization. Groups that were not due count as before."""
        latest = {key: state.states for key, state in memory.groups.items()}
        latest |= {one.key: tuple(result.state for result in one.results) for one in results}
        now, found = self.ports.now_ms(), []
        for organization in sorted({one.key.organization for one in results} | late):
            key = source_alert.build_key(organization)
            failures = {
                rule.name: state.error
                for other, group in self.groups.items()
                if other.organization == organization
                for rule, state in zip(group.rules, latest.get(other, ()), strict=False)
                if state.error
            }
            known = memory.groups.get(key)
            if known is not None and now <= known.time_ms:
                continue  # the clock went back
            state = known.states[0] if known else RuleState()
            delay = lag if organization in late else 0.0
            found.append(source_alert.evaluate_source(organization, failures, delay, state, now, self.options))
        return found

    def _commit(self, results: Sequence[GroupResult], position: RulesPosition, lease: Lease) -> int:
        table = self._table
        files = write_files(Target.of(table), build_rows(results, position.cycle))
        lease.check()
        return append_once(
            table,
            files,
            batch_id=f"{OPERATION_NAME}-{position.cycle}-{uuid4().hex[:16]}",
            operation=OPERATION_NAME,
            summary=position.to_summary(STREAM_NAME),
            guard=require_cycle(position.cycle - 1),
        ).snapshot_id

    @property
    def _table(self) -> Table:
        return self.lake.table(RECORDED_TABLE)


def _build_state(one: GroupResult) -> GroupState:
    return GroupState(one.time_ms, tuple(result.state for result in one.results), one.state_times)


def _with_series(group: Group, state: GroupState, correction: Correction) -> GroupState:
    """Return the state with the corrected series, which end with a stale mark when a rule no longer has them."""
    if correction.last_ms != state.time_ms:
        return state
    states = tuple(
        replace(one, series=correction.series[rule_id]) if rule_id in correction.series and not one.error else one
        for rule_id, one in zip(list_rule_ids(group), state.states, strict=True)
    )
    return replace(state, states=states)


def _find_oldest(groups: Mapping[GroupKey, GroupState]) -> int:
    return min((state.time_ms for state in groups.values()), default=0)
