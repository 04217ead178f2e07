"""Run rule unit tests: load series, evaluate the rules step by step, compare alerts and expressions.

The semantics are those of `promtool test rules`: at each step the rules see the samples up to that step, and an alert
test at a time sees the last step before it.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from neve.errors import EvaluationFailed, QueryError
from neve.lexical.literals import format_duration, format_general
from neve.promql.engine import Engine
from neve.promql.evaluator import Options
from neve.promql.histograms.native import Histogram
from neve.promql.labels import Labels, format_labels, match_sets
from neve.promql.series import SeriesSet, build_series, is_stale
from neve.promql.series_notation import add_hints
from neve.rules.alerts import AlertState
from neve.rules.evaluation import Evaluation, EvaluationOptions, RuleState
from neve.rules.instant_vector import query_vector
from neve.rules.rule_file import read_rules

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neve.lexical.matchers import Matcher
    from neve.promql.series import Sample
    from neve.rules.evaluation import Vector
    from neve.rules.rule_file import Group
    from neve.rules.unit_test_file import AlertTest, ExpressionTest, TestFile, TestGroup

__all__ = ["Failure", "run_tests"]


@dataclass(frozen=True, slots=True)
class Failure:
    """Test that failed, with the expected and the actual result if they differ."""

    path: str
    line: int
    test: str
    message: str
    expected: tuple[str, ...] = ()
    actual: tuple[str, ...] = ()


def run_tests(tests: TestFile) -> list[Failure]:
    """Return the failed tests of a file. Errors in the file or its rule files are failures."""
    if tests.errors:
        return [Failure(one.path, one.line, one.where.group, one.message) for one in tests.errors]
    files = [read_rules(path) for path in tests.rule_files]
    broken = [problem for file in files for problem in file.errors]
    if broken:
        return [
            Failure(one.path, one.line, "", f"{one.where}: {one.message}" if one.where.group else one.message)
            for one in broken
        ]
    places = {name: index for index, name in enumerate(tests.order)}
    groups = [group for file in files for group in file.groups]
    groups.sort(key=lambda group: places.get(group.name, 0))
    return [failure for test in tests.groups for failure in _TestRun(tests, test, groups).run()]


class _Storage:
    """Series in memory, of which only the samples up to `until_ms` are there."""

    def __init__(self, test: TestGroup) -> None:
        self.until_ms = test.start_ms
        self._times: dict[Labels, list[int]] = {}
        self._samples: dict[Labels, list[Sample]] = {}
        for labels, points in test.series:
            samples = [
                (test.start_ms + index * test.interval_ms, point.value, 0)
                for index, point in enumerate(points)
                if point.value is not None
            ]
            self._samples.setdefault(labels, []).extend(add_hints(samples))
            self._times.setdefault(labels, []).extend(time_ms for time_ms, _, _ in samples)

    def select(self, matchers: Sequence[Matcher], start_ms: int, end_ms: int) -> SeriesSet:
        """Return the series that match."""
        end_ms = min(end_ms, self.until_ms)
        chosen = match_sets(list(self._samples), matchers)
        found = []
        for (labels, samples), is_match in zip(self._samples.items(), chosen, strict=True):
            if is_match:
                times = self._times[labels]
                found.append((labels, samples[bisect_left(times, start_ms) : bisect_right(times, end_ms)]))
        return build_series([one for one in found if one[1]])

    def add(self, labels: Labels, time_ms: int, value: float | Histogram) -> None:
        """Append a sample. Raises `EvaluationFailed` if the series has a later or another one at this time."""
        times, samples = self._times.setdefault(labels, []), self._samples.setdefault(labels, [])
        place = bisect_right(times, self.until_ms)
        if place and times[place - 1] >= time_ms:
            if times[place - 1] == time_ms and _is_same(samples[place - 1][1], value):
                return
            if not isinstance(value, Histogram) and is_stale(np.array([value]))[0]:
                return  # another rule has this series
            kind = "duplicate sample for timestamp" if times[place - 1] == time_ms else "out of order sample"
            raise EvaluationFailed(f"{kind}: {format_labels(labels)}")
        before = samples[place - 1][1] if place else None
        times.insert(place, time_ms)
        samples.insert(place, add_hints([(time_ms, value, 0)], before)[0])


@dataclass
class _TestRun:
    tests: TestFile
    test: TestGroup
    groups: Sequence[Group]
    failures: list[Failure] = field(default_factory=list)

    def run(self) -> list[Failure]:
        self._storage = _Storage(self.test)
        self._engine = Engine(self._storage, Options(default_step_ms=self.tests.interval_ms))
        self._states = [[RuleState() for _ in group.rules] for group in self.groups]
        waiting = sorted(self.test.alerts, key=lambda one: one.time_ms)
        for elapsed in range(0, self.test.last_ms + 1, self.tests.interval_ms):
            if not self._evaluate(self.test.start_ms + elapsed):
                return self.failures
            while waiting and waiting[0].time_ms < elapsed + self.tests.interval_ms:
                self._check_alerts(waiting.pop(0))
        for one in self.test.expressions:
            self._check_expression(one)
        return self.failures

    def _query(self, text: str, time_ms: int) -> Vector:
        return query_vector(self._engine, text, time_ms)

    def _evaluate(self, time_ms: int) -> bool:
        """Evaluate all rules at a time, and return whether none failed."""
        self._storage.until_ms = time_ms
        options = EvaluationOptions(
            self.test.interval_ms, external_labels=self.test.external_labels, external_url=self.test.external_url
        )
        is_good = True
        for group, states in zip(self.groups, self._states, strict=True):
            evaluation = Evaluation(group, time_ms, self._query, options)
            for place, rule in enumerate(group.rules):
                result = evaluation.evaluate(rule, states[place])
                states[place] = result.state
                error = result.state.error
                for sample in result.samples:
                    try:
                        self._storage.add(sample.labels, sample.time_ms, sample.value)
                    except EvaluationFailed as failed:
                        error = failed.message
                if error:
                    at = format_duration(time_ms - self.test.start_ms)
                    self._fail(self.test.line, f'rule "{rule.name}" failed at {at}: {error}')
                    is_good = False
        return is_good

    def _check_alerts(self, wanted: AlertTest) -> None:
        actual = sorted(
            (alert.labels, alert.annotations)
            for group, states in zip(self.groups, self._states, strict=True)
            for rule, state in zip(group.rules, states, strict=True)
            if rule.is_alert and rule.name == wanted.name
            for alert in state.alerts.values()
            if alert.state is AlertState.FIRING
        )
        expected = sorted(
            (tuple(sorted(one.labels.items())), tuple(sorted(one.annotations.items()))) for one in wanted.expected
        )
        if actual != expected:
            message = f'alerts "{wanted.name}" at {format_duration(wanted.time_ms)} differ'
            self._fail(wanted.line, message, _format_alerts(expected), _format_alerts(actual))

    def _check_expression(self, wanted: ExpressionTest) -> None:
        at = format_duration(wanted.time_ms)
        try:
            actual = sorted(self._query(wanted.expression, self.test.start_ms + wanted.time_ms), key=lambda one: one[0])
        except QueryError as error:
            self._fail(wanted.line, f"{wanted.expression} at {at} failed: {error.message}")
            return
        expected = sorted(wanted.expected, key=lambda one: one[0])
        is_same = len(actual) == len(expected) and all(
            one[0] == other[0] and _is_equal(one[1], other[1], is_fuzzy=self.tests.is_fuzzy)
            for one, other in zip(actual, expected, strict=True)
        )
        if not is_same:
            self._fail(
                wanted.line, f"{wanted.expression} at {at} differs", _format_samples(expected), _format_samples(actual)
            )

    def _fail(self, line: int, message: str, expected: tuple[str, ...] = (), actual: tuple[str, ...] = ()) -> None:
        self.failures.append(Failure(self.tests.path, line, self.test.name, message, expected, actual))


def _is_same(one: float | Histogram, other: float | Histogram) -> bool:
    """Return whether two samples are the same, where NaN equals itself."""
    if isinstance(one, Histogram) or isinstance(other, Histogram):
        return isinstance(one, Histogram) and isinstance(other, Histogram) and _is_same_histogram(one, other)
    return one == other or (math.isnan(one) and math.isnan(other))


def _is_equal(one: float | Histogram, other: float | Histogram, *, is_fuzzy: bool) -> bool:
    if isinstance(one, Histogram) or isinstance(other, Histogram):
        return isinstance(one, Histogram) and isinstance(other, Histogram) and _is_same_histogram(one, other)
    near = (other, math.nextafter(other, -math.inf), math.nextafter(other, math.inf)) if is_fuzzy else (other,)
    return any(one == value for value in near)


def _is_same_histogram(one: Histogram, other: Histogram) -> bool:
    fields = [
        (each.schema, each.count, each.sum, each.zero_threshold, each.zero_count, each.bounds, each.hint)
        for each in (one, other)
    ]
    return fields[0] == fields[1] and one.positive.equals(other.positive) and one.negative.equals(other.negative)


def _format_alerts(alerts: Sequence[tuple[Labels, Labels]]) -> tuple[str, ...]:
    return tuple(f"labels {format_labels(labels)}, annotations {format_labels(notes)}" for labels, notes in alerts)


def _format_samples(samples: Vector) -> tuple[str, ...]:
    return tuple(
        f"{format_labels(labels)} {value if isinstance(value, Histogram) else format_general(value)}"
        for labels, value in samples
    )
