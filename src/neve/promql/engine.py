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
    from collections.abc import Sequence

    from neve.promql.histograms.native import Histogram
    from neve.promql.labels import Labels
    from neve.promql.matrix import Value
    from neve.promql.series import Bools, Floats, Integers, SeriesSource

__all__ = ["Engine", "Result", "ResultKind", "SampleCounts", "SeriesResult", "finish_matrix", "finish_vector"]

ResultKind = str  # vector, matrix, scalar, string


@dataclass(frozen=True, slots=True, eq=False)
class SeriesResult:
    """Series of a result: times in milliseconds and values of floats, and histograms apart."""

    labels: Labels
    times_ms: Integers
    values: Floats
    histograms: Sequence[tuple[int, Histogram]] = ()

    @classmethod
    def of_points(
        cls, labels: Labels, points: Sequence[tuple[int, float]], histograms: Sequence[tuple[int, Histogram]] = ()
    ) -> SeriesResult:
        """Return a series of plain points."""
        times, values = zip(*points, strict=True) if points else ((), ())
        return cls(labels, np.array(times, np.int64), np.array(values, np.float64), histograms)

    @property
    def floats(self) -> list[tuple[int, float]]:
        """Return times and values of the floats."""
        return list(zip(self.times_ms.tolist(), self.values.tolist(), strict=True))


@dataclass(frozen=True, slots=True, eq=False)
class SampleCounts:
    """Samples that a query read at each step, and the largest number of samples and cells that it held."""

    times_ms: Integers
    counts: Integers
    peak: int


@dataclass(frozen=True, slots=True)
class Result:
    """Result of a query. `series` is empty for scalars and strings."""

    kind: ResultKind
    series: list[SeriesResult]
    scalar: tuple[int, float] | None = None
    text: str | None = None
    warnings: tuple[str, ...] = ()
    infos: tuple[str, ...] = ()
    samples: SampleCounts | None = None


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
            return finish_vector(value, evaluator, text)

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
            return finish_matrix(evaluator.evaluate(node), evaluator, text)

    def _start(self, query: QueryTimes, times: Integers) -> Evaluator:
        budget = self.options.make_budget()
        budget.charge(len(times))
        return Evaluator(self.source, self.options, query, times, Annotations(), budget)


def finish_vector(value: Matrix, evaluator: Evaluator, text: str) -> Result:
    """Return the result of an instant query whose value is a vector."""
    return _finish(Result("vector", _list_series(clean_names(value), evaluator)), evaluator, text)


def finish_matrix(value: Value, evaluator: Evaluator, text: str) -> Result:
    """Return the result of a range query. Raises `EvaluationFailed` if the value is a string."""
    if isinstance(value, Scalar):
        return _finish(Result("matrix", [SeriesResult((), evaluator.times, value.values)]), evaluator, text)
    if not isinstance(value, Matrix):
        raise EvaluationFailed("expected a scalar or an instant vector in a range query")
    series = sorted(_list_series(clean_names(value), evaluator), key=lambda one: one.labels)
    return _finish(Result("matrix", series), evaluator, text)


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
    held = evaluator.options.max_samples - evaluator.budget.samples
    samples = SampleCounts(evaluator.times, evaluator.samples_read, held)
    return replace(result, warnings=tuple(warnings), infos=tuple(infos), samples=samples)


def _list_series(matrix: Matrix, evaluator: Evaluator) -> list[SeriesResult]:
    floats, histograms = matrix.is_float(), matrix.is_histogram()
    times = evaluator.times
    found = []
    evaluator.budget.charge_points(int(floats.sum()))
    if matrix.histograms is not None:
        for cell in matrix.histograms[histograms]:
            evaluator.budget.charge_points(weigh_histogram(cell))
    is_full: Bools = np.all(floats, axis=1)
    for row, labels in enumerate(matrix.labels):
        moments, values = times, matrix.values[row]
        if not is_full[row]:
            moments, values = times[floats[row]], values[floats[row]]
        cells: list[tuple[int, Histogram]] = []
        if matrix.histograms is not None:
            chosen = histograms[row]
            cells = list(zip(times[chosen].tolist(), matrix.histograms[row, chosen].tolist(), strict=True))
        if len(moments) or cells:
            found.append(SeriesResult(labels, moments, values, cells))
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
            points, cells = list(zip(times, floats, strict=True)), list(zip(moments, histograms, strict=True))
            found.append(SeriesResult.of_points(labels, points, cells))
    return sorted(found, key=lambda one: one.labels)
