"""Replay rules over the past: one range query for each rule, then the states of its alerts step by step.

A range query gives the same as an instant query at each step, with two exceptions that are evaluated step by step: an
expression that depends on the query's own range, and one that fails at some step.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from neve.errors import EvaluationFailed
from neve.promql.engine import Engine
from neve.promql.language.parser import parse
from neve.promql.language.syntax import METRIC_NAME, VectorSelector, walk
from neve.promql.series import MemorySource
from neve.rules.alerts import AlertState
from neve.rules.evaluation import ALERTS, ALERTS_FOR_STATE, Evaluation, RuleState
from neve.rules.instant_vector import query_vector
from neve.rules.overlay_source import OverlaySource
from neve.rules.running.range_program import depends_on_range

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from neve.promql.engine import Result
    from neve.promql.histograms.native import Histogram
    from neve.promql.labels import Labels
    from neve.promql.series import SeriesSource
    from neve.rules.alerts import Alert
    from neve.rules.evaluation import EvaluationOptions, Vector
    from neve.rules.rule_file import Group, Rule

__all__ = ["AlertPeriod", "RuleSimulation", "Simulation", "format_time", "simulate"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
STEPS_PER_QUERY = 5_000  # a matrix of many series and steps must fit into memory


@dataclass(frozen=True, slots=True)
class AlertPeriod:
    """Time in which an alert was active. `fired_at_ms` is `None` if it was only pending, ends are `None` at the end."""

    rule: str
    labels: Labels
    active_at_ms: int
    fired_at_ms: int | None
    ended_at_ms: int | None
    peak: float


@dataclass(frozen=True, slots=True)
class RuleSimulation:
    """Replay of one rule."""

    group: str
    rule: str
    kind: str
    steps: int
    samples: int
    periods: tuple[AlertPeriod, ...]
    notifications: int
    failures: int
    error: str
    note: str

    @property
    def firing_count(self) -> int:
        """Return the number of periods in which an alert fired."""
        return sum(one.fired_at_ms is not None for one in self.periods)


@dataclass(frozen=True, slots=True)
class Simulation:
    """Replay of all rules from `start_ms` to `end_ms`."""

    start_ms: int
    end_ms: int
    rules: tuple[RuleSimulation, ...]

    def as_document(self) -> dict[str, Any]:
        """Return the replay as JSON values. Times are in UTC."""
        return {
            "since": format_time(self.start_ms),
            "until": format_time(self.end_ms),
            "rules": [_describe_rule(one) for one in self.rules],
        }


def format_time(time_ms: int) -> str:
    """Return a time in ISO 8601.

    >>> format_time(1_500)
    '1970-01-01T00:00:01.500Z'
    """
    moment = _EPOCH + timedelta(milliseconds=time_ms)
    return moment.isoformat(timespec="milliseconds" if time_ms % 1000 else "seconds").replace("+00:00", "Z")


def _describe_rule(one: RuleSimulation) -> dict[str, Any]:
    numbers = {"evaluations": one.steps, "samples": one.samples, "fired": one.firing_count, "active": len(one.periods)}
    return {
        "group": one.group,
        "rule": one.rule,
        "kind": one.kind,
        **numbers,
        "notifications": one.notifications,
        "failures": one.failures,
        "error": one.error,
        "note": one.note,
        "periods": [_describe_period(period) for period in one.periods],
    }


def _describe_period(period: AlertPeriod) -> dict[str, Any]:
    return {
        "labels": dict(period.labels),
        "active_at": format_time(period.active_at_ms),
        "fired_at": None if period.fired_at_ms is None else format_time(period.fired_at_ms),
        "ended_at": None if period.ended_at_ms is None else format_time(period.ended_at_ms),
        "peak": period.peak if math.isfinite(period.peak) else str(period.peak),
    }


def simulate(
    groups: Sequence[Group],
    source: SeriesSource,
    start_ms: int,
    end_ms: int,
    options: EvaluationOptions,
    progress: Callable[[str, int, int], None] = lambda _step, _done, _total: None,
) -> Simulation:
    """Return what the rules would have done. Rules see the results of those before them, in the order of the files."""
    results = MemorySource()
    engine = Engine(OverlaySource(source, results))
    pending = [(group, rule) for group in groups for rule in group.rules]
    later = [_recorded_names(rule) for _, rule in pending]
    found = []
    for place, (group, rule) in enumerate(pending):
        progress("rules", place, len(pending))
        unseen = set().union(*later[place:])
        found.append(_Replay(group, rule, engine, results, options, _note(rule, unseen)).run(start_ms, end_ms))
    progress("rules", len(pending), len(pending))
    return Simulation(start_ms, end_ms, tuple(found))


def _recorded_names(rule: Rule) -> set[str]:
    return {ALERTS, ALERTS_FOR_STATE} if rule.is_alert else {rule.name}


def _note(rule: Rule, unseen: set[str]) -> str:
    """Return a note if a rule reads series that it or a later rule records: it sees those of the lake alone."""
    names = {
        matcher.value
        for node in walk(parse(rule.expression))
        if isinstance(node, VectorSelector)
        for matcher in node.all_matchers
        if matcher.name == METRIC_NAME
    }
    used = sorted(names & unseen)
    return f"reads {', '.join(used)}, which this or a later rule records: it sees no results of them" if used else ""


@dataclass
class _Replay:
    group: Group
    rule: Rule
    engine: Engine
    results: MemorySource
    options: EvaluationOptions
    note: str

    def run(self, start_ms: int, end_ms: int) -> RuleSimulation:
        step = self.group.interval_ms or self.options.interval_ms
        times = range(-(-start_ms // step) * step, end_ms + 1, step)
        periods = _Periods(self.rule.name)
        state, samples, sent, failures, error = RuleState(), 0, 0, 0, ""
        for first in range(0, len(times), STEPS_PER_QUERY):
            part = times[first : first + STEPS_PER_QUERY]
            query = self._open_query(part)
            for time_ms in part:
                before = state
                result = Evaluation(self.group, time_ms, query, self.options).evaluate(self.rule, state)
                state = result.state
                failures, error = (failures + 1, state.error) if state.error else (failures, error)
                samples += len(result.samples)
                sent += len(result.notifications)
                for one in result.samples:
                    self.results.add(one.labels, [(one.time_ms, one.value, 0)])
                periods.follow(before.alerts, state.alerts, time_ms)
        group, rule = self.group, self.rule
        return RuleSimulation(
            group.name, rule.name, rule.kind, len(times), samples, periods.close(), sent, failures, error, self.note
        )

    def _open_query(self, times: range) -> Callable[[str, int], Vector]:
        """Return the port of the evaluation. It evaluates the rule's expression at all times at once if possible."""
        vectors = None if depends_on_range(self.rule) else self._query_range(times)

        def query(text: str, time_ms: int) -> Vector:
            if vectors is not None and text == self.rule.expression:
                return vectors.get(time_ms, ())
            return query_vector(self.engine, text, time_ms)

        return query

    def _query_range(self, times: range) -> Mapping[int, Vector] | None:
        offset = self.group.query_offset_ms
        try:
            result = self.engine.query_range(self.rule.expression, times[0] - offset, times[-1] - offset, times.step)
        except EvaluationFailed:
            return None  # single steps may succeed
        return _split_steps(result)


