"""Instant and range queries: parse, evaluate at all steps, remove names, sort."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from neve.errors import EvaluationFailed
from neve.promql.annotations import Annotations
from neve.promql.budget import weigh_histogram
from neve.promql.evaluator import Evaluator, Options, QueryTimes
from neve.promql.functions.extended_ranges import extend_floats
from neve.promql.language.checks import value_type
from neve.promql.language.parser import parse
from neve.promql.language.syntax import Node, ValueType
from neve.promql.matrix import Matrix, Scalar, String, clean_names
from neve.promql.selectors import RangeVector, select_range

if TYPE_CHECKING:
    from neve.promql.histograms.native import Histogram
    from neve.promql.labels import Labels
    from neve.promql.series import Integers, SeriesSource

__all__ = ["Engine", "Result", "ResultKind", "SeriesResult"]

ResultKind = str  # vector, matrix, scalar, string


@dataclass(frozen=True, slots=True)
class SeriesResult:
    """Series of a result: times in milliseconds and values, floats and histograms apart."""

    labels: Labels
    floats: list[tuple[int, float]]
    histograms: list[tuple[int, Histogram]]


@dataclass(frozen=True, slots=True)
class Result:
    """Result of a query. `series` is empty for scalars and strings."""

    kind: ResultKind
    series: list[SeriesResult]
    scalar: tuple[int, float] | None = None
    text: str | None = None
    warnings: tuple[str, ...] = ()
    infos: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Engine:
    """PromQL over a source of series."""

    source: SeriesSource
    options: Options = field(default_factory=Options)

    def query(self, text: str, time_ms: int) -> Result:
        """Return the value of an expression at one time.

        Raises `InvalidExpression`, `EvaluationFailed` or `LimitExceeded`.
        """
        node = parse(text)
        evaluator = self._start(QueryTimes(time_ms, time_ms, 0), np.array([time_ms], np.int64))
        with np.errstate(all="ignore"):
            if value_type(node) is ValueType.MATRIX:
                series = _list_range(select_range(evaluator, node), evaluator)
                return _finish(Result("matrix", series), evaluator, text)
            value = evaluator.evaluate(node)
            if isinstance(value, String):
                return _finish(Result("string", [], text=value.value), evaluator, text)
            if isinstance(value, Scalar):
                return _finish(Result("scalar", [], scalar=(time_ms, float(value.values[0]))), evaluator, text)
            return _finish(Result("vector", _list_series(clean_names(value), evaluator)), evaluator, text)

    def query_range(self, text: str, start_ms: int, end_ms: int, step_ms: int) -> Result:
        """Return the value of an expression at each step from start to end, both inclusive.

        Raises `InvalidExpression`, `EvaluationFailed` or `LimitExceeded`.
        """
        node = parse(text)
        _check_range(node)
        count = (end_ms - start_ms) // step_ms + 1
        times = start_ms + np.arange(max(count, 0), dtype=np.int64) * step_ms
        evaluator = self._start(QueryTimes(start_ms, end_ms, step_ms), times)
        if not len(times):
            return Result("matrix", [])
        with np.errstate(all="ignore"):
            value = evaluator.evaluate(node)
            if isinstance(value, Scalar):
                points = list(zip(times.tolist(), value.values.tolist(), strict=True))
                return _finish(Result("matrix", [SeriesResult((), points, [])]), evaluator, text)
            if not isinstance(value, Matrix):
                raise EvaluationFailed("expected a scalar or an instant vector in a range query")
            series = sorted(_list_series(clean_names(value), evaluator), key=lambda one: one.labels)
        return _finish(Result("matrix", series), evaluator, text)

    def _start(self, query: QueryTimes, times: Integers) -> Evaluator:
        budget = self.options.make_budget()
        budget.charge(len(times))
        return Evaluator(self.source, self.options, query, times, Annotations(), budget)


def _check_range(node: Node) -> None:
    found = value_type(node)
    if found not in {ValueType.SCALAR, ValueType.VECTOR}:
        raise EvaluationFailed(
            f'invalid expression type "{found.value}" for range query, must be Scalar or instant Vector'
        )


def _finish(result: Result, evaluator: Evaluator, text: str) -> Result:
    budget = evaluator.options.make_budget()  # a new one: vector matching may copy one label to many series
    for one in result.series:
        budget.charge_labels(sum(len(name) + len(value) for name, value in one.labels))
    warnings, infos = evaluator.annotations.format(text)
    return replace(result, warnings=tuple(warnings), infos=tuple(infos))


def _list_series(matrix: Matrix, evaluator: Evaluator) -> list[SeriesResult]:
    floats, histograms = matrix.is_float(), matrix.is_histogram()
    times = evaluator.times
    found = []
    evaluator.budget.charge_points(int(floats.sum()))
    if matrix.histograms is not None:
        for cell in matrix.histograms[histograms]:
            evaluator.budget.charge_points(weigh_histogram(cell))
    for row, labels in enumerate(matrix.labels):
        chosen = floats[row]
        points = list(zip(times[chosen].tolist(), matrix.values[row, chosen].tolist(), strict=True))
        cells: list[tuple[int, Histogram]] = []
        if matrix.histograms is not None:
            chosen = histograms[row]
            cells = list(zip(times[chosen].tolist(), matrix.histograms[row, chosen].tolist(), strict=True))
        if points or cells:
            found.append(SeriesResult(labels, points, cells))
    return found


def _list_range(vector: RangeVector, evaluator: Evaluator) -> list[SeriesResult]:
    """Return the samples of a range vector at its only step."""
    found = []
    for row, labels in enumerate(vector.labels):
        times, floats, _ = vector.window_floats(row, 0)
        moments, histograms, _ = vector.window_histograms(row, 0)
        if times and (vector.is_anchored or vector.is_smoothed):
            edges = int(vector.starts[0]), int(vector.ends[0])
            times, floats = extend_floats(times, floats, *edges, is_smoothed=vector.is_smoothed)
        evaluator.budget.charge_points(len(times) + sum(weigh_histogram(one) for one in histograms))
        if times or moments:
            points = list(zip(times, floats, strict=True))
            found.append(SeriesResult(labels, points, list(zip(moments, histograms, strict=True))))
    return sorted(found, key=lambda one: one.labels)
