"""Values of expressions: a matrix of series and steps with a mask of the present samples, or a scalar for each step.

NaN and infinities are values, so the mask alone says whether there is a sample.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from neve.errors import EvaluationFailed
from neve.promql.labels import Labels, drop_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neve.promql.histograms.native import Histogram
    from neve.promql.series import Bools, Floats, Integers

__all__ = ["SAME_LABELS", "Cells", "Matrix", "Scalar", "String", "Value", "clean_names", "empty_matrix", "merge_rows"]

SAME_LABELS = "vector cannot contain metrics with the same labelset"
Cells = npt.NDArray[Any]  # a Histogram or None


@dataclass(frozen=True, slots=True)
class Scalar:
    """Number at each step."""

    values: Floats


@dataclass(frozen=True, slots=True)
class String:
    """Text, the same at each step."""

    value: str


@dataclass(frozen=True, slots=True)
class Matrix:
    """Instant vectors at all steps: a row for each series, a column for each step.

    A present cell is a float, or a histogram where `histograms` has one. Names are removed at the very end of a query
    from the rows in `name_dropped`, so that annotations and matching still know them.
    """

    labels: list[Labels]
    values: Floats
    present: Bools
    histograms: Cells | None
    name_dropped: Bools

    def __len__(self) -> int:
        return len(self.labels)

    def rows(self, index: Integers | Bools) -> Matrix:
        """Return some of the rows."""
        chosen = np.flatnonzero(index) if index.dtype == np.bool_ else index
        return Matrix(
            [self.labels[one] for one in chosen.tolist()],
            self.values[chosen],
            self.present[chosen],
            None if self.histograms is None else self.histograms[chosen],
            self.name_dropped[chosen],
        )

    def mask(self, wanted: Bools) -> Matrix:
        """Return the matrix with only the wanted cells, and without the rows that become empty."""
        present = self.present & wanted
        kept: Bools = np.any(present, axis=1)
        matrix = replace(self, present=present)
        return matrix if kept.all() else matrix.rows(kept)

    def is_histogram(self) -> Bools:
        """Return which cells are histograms."""
        if self.histograms is None:
            return np.zeros(self.present.shape, np.bool_)
        return self.present & is_filled(self.histograms)

    def is_float(self) -> Bools:
        """Return which cells are floats."""
        return self.present if self.histograms is None else self.present & ~self.is_histogram()

    def with_floats(self, values: Floats, *, drops_name: bool = True) -> Matrix:
        """Return new floats in place of the floats. Histograms disappear."""
        dropped = np.ones(len(self), np.bool_) if drops_name else self.name_dropped
        result = Matrix(self.labels, values, self.is_float(), None, dropped)
        return result if self.histograms is None else result.mask(result.present)


Value = Matrix | Scalar | String


def is_filled(cells: Cells) -> Bools:
    """Return which cells have a histogram."""
    return np.array(cells != None, np.bool_)  # noqa: E711  # elementwise


def empty_matrix(steps: int) -> Matrix:
    """Return a matrix without series."""
    shape = (0, steps)
    return Matrix([], np.empty(shape), np.empty(shape, np.bool_), None, np.empty(0, np.bool_))


def join_matrices(first: Matrix, second: Matrix) -> Matrix:
    """Return the rows of two matrices."""
    histograms = None
    if first.histograms is not None or second.histograms is not None:
        parts = [
            np.full(one.present.shape, None, object) if one.histograms is None else one.histograms
            for one in (first, second)
        ]
        histograms = np.concatenate(parts)
    return Matrix(
        first.labels + second.labels,
        np.concatenate((first.values, second.values)),
        np.concatenate((first.present, second.present)),
        histograms,
        np.concatenate((first.name_dropped, second.name_dropped)),
    )


def merge_rows(matrix: Matrix) -> Matrix:
    """Return the matrix with one row for each label set. Raises `EvaluationFailed` if two have a sample at one step."""
    places: dict[Labels, int] = {}
    targets = [places.setdefault(labels, len(places)) for labels in matrix.labels]
    if len(places) == len(matrix):
        return matrix
    shape = (len(places), matrix.present.shape[1])
    merged = Matrix(
        list(places),
        np.zeros(shape),
        np.zeros(shape, np.bool_),
        None if matrix.histograms is None else np.full(shape, None, object),
        np.zeros(len(places), np.bool_),
    )
    seen: set[int] = set()
    for row, target in enumerate(targets):
        there = matrix.present[row]
        if (merged.present[target] & there).any():
            raise EvaluationFailed(SAME_LABELS)
        merged.values[target, there] = matrix.values[row, there]
        merged.present[target] |= there
        if merged.histograms is not None and matrix.histograms is not None:
            merged.histograms[target, there] = matrix.histograms[row, there]
        if target not in seen:
            merged.name_dropped[target] = matrix.name_dropped[row]
            seen.add(target)
    return merged


def clean_names(matrix: Matrix) -> Matrix:
    """Return the matrix with the pending removals of names done."""
    if not matrix.name_dropped.any():
        return merge_rows(matrix)
    pairs = zip(matrix.labels, matrix.name_dropped.tolist(), strict=True)
    labels = [drop_name(one) if is_dropped else one for one, is_dropped in pairs]
    return merge_rows(replace(matrix, labels=labels))


def put_histograms(shape: tuple[int, int], cells: Sequence[tuple[int, int, Histogram]]) -> Cells | None:
    """Return an array of histograms from single cells."""
    if not cells:
        return None
    found = np.full(shape, None, object)
    for row, column, histogram in cells:
        found[row, column] = histogram
    return found