def _split_steps(result: Result) -> dict[int, Vector]:
    """Return the instant vector of each step of a range query."""
    found: dict[int, list[tuple[Labels, float | Histogram]]] = {}
    for series in result.series:
        for time_ms, value in series.floats:
            found.setdefault(time_ms, []).append((series.labels, value))
        for time_ms, histogram in series.histograms:
            found.setdefault(time_ms, []).append((series.labels, histogram))
    return dict(found)


class _Periods:
    """Active times of the alerts of a rule, from the states before and after each step."""

    def __init__(self, rule: str) -> None:
        self._rule = rule
        self._open: dict[Labels, AlertPeriod] = {}
        self._closed: list[AlertPeriod] = []

    def follow(self, before: Mapping[Labels, Alert], after: Mapping[Labels, Alert], time_ms: int) -> None:
        """Note the changes of one step."""
        for labels in [one for one in before if before[one].is_active]:
            now = after.get(labels)
            if now is None or not now.is_active:
                self._closed.append(replace(self._open.pop(labels), ended_at_ms=time_ms))
        for labels, alert in after.items():
            if alert.is_active:
                fired = alert.fired_at_ms if alert.state is AlertState.FIRING else None
                known = self._open.get(labels)
                peak = alert.value if known is None else max(known.peak, alert.value)
                self._open[labels] = AlertPeriod(self._rule, labels, alert.active_at_ms, fired, None, peak)

    def close(self) -> tuple[AlertPeriod, ...]:
        """Return all periods in the order of their beginning."""
        return tuple(sorted([*self._closed, *self._open.values()], key=lambda one: (one.active_at_ms, one.labels)))
