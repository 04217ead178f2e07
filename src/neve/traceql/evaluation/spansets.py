"""Spansets of traces, and the pipelines that they pass through.

A span is in one spanset at most: `by` splits them, filters shrink them, `coalesce` joins them. So the number of each
span's set, or -1, describes them all, for all traces of a batch at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from neve.errors import EvaluationFailed
from neve.traceql.evaluation.field_evaluator import evaluate
from neve.traceql.evaluation.operators import compare
from neve.traceql.evaluation.trace_tree import relate
from neve.traceql.evaluation.vectors import Vector, combine_codes, from_constant, from_numbers
from neve.traceql.language.fields import Static, Type
from neve.traceql.language.syntax import (
    Aggregate,
    Coalesce,
    Filter,
    Group,
    Pipeline,
    ScalarFilter,
    SpansetOperation,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from neve.traceql.evaluation.span_batch import SpanBatch
    from neve.traceql.language.syntax import Element

__all__ = ["Spansets", "run_pipeline"]


@dataclass(frozen=True, slots=True)
class Spansets:
    """The set of each span, or -1, their number, and values of each set by their names."""

    sets: NDArray[np.int64]
    count: int
    labels: tuple[tuple[str, Vector], ...] = ()

    def filter(self, mask: NDArray[np.bool_]) -> Spansets:
        """Return the sets with the spans of a mask. Sets without spans are left out."""
        sets = np.where(mask, self.sets, -1)
        kept = np.unique(sets[sets >= 0])
        if len(kept) == self.count:
            return Spansets(sets, self.count, self.labels)
        numbers = np.full(self.count + 1, -1, dtype=np.int64)
        numbers[kept] = np.arange(len(kept))
        return Spansets(numbers[sets], len(kept), tuple((name, one.take(kept)) for name, one in self.labels))

    @property
    def members(self) -> NDArray[np.bool_]:
        """Return which spans are in a set."""
        return self.sets >= 0

    def label(self, name: str, values: Vector) -> Spansets:
        """Return the sets with one more value each."""
        return Spansets(self.sets, self.count, (*self.labels, (name, values)))


def run_pipeline(pipeline: Pipeline, spans: SpanBatch) -> Spansets:
    """Return the spansets that a pipeline makes of whole traces."""
    return _run(pipeline, spans, Spansets(spans.traces, len(spans.firsts)))


def _run(pipeline: Pipeline, spans: SpanBatch, state: Spansets) -> Spansets:
    for element in pipeline.elements:
        state = _run_element(element, spans, state)
    return state


def _run_element(element: Element | Pipeline, spans: SpanBatch, state: Spansets) -> Spansets:
    match element:
        case Filter():
            state = state.filter(evaluate(element.condition, spans).is_true)
        case SpansetOperation():
            state = state.filter(_operate(element, spans, state))
        case Pipeline():
            state = _run(element, spans, state)
        case Group():
            state = _group(element, spans, state)
        case Coalesce():
            state = Spansets(spans.traces, len(spans.firsts)).filter(state.members)
        case ScalarFilter():
            state = _filter_scalars(element, spans, state)
    return state  # select() only adds columns to the answer


def _operate(node: SpansetOperation, spans: SpanBatch, state: Spansets) -> NDArray[np.bool_]:
    """Return the spans that an operator between two spansets keeps."""
    is_structural = node.operator not in {"&&", "||"}
    left = _find_side(node.left, spans, state, is_single=is_structural)
    right = _find_side(node.right, spans, state, is_single=is_structural)
    if node.operator == "||":
        return left | right
    if node.operator == "&&":
        has_both = _has_members(state, left) & _has_members(state, right)
        return (left | right) & has_both[state.sets] & state.members
    return relate(node.operator, spans.tree, state.sets, left, right)


def _has_members(state: Spansets, mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which sets have a span of a mask, and false for the number -1."""
    found = np.zeros(state.count + 1, dtype=bool)
    found[state.sets[mask]] = True
    return found


