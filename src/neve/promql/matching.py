"""Vector matching: pair the series of two vectors by their labels, and the set operators."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from neve.errors import EvaluationFailed
from neve.promql.labels import Labels, drop_name, format_labels, get, keep, set_label, without
from neve.promql.language.syntax import METRIC_NAME, NAME_DROPPING_OPERATORS, Binary, Cardinality, VectorMatching
from neve.promql.matrix import Cells, Matrix, empty_matrix, is_filled, join_matrices, merge_rows
from neve.promql.operators import CellPair, Notes, combine_cells, combine_floats

if TYPE_CHECKING:
    from collections.abc import Callable

    from neve.promql.evaluator import Evaluator
    from neve.promql.series import Bools, Floats, Integers

__all__ = ["evaluate_matching", "evaluate_set"]

_AMBIGUOUS = "multiple matches for labels: many-to-one matching must be explicit (group_left/group_right)"
_NOT_UNIQUE = "multiple matches for labels: grouping labels must ensure unique matches"


def match_labels(matching: VectorMatching) -> Callable[[Labels], Labels]:
    """Return the function that gives the labels by which series match."""
    if matching.is_on:
        names = frozenset(matching.labels)
        return lambda labels: keep(labels, names)
    ignored = frozenset((*matching.labels, METRIC_NAME))
    return lambda labels: without(labels, ignored)


def _group(left: Matrix, right: Matrix, matching: VectorMatching) -> tuple[Integers, Integers, list[Labels]]:
    """Return the number of each series' match group on both sides, and the labels of the groups."""
    signature = match_labels(matching)
    groups: dict[Labels, int] = {}
    sides = [
        np.array([groups.setdefault(signature(labels), len(groups)) for labels in side.labels], np.int64)
        for side in (left, right)
    ]
    return sides[0], sides[1], list(groups)


def _count_present(matrix: Matrix, groups: Integers, count: int) -> Integers:
    """Return how many series of each match group have a sample at each step."""
    found = np.zeros((count, matrix.present.shape[1]), np.int64)
    np.add.at(found, groups, matrix.present)
    return found


def evaluate_set(node: Binary, left: Matrix, right: Matrix) -> Matrix:
    """Return the value of `and`, `or`, `unless`."""
    left_groups, right_groups, groups = _group(left, right, node.matching)
    if node.operator == "or":
        there = _count_present(left, left_groups, len(groups)) > 0
        return merge_rows(join_matrices(left, right.mask(~there[right_groups])))
    there = _count_present(right, right_groups, len(groups)) > 0
    wanted = there[left_groups]
    return left.mask(wanted if node.operator == "and" else ~wanted)


@dataclass(frozen=True, slots=True)
class _Pairs:
    """Pairs of rows. The many side is first. A row of -1 is filled with a constant."""

    many: Integers
    one: Integers
    mask: Bools
    labels: list[Labels]
    groups: Integers


def evaluate_matching(evaluator: Evaluator, node: Binary, left: Matrix, right: Matrix) -> Matrix:
    """Return the value of an arithmetic or comparison operator between two vectors."""
    matching = node.matching
    is_swapped = matching.cardinality is Cardinality.ONE_TO_MANY
    many, one = (right, left) if is_swapped else (left, right)
    if not len(many) and not len(one):
        return empty_matrix(evaluator.steps)
    many_groups, one_groups, groups = _group(many, one, matching)
    has_fill = matching.fill_left is not None or matching.fill_right is not None
    active = np.ones(evaluator.steps, np.bool_) if has_fill else many.present.any(axis=0) & one.present.any(axis=0)
    one_counts = _count_present(one, one_groups, len(groups))
    _reject_duplicates(node, one, one_groups, groups, (one_counts > 1) & active)
    pairs = _pair_rows(evaluator, many, one, (many_groups, one_groups), one_counts, node)
    return _combine(evaluator, node, many, one, pairs)


