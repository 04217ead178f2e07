"""Quantiles and fractions of histograms: native ones, and classic ones with buckets by the label `le`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from neve.lexical.literals import LiteralError, format_float, parse_number
from neve.promql.histograms.classic import bucket_fractions, bucket_quantiles
from neve.promql.histograms.quantiles import histogram_fraction, histogram_quantile
from neve.promql.labels import Labels, get, set_label, without
from neve.promql.language.syntax import METRIC_NAME, Call
from neve.promql.matrix import Matrix, Value, empty_matrix, join_matrices, merge_rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from neve.lexical.positions import Span
    from neve.promql.evaluator import Evaluator
    from neve.promql.histograms.native import Histogram
    from neve.promql.series import Bools, Floats

__all__ = ["FUNCTIONS", "check_quantiles", "collect_histograms"]

_BUCKET = frozenset({"le"})


@dataclass(frozen=True, slots=True)
class _Classic:
    """Classic histogram: its labels, the rows of its buckets in order of their bounds, and the bounds."""

    labels: Labels
    rows: list[int]
    bounds: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class _Input:
    """Histograms of a vector: cells of native ones, and classic ones. `usable` are the cells that are not mixed up."""

    matrix: Matrix
    native: Bools
    classic: list[_Classic]
    usable: Bools


def _read_bound(text: str) -> float | None:
    try:
        return float(text) if text and text[0] not in "_" else None
    except ValueError:
        try:
            return parse_number(text)
        except (LiteralError, IndexError):
            return None


def collect_histograms(evaluator: Evaluator, matrix: Matrix, span: Span) -> _Input:
    """Return the histograms of a vector."""
    native, floats = matrix.is_histogram(), matrix.is_float()
    grouped: dict[Labels, list[tuple[float, int]]] = {}
    for row in np.flatnonzero(floats.any(axis=1)).tolist():
        labels = matrix.labels[row]
        text = get(labels, "le")
        bound = _read_bound(text)
        if bound is None:
            evaluator.annotations.bad_bucket(get(labels, METRIC_NAME), text, span)
            continue
        grouped.setdefault(without(labels, _BUCKET), []).append((bound, row))
    classic = []
    for labels, buckets in grouped.items():
        ordered = sorted(buckets, key=lambda one: one[0])
        classic.append(_Classic(labels, [row for _, row in ordered], tuple(bound for bound, _ in ordered)))
    usable = np.ones(matrix.present.shape, np.bool_)
    if native.any():
        _exclude_mixed(evaluator, matrix, classic, usable, span)
    return _Input(matrix, native & usable, classic, floats & usable)


def _exclude_mixed(
    evaluator: Evaluator,
    matrix: Matrix,
    classic: list[_Classic],
    usable: Bools,
    span: Span,
) -> None:
    """Exclude the steps at which a native and a classic histogram have the same labels."""
    native, floats = matrix.is_histogram(), matrix.is_float()
    rows = {labels: row for row, labels in enumerate(matrix.labels) if native[row].any()}
    for one in classic:
        row = rows.get(one.labels)
        if row is None:
            continue
        both = native[row] & floats[one.rows].any(axis=0)
        if both.any():
            evaluator.annotations.mixed_kinds(get(one.labels, METRIC_NAME), span)
            usable[[row, *one.rows]] &= ~both


def _native_result(
    evaluator: Evaluator, found: _Input, compute: Callable[[Histogram, int], tuple[float, str]], span: Span
) -> Matrix:
    matrix = found.matrix
    values = np.zeros(matrix.present.shape)
    for row, step in np.argwhere(found.native).tolist():
        evaluator.budget.visit()
        values[row, step], note = compute(matrix.histograms[row, step], step)  # type: ignore[index]  # there are histograms
        if note:
            evaluator.annotations.nan_observations(note, get(matrix.labels[row], METRIC_NAME), span)
    return Matrix(matrix.labels, values, found.native, None, np.ones(len(matrix), np.bool_)).mask(found.native)


def _classic_result(
    evaluator: Evaluator, found: _Input, compute: Callable[[_Classic, Floats, Bools], Floats]
) -> Matrix:
    steps = evaluator.steps
    if not found.classic:
        return empty_matrix(steps)
    values, present = np.zeros((len(found.classic), steps)), np.zeros((len(found.classic), steps), np.bool_)
    for place, one in enumerate(found.classic):
        evaluator.budget.visit(len(one.rows) * steps)
        mask = found.usable[one.rows]
        present[place] = mask.any(axis=0)
        values[place] = compute(one, found.matrix.values[one.rows], mask)
    names = np.ones(len(found.classic), np.bool_)
    return Matrix([one.labels for one in found.classic], values, present, None, names).mask(present)


def _quantile(evaluator: Evaluator, found: _Input, quantiles: Floats, span: Span) -> Matrix:
    native = _native_result(
        evaluator,
        found,
        lambda one, step: histogram_quantile(float(quantiles[step]), one),
        span,
    )

    def compute(classic: _Classic, counts: Floats, mask: Bools) -> Floats:
        values, repair = bucket_quantiles(quantiles, classic.bounds, counts, mask)
        if repair is not None:
            metric = get(classic.labels, METRIC_NAME)
            times = evaluator.times[repair.steps].tolist()
            evaluator.annotations.add_repair(metric, times, repair.bounds, repair.difference, span)
        return values

    return join_matrices(native, _classic_result(evaluator, found, compute))


def check_quantiles(evaluator: Evaluator, quantiles: Floats, span: Span) -> None:
    """Warn about quantiles that are not between 0 and 1."""
    for one in np.unique(quantiles[~((quantiles >= 0) & (quantiles <= 1))]).tolist():
        evaluator.annotations.invalid_quantile(one, span)


def _histogram_quantile(evaluator: Evaluator, call: Call) -> Matrix:
    quantiles = evaluator.scalar(call.arguments[0]).values
    check_quantiles(evaluator, quantiles, call.arguments[0].span)
    matrix, span = evaluator.vector(call.arguments[1]), call.arguments[1].span
    return merge_rows(_quantile(evaluator, collect_histograms(evaluator, matrix, span), quantiles, span))


def _histogram_quantiles(evaluator: Evaluator, call: Call) -> Matrix:
    """Return several quantiles, each with its value in a label."""
    matrix, span = evaluator.vector(call.arguments[0]), call.arguments[0].span
    name = evaluator.text(call.arguments[1])
    found = collect_histograms(evaluator, matrix, span)
    result = empty_matrix(evaluator.steps)
    for argument in call.arguments[2:]:
        quantiles = evaluator.scalar(argument).values
        check_quantiles(evaluator, quantiles, argument.span)
        part = _quantile(evaluator, found, quantiles, span)
        for one in np.unique(quantiles).tolist():
            evaluator.budget.visit(part.present.size + result.present.size)
            steps = np.isnan(quantiles) if np.isnan(one) else quantiles == one
            chosen = part.mask(np.broadcast_to(steps, part.present.shape))
            labels = [set_label(labels, name, _format_quantile(one)) for labels in chosen.labels]
            labelled = Matrix(labels, chosen.values, chosen.present, None, chosen.name_dropped)
            evaluator.charge_cells(len(labelled))
            result = join_matrices(result, labelled)
    return merge_rows(result)


def _format_quantile(value: float) -> str:
    text = format_float(value)
    return text if any(char in text for char in ".NIe") else f"{text}.0"


def _histogram_fraction(evaluator: Evaluator, call: Call) -> Matrix:
    lower, upper = (evaluator.scalar(one).values for one in call.arguments[:2])
    matrix, span = evaluator.vector(call.arguments[2]), call.arguments[2].span
    found = collect_histograms(evaluator, matrix, span)
    native = _native_result(
        evaluator,
        found,
        lambda one, step: histogram_fraction(float(lower[step]), float(upper[step]), one),
        span,
    )

    def compute(classic: _Classic, counts: Floats, mask: Bools) -> Floats:
        return bucket_fractions((lower, upper), classic.bounds, counts, mask)

    return merge_rows(join_matrices(native, _classic_result(evaluator, found, compute)))


FUNCTIONS: dict[str, Callable[[Evaluator, Call], Value]] = {
    "histogram_fraction": _histogram_fraction,
    "histogram_quantile": _histogram_quantile,
    "histogram_quantiles": _histogram_quantiles,
}