def _find_side(
    node: Filter | SpansetOperation | Pipeline, spans: SpanBatch, state: Spansets, *, is_single: bool
) -> NDArray[np.bool_]:
    """Return the spans of one side of an operator."""
    match node:
        case Filter():
            return evaluate(node.condition, spans).is_true & state.members
        case SpansetOperation():
            return _operate(node, spans, state)
    found = _run(node, spans, state)
    rows = np.flatnonzero(found.members)
    pairs = np.unique(np.stack([state.sets[rows], found.sets[rows]]), axis=1)
    if is_single and len(np.unique(pairs[0])) < pairs.shape[1]:
        raise EvaluationFailed(
            "structural operators need one spanset for each trace on both sides",
            hint="add coalesce() to the pipeline that has by()",
        )
    return found.members


def _group(node: Group, spans: SpanBatch, state: Spansets) -> Spansets:
    """Split sets by the value of a field. Spans without a value are a set too."""
    values = evaluate(node.operand, spans)
    rows = np.flatnonzero(state.members)
    codes = combine_codes([state.sets[rows], values.codes()[rows]])
    _, first = np.unique(codes, return_index=True)
    # New sets are in the order of the old ones, and of their first spans.
    order = np.lexsort((first, state.sets[rows[first]]))
    numbers = np.empty(len(order), dtype=np.int64)
    numbers[order] = np.arange(len(order))
    sets = np.full(len(spans), -1, dtype=np.int64)
    sets[rows] = numbers[codes]
    origins, examples = state.sets[rows[first[order]]], rows[first[order]]
    labels = tuple((name, one.take(origins)) for name, one in state.labels)
    return Spansets(sets, len(order), (*labels, (str(node), values.take(examples))))


def _filter_scalars(node: ScalarFilter, spans: SpanBatch, state: Spansets) -> Spansets:
    """Keep the sets whose aggregate compares with a number. A set without numbers is dropped."""
    if not isinstance(node.left, Aggregate) or not isinstance(node.right, Static):
        raise EvaluationFailed(f"{node} can't be evaluated")  # refused by the checks
    values = aggregate(node.left, spans, state)
    kept = compare(node.operator, values, from_constant(node.right, state.count))
    mask = np.zeros(state.count + 1, dtype=bool)
    mask[:-1] = kept
    return state.label(str(node.left), values).filter(mask[state.sets] & state.members)


def aggregate(node: Aggregate, spans: SpanBatch, state: Spansets) -> Vector:
    """Return the aggregate of each set: nil if no span of it has a number."""
    if node.operand is None:
        return from_numbers(Type.INT, np.bincount(state.sets[state.members], minlength=state.count).astype(np.int64))
    values = evaluate(node.operand, spans)
    rows = np.flatnonzero(state.members & values.is_number)
    rows = rows[np.argsort(state.sets[rows], kind="stable")]
    present, first = np.unique(state.sets[rows], return_index=True)
    if not len(rows):
        return from_constant(Static(Type.NIL, None), state.count)
    chosen = values.take(rows)
    reduced = (
        _choose(node.operator, chosen, first) if node.operator in {"min", "max"} else _sum(node.operator, chosen, first)
    )
    found = from_constant(Static(Type.NIL, None), state.count)
    found.types[present], found.numbers[present], found.floats[present] = reduced.types, reduced.numbers, reduced.floats
    return found


def _choose(operator: str, values: Vector, first: NDArray[np.int64]) -> Vector:
    """Return the smallest or largest value of each group. Of equal ones the first counts."""
    groups = np.repeat(np.arange(len(first)), np.diff(np.r_[first, len(values)]))
    floats = values.as_floats()
    order = np.lexsort((np.arange(len(values)), floats if operator == "min" else -floats, groups))
    return values.take(order[first])


def _sum(operator: str, values: Vector, first: NDArray[np.int64]) -> Vector:
    """Return the sum or average of each group: of integers or of durations exactly, else of floats."""
    counts = np.diff(np.r_[first, len(values)])
    smallest = np.minimum.reduceat(values.types, first)
    is_uniform = (smallest == np.maximum.reduceat(values.types, first)) & (smallest != Type.FLOAT)
    types = np.where(is_uniform, smallest, np.uint8(Type.FLOAT)).astype(np.uint8)
    sums, floats = np.add.reduceat(values.numbers, first), np.add.reduceat(values.as_floats(), first)
    if operator == "avg":
        is_int = types == Type.INT
        floats = np.where(is_int, sums.astype(np.float64), floats) / counts
        sums = np.sign(sums) * (np.abs(sums) // counts)
        types = np.where(is_int, np.uint8(Type.FLOAT), types).astype(np.uint8)
    return Vector(types, sums, floats)
