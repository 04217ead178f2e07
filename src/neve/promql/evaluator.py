"""Evaluate a syntax tree at all steps at once."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from neve.errors import EvaluationFailed
from neve.promql.budget import Budget, check_deadline
from neve.promql.language.checks import value_type
from neve.promql.language.syntax import (
    Aggregate,
    Binary,
    Call,
    Duration,
    DurationOperation,
    Edge,
    Evaluated,
    Node,
    Number,
    Paren,
    Text,
    Timing,
    Unary,
    ValueType,
    VectorSelector,
)
from neve.promql.matrix import Matrix, Scalar, String, Value

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from neve.lexical.matchers import Matcher
    from neve.promql.annotations import Annotations
    from neve.promql.series import Integers, SeriesSet, SeriesSource

__all__ = ["Evaluator", "Options", "QueryTimes", "resolve_duration"]

_MAX_SECONDS = (1 << 63) / 1e9
_OPERATORS: dict[str, Callable[[float, float], float]] = {
    "+": lambda left, right: left + right,
    "-": lambda left, right: left - right,
    "*": lambda left, right: left * right,
    "/": lambda left, right: left / right,
    "%": math.fmod,
    "^": lambda left, right: float(left**right),
    "min_of": min,
    "max_of": max,
}


@dataclass(frozen=True, slots=True)
class Options:
    """Settings of the evaluation."""

    lookback_ms: int = 300_000  # a sample counts for this long
    default_step_ms: int = 60_000  # step of a subquery that does not name one
    max_samples: int = 50_000_000  # samples and cells that a query may hold
    max_label_chars: int = 1 << 25  # of labels that functions make, and again of the labels in the result
    max_points: int = 50_000_000  # of the result, where a native histogram counts by its buckets
    max_visits: int = 10_000_000_000  # samples that functions look at one by one, in all windows
    deadline: float | None = None  # of the monotonic clock
    uses_start_times: bool = False  # start times of samples show counter resets

    def make_budget(self) -> Budget:
        """Return the budget of one query."""
        return Budget(self.max_samples, self.max_label_chars, self.max_points, self.max_visits, self.deadline)


@dataclass(frozen=True, slots=True)
class QueryTimes:
    """Time range of the whole query. An instant query has a step of 0."""

    start_ms: int
    end_ms: int
    step_ms: int


@dataclass(frozen=True, slots=True)
class Evaluator:
    """State of one evaluation: the steps, the query, the storage, and what was collected."""

    source: SeriesSource
    options: Options
    query: QueryTimes
    times: Integers
    annotations: Annotations
    budget: Budget
    cache: dict[tuple[tuple[Matcher, ...], int, int], SeriesSet] = field(default_factory=dict)
    samples_read: Integers = field(init=False)  # at each step

    def __post_init__(self) -> None:
        object.__setattr__(self, "samples_read", np.zeros(len(self.times), np.int64))

    def at_times(self, times: Integers) -> Evaluator:
        """Return an evaluator for other steps of the same query."""
        return Evaluator(self.source, self.options, self.query, times, self.annotations, self.budget, self.cache)

    @property
    def steps(self) -> int:
        """Return the number of steps."""
        return len(self.times)

    def evaluate(self, node: Node) -> Value:
        """Return the value of an expression."""
        check_deadline(self.budget.deadline)
        return _evaluators()[type(node)](self, node)

    def vector(self, node: Node) -> Matrix:
        """Return the value of an expression that is an instant vector."""
        value = self.evaluate(node)
        if not isinstance(value, Matrix):
            raise TypeError(f"expected an instant vector, got {value_type(node)}")
        return value

    def scalar(self, node: Node) -> Scalar:
        """Return the value of an expression that is a scalar."""
        value = self.evaluate(node)
        if not isinstance(value, Scalar):
            raise TypeError(f"expected a scalar, got {value_type(node)}")
        return value

    def text(self, node: Node) -> str:
        """Return the value of an expression that is a string."""
        value = self.evaluate(node)
        if not isinstance(value, String):
            raise TypeError(f"expected a string, got {value_type(node)}")
        return value.value

    def is_vector(self, node: Node) -> bool:
        """Return whether an expression is an instant vector."""
        return value_type(node) is ValueType.VECTOR

    def duration(self, value: Duration, *, may_be_negative: bool = False) -> int:
        """Return a duration in milliseconds."""
        length = self.query.end_ms - self.query.start_ms
        return resolve_duration(value, self.query.step_ms, length, may_be_negative=may_be_negative)

    def selection_times(self, timing: Timing) -> Integers:
        """Return the times at which a selector looks, after `@` and `offset`."""
        offset = 0 if timing.offset is None else self.duration(timing.offset, may_be_negative=True)
        fixed = timing.at_ms
        if timing.at_edge is not None:
            fixed = self.query.start_ms if timing.at_edge is Edge.START else self.query.end_ms
        times = self.times if fixed is None else np.full(self.steps, fixed, np.int64)
        return times - np.int64(offset)

    def select(self, matchers: Sequence[Matcher], start_ms: int, end_ms: int) -> SeriesSet:
        """Return series and samples of the storage. The same selection is read once."""
        key = (tuple(matchers), start_ms, end_ms)
        if key not in self.cache:
            self.cache[key] = self.source.select(matchers, start_ms, end_ms)
            self.budget.charge(self.cache[key].count_samples())
        return self.cache[key]

    def charge_cells(self, series: int, steps: int | None = None) -> None:
        """Count the cells of a matrix."""
        self.budget.charge(series * (self.steps if steps is None else steps))


def resolve_duration(value: Duration, step_ms: int, range_ms: int, *, may_be_negative: bool = False) -> int:
    """Return a duration in milliseconds. Raises `EvaluationFailed` if it is not positive or too large."""
    if isinstance(value, Number):
        return int(round(value.value * 1e9) / 1e6)
    place = f"{value.span.start}:{value.span.end}"
    seconds = _evaluate(value, step_ms / 1000, range_ms / 1000)
    if not math.isfinite(seconds):
        raise EvaluationFailed(f"{place}: duration is NaN or infinite")
    if seconds <= 0 and not may_be_negative:
        raise EvaluationFailed(f"{place}: duration must be greater than 0")
    if abs(seconds) > _MAX_SECONDS:
        raise EvaluationFailed(f"{place}: duration is out of range")
    return int(seconds * 1000)


def _evaluate(value: Duration, step: float, length: float) -> float:
    if isinstance(value, Number):
        return value.value
    if value.operator in {"step", "range"}:
        return step if value.operator == "step" else length
    right = _evaluate(value.right, step, length) if value.right is not None else 0.0
    if value.left is None:
        return -right if value.operator == "-" else right
    return _apply(value, _evaluate(value.left, step, length), right)


def _apply(value: DurationOperation, left: float, right: float) -> float:
    if value.operator in {"/", "%"} and right == 0:
        words = "division" if value.operator == "/" else "modulo"
        raise EvaluationFailed(f"{value.span.start}:{value.span.end}: {words} by zero")
    try:
        return _OPERATORS[value.operator](left, right)
    except (OverflowError, ZeroDivisionError, TypeError, ValueError):
        return math.nan


@cache
def _evaluators() -> dict[type, Callable[[Evaluator, Any], Value]]:
    """Return the functions that evaluate each kind of node. Their modules evaluate operands by this one."""
    from neve.promql import aggregations, operators, selectors  # noqa: PLC0415  # as said
    from neve.promql.functions import FUNCTIONS  # noqa: PLC0415  # as said
    from neve.promql.functions.rolled_ranges import evaluate_rolled  # noqa: PLC0415  # as said

    def evaluate_call(evaluator: Evaluator, node: Call) -> Value:
        selectors.check_modifiers(node)
        found = evaluate_rolled(evaluator, node)
        return FUNCTIONS[node.function](evaluator, node) if found is None else found

    return {
        Number: lambda evaluator, node: Scalar(np.full(evaluator.steps, node.value)),
        Text: lambda _evaluator, node: String(node.value),
        Evaluated: lambda _evaluator, node: node.value,
        Paren: lambda evaluator, node: evaluator.evaluate(node.expression),
        Unary: operators.evaluate_unary,
        Binary: operators.evaluate_binary,
        Aggregate: aggregations.evaluate_aggregate,
        VectorSelector: selectors.evaluate_selector,
        Call: evaluate_call,
    }