def _reject_duplicates(node: Binary, one: Matrix, groups: Integers, names: list[Labels], duplicates: Bools) -> None:
    if not duplicates.any():
        return
    step = int(np.argwhere(duplicates.T)[0][0])
    group = int(np.flatnonzero(duplicates[:, step])[0])
    rows = np.flatnonzero((groups == group) & one.present[:, step])[:2]
    first, second = sorted(format_labels(one.labels[row]) for row in rows.tolist())
    side = "left" if node.matching.cardinality is Cardinality.ONE_TO_MANY else "right"
    raise EvaluationFailed(
        f"found duplicate series for the match group {format_labels(names[group])} on the {side} hand-side of the "
        f"operation: [{first}, {second}];many-to-many matching not allowed: matching labels must be unique on one side"
    )


def _pair_rows(
    evaluator: Evaluator,
    many: Matrix,
    one: Matrix,
    groups: tuple[Integers, Integers],
    one_counts: Integers,
    node: Binary,
) -> _Pairs:
    many_groups, one_groups = groups
    order = np.argsort(one_groups, kind="stable")
    low = np.searchsorted(one_groups[order], many_groups, side="left")
    high = np.searchsorted(one_groups[order], many_groups, side="right")
    partners = high - low
    evaluator.charge_cells(int(partners.sum()))
    many_rows = np.repeat(np.arange(len(many), dtype=np.int64), partners)
    first = np.repeat(low - np.concatenate(([0], np.cumsum(partners)[:-1])), partners) if len(low) else low
    one_rows = order[first + np.arange(len(many_rows))].astype(np.int64)
    pair_groups = many_groups[many_rows]
    mask = many.present[many_rows] & one.present[one_rows]
    matching = node.matching
    signature = match_labels(matching)
    labels = []
    for left, right in zip(many_rows.tolist(), one_rows.tolist(), strict=True):
        evaluator.budget.visit()
        labels.append(_result_labels(node, many.labels[left], one.labels[right]))
    pairs = _Pairs(many_rows, one_rows, mask, labels, pair_groups)
    if matching.fill_right is not None:
        missing = many.present & (one_counts[many_groups] == 0)
        rows = np.flatnonzero(missing.any(axis=1))
        found = [_result_labels(node, many.labels[row], signature(many.labels[row])) for row in rows.tolist()]
        pairs = _append(pairs, rows, np.full(len(rows), -1), missing[rows], found, many_groups[rows])
    if matching.fill_left is not None:
        matched = np.zeros(one_counts.shape, np.bool_)
        np.logical_or.at(matched, pairs.groups, pairs.mask)
        missing = one.present & ~matched[one_groups]
        rows = np.flatnonzero(missing.any(axis=1))
        found = [_result_labels(node, signature(one.labels[row]), one.labels[row]) for row in rows.tolist()]
        pairs = _append(pairs, np.full(len(rows), -1), rows, missing[rows], found, one_groups[rows])
    return pairs


def _append(
    pairs: _Pairs, many: Integers, one: Integers, mask: Bools, labels: list[Labels], groups: Integers
) -> _Pairs:
    return _Pairs(
        np.concatenate((pairs.many, many)),
        np.concatenate((pairs.one, one)),
        np.concatenate((pairs.mask, mask)),
        pairs.labels + labels,
        np.concatenate((pairs.groups, groups)),
    )


def _result_labels(node: Binary, many: Labels, one: Labels) -> Labels:
    matching = node.matching
    labels = drop_name(many) if node.operator in NAME_DROPPING_OPERATORS else many
    if matching.cardinality is Cardinality.ONE_TO_ONE:
        names = frozenset(matching.labels)
        labels = keep(labels, names) if matching.is_on else without(labels, names)
    for name in matching.include:
        labels = set_label(labels, name, get(one, name))
    return labels


