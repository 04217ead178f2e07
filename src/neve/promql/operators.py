"""Unary and binary operators on samples, and between scalars and vectors."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from neve.promql.histograms.arithmetic import IncompatibleSchemas, add, subtract
from neve.promql.histograms.native import Histogram, ResetHint
from neve.promql.histograms.trim import trim
from neve.promql.language.syntax import (
    COMPARISONS,
    NAME_DROPPING_OPERATORS,
    SET_OPERATORS,
    TRIM_OPERATORS,
    Binary,
    Unary,
)
from neve.promql.matrix import Matrix, Scalar, Value

if TYPE_CHECKING:
    from collections.abc import Callable

    from neve.promql.evaluator import Evaluator
    from neve.promql.series import Bools, Floats

__all__ = ["CellPair", "Notes", "combine_cells", "evaluate_binary", "evaluate_unary"]

_ARITHMETIC: dict[str, Callable[[Floats, Floats], Floats]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
    "%": np.fmod,
    "^": np.power,
    "atan2": np.arctan2,
}
_COMPARISONS: dict[str, Callable[[Floats, Floats], Bools]] = {
    "==": np.equal,
    "!=": np.not_equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}


def evaluate_unary(evaluator: Evaluator, node: Unary) -> Value:
    """Return a value with its sign changed."""
    value = evaluator.evaluate(node.expression)
    if node.operator == "+":
        return value
    if isinstance(value, Scalar):
        return Scalar(-value.values)
    matrix = evaluator.vector(node.expression) if not isinstance(value, Matrix) else value
    histograms = matrix.histograms
    if histograms is not None:
        there = matrix.is_histogram()
        histograms = histograms.copy()
        for one in histograms[there]:
            evaluator.budget.charge_histogram(one)
        histograms[there] = [one.scale(-1.0) for one in histograms[there]]
    return replace(matrix, values=-matrix.values, histograms=histograms, name_dropped=np.ones(len(matrix), np.bool_))


def evaluate_binary(evaluator: Evaluator, node: Binary) -> Value:
    """Return the value of a binary operation."""
    from neve.promql import matching  # noqa: PLC0415  # it combines samples by this module

    left, right = evaluator.evaluate(node.left), evaluator.evaluate(node.right)
    if isinstance(left, Matrix) and isinstance(right, Matrix):
        if node.operator in SET_OPERATORS:
            return matching.evaluate_set(node, left, right)
        return matching.evaluate_matching(evaluator, node, left, right)
    if isinstance(left, Matrix) and isinstance(right, Scalar):
        return _with_scalar(evaluator, node, left, right, is_swapped=False)
    if isinstance(left, Scalar) and isinstance(right, Matrix):
        return _with_scalar(evaluator, node, right, left, is_swapped=True)
    if isinstance(left, Scalar) and isinstance(right, Scalar):
        values, kept = combine_floats(node.operator, left.values, right.values)
        return Scalar(kept.astype(np.float64) if node.operator in COMPARISONS else values)
    raise TypeError("expected scalars or instant vectors")


def combine_floats(operator: str, left: Floats, right: Floats) -> tuple[Floats, Bools]:
    """Return the results of an operator on floats, and whether each is kept."""
    if operator in _COMPARISONS:
        left = np.broadcast_to(left, np.broadcast_shapes(left.shape, right.shape))
        return left, _COMPARISONS[operator](left, right)
    if operator in TRIM_OPERATORS:
        shape = np.broadcast_shapes(left.shape, right.shape)
        return np.zeros(shape), np.zeros(shape, np.bool_)
    values = _ARITHMETIC[operator](left, right)
    return values, np.ones(values.shape, np.bool_)


@dataclass(frozen=True, slots=True)
class Notes:
    """Annotations of one step: only the last one of a step is reported."""

    evaluator: Evaluator
    node: Binary
    by_step: dict[int, Callable[[], None]]

    def incompatible(self, step: int, left: str, right: str) -> None:
        """Note that an operator has no result for these types."""
        node, annotations = self.node, self.evaluator.annotations
        self.by_step[step] = lambda: annotations.incompatible_types(node.operator, left, right, node.span)

    def add(self, step: int, report: Callable[[], None]) -> None:
        """Note something else."""
        self.by_step[step] = report

    def report(self) -> None:
        """Add the annotations to those of the query."""
        for report in self.by_step.values():
            report()


CellPair = tuple[float | Histogram, float | Histogram]


def combine_cells(notes: Notes, step: int, pair: CellPair) -> tuple[float | Histogram, bool] | None:
    """Return the result of an operator on a pair with a histogram, and whether it is kept; `None` for no result."""
    left, right = pair
    for one in pair:
        if isinstance(one, Histogram):
            notes.evaluator.budget.charge_histogram(one)
    operator = notes.node.operator
    if isinstance(left, Histogram) and isinstance(right, Histogram):
        return _combine_histograms(notes, step, left, right)
    if isinstance(left, Histogram) and isinstance(right, float):
        if operator == "*":
            return left.scale(right).compact(), True
        if operator == "/":
            return left.divide(right).compact(), True
        if operator in TRIM_OPERATORS:
            return trim(left, right, is_upper=operator == "</"), True
    elif isinstance(right, Histogram) and isinstance(left, float) and operator == "*":
        return right.scale(left).compact(), True
    names = ["histogram" if isinstance(one, Histogram) else "float" for one in pair]
    notes.incompatible(step, *names)
    return None


def _combine_histograms(notes: Notes, step: int, left: Histogram, right: Histogram) -> tuple[Histogram, bool] | None:
    operator, span, annotations = notes.node.operator, notes.node.span, notes.evaluator.annotations
    if operator in {"==", "!="}:
        return left, left.equals(right) == (operator == "==")
    if operator not in {"+", "-"}:
        notes.incompatible(step, "histogram", "histogram")
        return None
    try:
        found = add(left, right) if operator == "+" else subtract(left, right)
    except IncompatibleSchemas:
        notes.add(step, lambda: annotations.incompatible_buckets(operator, span))
        return None
    words = "addition" if operator == "+" else "subtraction"
    if found.is_reconciled:
        notes.add(step, lambda: annotations.reconciled_buckets(words, span))
    if found.has_collision:
        notes.add(step, lambda: annotations.reset_collision(words, span))
        return None
    result = found.histogram.compact()
    return result.with_hint(ResetHint.GAUGE) if operator == "-" else result, True


def _with_scalar(evaluator: Evaluator, node: Binary, matrix: Matrix, scalar: Scalar, *, is_swapped: bool) -> Matrix:
    left, right = (scalar.values[None, :], matrix.values) if is_swapped else (matrix.values, scalar.values[None, :])
    is_comparison = node.operator in COMPARISONS
    values, kept = combine_floats(node.operator, left, right)
    if is_comparison:
        values = np.broadcast_to(matrix.values, kept.shape)
    if node.is_bool:
        values, kept = kept.astype(np.float64), np.ones(kept.shape, np.bool_)
    floats = matrix.is_float()
    if node.operator in TRIM_OPERATORS and floats.any():
        evaluator.annotations.incompatible_types(node.operator, "float", "float", node.span)
    names = matrix.name_dropped
    if node.is_bool or node.operator in NAME_DROPPING_OPERATORS:
        names = np.ones(len(matrix), np.bool_)
    result = Matrix(matrix.labels, values, floats & kept, None, names)
    if matrix.histograms is not None:
        result = _with_histograms(evaluator, node, matrix, scalar, result, is_swapped=is_swapped)
    return result.mask(result.present)


def _with_histograms(
    evaluator: Evaluator, node: Binary, matrix: Matrix, scalar: Scalar, result: Matrix, *, is_swapped: bool
) -> Matrix:
    """Return the result with the cells that are histograms."""
    notes = Notes(evaluator, node, {})
    present, cells = result.present.copy(), np.full(result.present.shape, None, object)
    for row, step in np.argwhere(matrix.is_histogram()).tolist():
        one, number = matrix.histograms[row, step], float(scalar.values[step])  # type: ignore[index]  # there are histograms
        pair: CellPair = (number, one) if is_swapped else (one, number)
        found = combine_cells(notes, step, pair)
        if found is not None:
            cells[row, step], present[row, step] = found[0], True
    notes.report()
    return replace(result, present=present, histograms=cells)
