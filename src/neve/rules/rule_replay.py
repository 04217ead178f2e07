"""Replay of one rule, part after part: a range query for all steps of a part, then its samples or alert states.

A range query gives the same as an instant query at each step, with two exceptions that are evaluated step by step: an
expression that depends on the query's own range, and one that fails at some step. Halves of a part that fails are tried
first, so that few steps are evaluated alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from neve.errors import EvaluationFailed, LimitExceeded
from neve.promql.labels import make_labels
from neve.promql.language.syntax import METRIC_NAME
from neve.promql.series import STALE
from neve.promql.storage.points import Column
from neve.rules.alerts import AlertState
from neve.rules.evaluation import Evaluation, RuleState
from neve.rules.instant_vector import query_vector
from neve.rules.replay_source import RuleResults
from neve.rules.running.range_program import depends_on_range

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from neve.promql.engine import Engine, Result, SeriesResult
    from neve.promql.histograms.native import Histogram
    from neve.promql.labels import Labels
    from neve.rules.alerts import Alert
    from neve.rules.evaluation import EvaluationOptions, RecordedSample, Vector
    from neve.rules.rule_file import Group, Rule

__all__ = ["AlertPeriod", "RuleReplay"]


@dataclass(frozen=True, slots=True)
class AlertPeriod:
    """Time in which an alert was active. `fired_at_ms` is `None` if it was only pending, ends are `None` at the end."""

    rule: str
    labels: Labels
    active_at_ms: int
    fired_at_ms: int | None
    ended_at_ms: int | None
    peak: float


@dataclass
class RuleReplay:
    """State and counts of a rule between two parts. `is_read` says whether later rules read its results."""

    group: Group
    rule: Rule
    engine: Engine
    options: EvaluationOptions
    is_read: bool = True
    results: RuleResults = field(default_factory=RuleResults)
    steps: int = 0
    samples: int = 0
    notifications: int = 0
    failures: int = 0
    error: str = ""
    peak_samples: int = 0  # of the largest query of the last part
    _state: RuleState = field(default_factory=RuleState)

    def __post_init__(self) -> None:
        self.periods = _Periods(self.rule.name)
        # Annotations are no part of a replay, and templates are expensive.
        self._bare = replace(self.rule, annotations=())

    @property
    def step_ms(self) -> int:
        """Return the time between two evaluations."""
        return self.group.interval_ms or self.options.interval_ms

    def run(self, start_ms: int, end_ms: int) -> None:
        """Replay the steps of a part, both ends included."""
        step = self.step_ms
        times = range(-(-start_ms // step) * step, end_ms + 1, step)
        self.peak_samples = 0
        self.steps += len(times)
        for part, result in self._query(times):
            if result is None or self.rule.is_alert or not self._record(part, result):
                self._evaluate(part, None if result is None else _split_steps(result))

    def _query(self, times: range) -> Iterator[tuple[range, Result | None]]:
        """Yield parts with the result of their range query, or with none if it has to be evaluated step by step."""
        if not times:
            return
        if depends_on_range(self.rule):
            yield times, None
            return
        offset = self.group.query_offset_ms
        try:
            result = self.engine.query_range(self.rule.expression, times[0] - offset, times[-1] - offset, times.step)
        except (EvaluationFailed, LimitExceeded):
            if len(times) == 1:
                yield times, None
            else:
                middle = len(times) // 2
                yield from self._query(times[:middle])
                yield from self._query(times[middle:])
            return
        self.peak_samples = max(self.peak_samples, result.samples.peak if result.samples else 0)
        yield times, result

    def _record(self, times: range, result: Result) -> bool:
        """Record the samples of a rule at all times at once. Return false if some step could fail."""
        named = {
            make_labels({**dict(one.labels), METRIC_NAME: self.rule.name, **dict(self.rule.labels)}): one
            for one in result.series
        }
        is_plain = len(named) == len(result.series) and not any(one.histograms for one in result.series)
        if not is_plain or 0 < self.group.limit < len(named):
            return False
        offset, ended = self.group.query_offset_ms, self._state.series - named.keys()
        known = self._state.series
        columns = [_end_series(labels, one, times, offset, labels in known) for labels, one in named.items()]
        first = np.array([times[0] - offset], np.int64)
        columns += [Column(labels, first, np.array([STALE]), np.zeros(1, np.int64)) for labels in sorted(ended)]
        self.samples += sum(len(one.times_ms) for one in columns)
        if self.is_read:
            self.results.add(columns)
        last = times[-1] - offset
        series = frozenset(labels for labels, one in named.items() if one.times_ms[-1] == last)
        self._state = RuleState({}, series, times[-1])
        return True

    def _evaluate(self, times: range, vectors: Mapping[int, Vector] | None) -> None:
        """Evaluate a part step by step. Steps at which nothing happens are skipped."""
        query = self._open_query(vectors)
        offset = self.group.query_offset_ms
        made: list[RecordedSample] = []
        for time_ms in times:
            before = self._state
            is_idle = not before.alerts and not before.series and not before.error
            if is_idle and vectors is not None and time_ms - offset not in vectors:
                continue
            result = Evaluation(self.group, time_ms, query, self.options).evaluate(self._bare, before)
            self._state = result.state
            if result.state.error:
                self.failures, self.error = self.failures + 1, result.state.error
            self.samples += len(result.samples)
            self.notifications += len(result.notifications)
            if self.is_read:
                made += result.samples
            if self.rule.is_alert:
                self.periods.follow(before.alerts, result.state.alerts, time_ms)
        self.results.add(_build_columns(made))

    def _open_query(self, vectors: Mapping[int, Vector] | None) -> Callable[[str, int], Vector]:
        """Return the port of the evaluation: the result of a range query, or an instant query."""

        def query(text: str, time_ms: int) -> Vector:
            if vectors is not None and text == self.rule.expression:
                return vectors.get(time_ms, ())
            return query_vector(self.engine, text, time_ms)

        return query


def _split_steps(result: Result) -> dict[int, Vector]:
    """Return the instant vector of each step of a range query that has one."""
    found: dict[int, list[tuple[Labels, float | Histogram]]] = {}
    for series in result.series:
        for time_ms, value in series.floats:
            found.setdefault(time_ms, []).append((series.labels, value))
        for time_ms, histogram in series.histograms:
            found.setdefault(time_ms, []).append((series.labels, histogram))
    return dict(found)


def _end_series(labels: Labels, one: SeriesResult, times: range, offset_ms: int, was_there: bool) -> Column:
    """Return the samples of a series, with a stale mark at each step after which the rule no longer has it."""
    steps = np.arange(times[0], times[-1] + 1, times.step, dtype=np.int64) - offset_ms
    present = np.isin(steps, one.times_ms)
    before = np.concatenate(([was_there], present[:-1]))
    is_kept = present | before
    values = np.full(len(steps), STALE)
    values[present] = one.values
    return Column(labels, steps[is_kept], values[is_kept], np.zeros(int(is_kept.sum()), np.int64))


def _build_columns(samples: Sequence[RecordedSample]) -> list[Column]:
    """Return samples in order of time as columns. A series has floats or histograms in a part, or both apart."""
    grouped: dict[tuple[Labels, bool], list[RecordedSample]] = {}
    for one in samples:
        grouped.setdefault((one.labels, not isinstance(one.value, float)), []).append(one)
    found = []
    for (labels, is_histogram), some in grouped.items():
        values = np.empty(len(some), object if is_histogram else np.float64)
        for place, one in enumerate(some):
            values[place] = one.value
        times = np.array([one.time_ms for one in some], np.int64)
        found.append(Column(labels, times, values, np.zeros(len(some), np.int64)))
    return found


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
                if known is not None and known.fired_at_ms == fired and alert.value <= known.peak:
                    continue
                peak = alert.value if known is None else max(known.peak, alert.value)
                self._open[labels] = AlertPeriod(self._rule, labels, alert.active_at_ms, fired, None, peak)

    def close(self) -> tuple[AlertPeriod, ...]:
        """Return all periods in the order of their beginning."""
        return tuple(sorted([*self._closed, *self._open.values()], key=lambda one: (one.active_at_ms, one.labels)))