def _fill(rows: Integers, matrix: Matrix, value: float | None) -> Floats:
    picked: Floats = (
        matrix.values[np.maximum(rows, 0)] if len(matrix) else np.zeros((len(rows), matrix.present.shape[1]))
    )
    if value is not None:
        picked = np.where((rows < 0)[:, None], value, picked)
    return picked


def _combine(evaluator: Evaluator, node: Binary, many: Matrix, one: Matrix, pairs: _Pairs) -> Matrix:
    matching = node.matching
    is_swapped = matching.cardinality is Cardinality.ONE_TO_MANY
    many_values, one_values = _fill(pairs.many, many, matching.fill_left), _fill(pairs.one, one, matching.fill_right)
    left, right = (one_values, many_values) if is_swapped else (many_values, one_values)
    values, kept = combine_floats(node.operator, left, right)
    matched = pairs.mask.copy()
    result = Matrix(pairs.labels, values, matched & kept, None, np.full(len(pairs.labels), node.is_bool))
    notes = Notes(evaluator, node, {})
    cells = (_pick(many, pairs.many), _pick(one, pairs.one))
    has_histogram = (is_filled(cells[0]) | is_filled(cells[1])) & pairs.mask
    if has_histogram.any() or node.operator in {"</", ">/"}:
        sides = (cells[1], cells[0]) if is_swapped else cells
        result, matched = _combine_cells(notes, result, (left, right), sides, matched, has_histogram)
    _reject_ambiguous(node, pairs, matched)
    if node.is_bool:
        histograms = None
        truth = result.present
        if has_histogram.any():
            truth = truth & matched
        result = replace(result, values=truth.astype(np.float64), present=matched, histograms=histograms)
    notes.report()
    return merge_rows(result.mask(result.present))


def _pick(matrix: Matrix, rows: Integers) -> Cells:
    shape = (len(rows), matrix.present.shape[1])
    if matrix.histograms is None or not len(matrix):
        return np.full(shape, None, object)
    picked = matrix.histograms[np.maximum(rows, 0)].copy()
    picked[~(matrix.present[np.maximum(rows, 0)]) | (rows < 0)[:, None]] = None
    return picked


def _combine_cells(
    notes: Notes,
    result: Matrix,
    floats: tuple[Floats, Floats],
    cells: tuple[Cells, Cells],
    matched: Bools,
    has_histogram: Bools,
) -> tuple[Matrix, Bools]:
    """Return the result with the pairs that have a histogram. Pairs without a result don't count as matched."""
    present, histograms = result.present.copy(), np.full(result.present.shape, None, object)
    is_trim = notes.node.operator in {"</", ">/"}
    chosen = matched if is_trim else has_histogram
    for step, row in np.argwhere(chosen.T).tolist():
        pair: CellPair = tuple(  # type: ignore[assignment]  # two sides
            float(side[row, step]) if cell[row, step] is None else cell[row, step]
            for side, cell in zip(floats, cells, strict=True)
        )
        found = combine_cells(notes, step, pair)
        present[row, step] = found is not None and found[1]
        if found is None:
            matched[row, step] = False
        elif found[1]:
            histograms[row, step] = found[0]
    return replace(result, present=present, histograms=histograms), matched


def _reject_ambiguous(node: Binary, pairs: _Pairs, matched: Bools) -> None:
    """Raise if two pairs give the same result at one step."""
    is_one_to_one = node.matching.cardinality is Cardinality.ONE_TO_ONE
    keys: dict[tuple[int, Labels], int] = {}
    places = [
        keys.setdefault((group, () if is_one_to_one else labels), len(keys))
        for group, labels in zip(pairs.groups.tolist(), pairs.labels, strict=True)
    ]
    if len(keys) == len(places):
        return
    counts = np.zeros((len(keys), matched.shape[1]), np.int64)
    np.add.at(counts, np.array(places), matched)
    if (counts > 1).any():
        raise EvaluationFailed(_AMBIGUOUS if is_one_to_one else _NOT_UNIQUE)
