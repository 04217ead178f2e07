"""Filters of a workload compiled to vectorised tests over thousands of files.

The position of a value is twice the number of literals below it, plus one if it is a literal itself. Every comparison
of a value with a literal is then an exact comparison of integers, whatever the type.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from math import ceil, floor
from typing import TYPE_CHECKING, Any, Protocol
from uuid import UUID

import numpy as np
import numpy.typing as npt
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import DecimalType, StringType, UUIDType

from neve.predicate.comparable import (
    REAL_TYPES,
    TEXT_TYPES,
    Comparable,
    find_successor,
    is_comparable,
    to_comparable,
)
from neve.predicate.filters import AllOf, AnyOf, Filter, Test

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyiceberg.types import IcebergType


Answers = npt.NDArray[np.bool_]
RowNumbers = npt.NDArray[np.intp]
FileSelection = slice | npt.NDArray[np.intp]


def reduce_runs(answers: Answers, starts: RowNumbers, *, every: bool) -> Answers:
    """Return one row for each run that begins at one of `starts`: whether all of its rows hold, or any.

    >>> reduce_runs(np.array([[True], [False], [True]]), np.array([0, 2]), every=True).tolist()
    [[False], [True]]
    """
    if len(starts) == len(answers):
        return answers
    join = np.logical_and if every else np.logical_or
    whole = np.empty((len(starts), answers.shape[1]), dtype=bool)
    # numpy's own `reduceat` works down the columns and takes a hundred times as long.
    for row, (start, end) in enumerate(zip(starts, np.append(starts[1:], len(answers)), strict=True)):
        join.reduce(answers[start:end], axis=0, out=whole[row])
    return whole


Positions = npt.NDArray[np.int64]
MAX_INT64 = 2**63 - 1


class SortedLiterals:
    """Sorted literals of one column."""

    def __init__(self, literals: Iterable[Comparable]) -> None:
        self._literals: list[Any] = sorted(set(literals))
        self._numbers: npt.NDArray[Any] | None = None
        if all(isinstance(one, float) or (isinstance(one, int) and abs(one) <= MAX_INT64) for one in self._literals):
            is_real = any(isinstance(one, float) for one in self._literals)
            self._numbers = np.array(self._literals, dtype=np.float64 if is_real else np.int64)

    @property
    def lowest(self) -> int:
        """The position below all values."""
        return 0

    @property
    def highest(self) -> int:
        """The position above all values."""
        return 2 * len(self._literals)

    def place(self, value: Comparable) -> int:
        """Return the position of one value."""
        return bisect_left(self._literals, value) + bisect_right(self._literals, value)

    def below(self, value: Comparable) -> int:
        """Return the position just before a value."""
        return 2 * bisect_left(self._literals, value)

    def places(self, values: Sequence[Comparable] | npt.NDArray[Any]) -> Positions:
        """Return the positions of many values."""
        if isinstance(values, np.ndarray) and self._numbers is not None:
            left = np.searchsorted(self._numbers, values, side="left")
            return (left + np.searchsorted(self._numbers, values, side="right")).astype(np.int64)
        return np.fromiter(map(self.place, values), dtype=np.int64, count=len(values))


EMPTY_INTERVAL = (1, 0)


@dataclass(frozen=True)
class ComparableTest:
    """A test with its literals in the comparable form of the column; `low` and `high` are bounds unless None."""

    points: tuple[Comparable, ...] = ()
    low: Comparable | None = None
    high: Comparable | None = None
    low_inclusive: bool = True
    high_inclusive: bool = True
    is_range: bool = False

    @property
    def literals(self) -> Iterable[Comparable]:
        """All literals that values are compared with."""
        return (one for one in (*self.points, self.low, self.high) if one is not None)

    def within(self, cuts: SortedLiterals) -> list[tuple[int, int]]:
        """Return the intervals of positions whose values satisfy the test."""
        if not self.is_range:
            return [(place, place) for place in sorted({cuts.place(point) for point in self.points})] or [
                EMPTY_INTERVAL
            ]
        first, last = cuts.lowest, cuts.highest
        if self.low is not None:
            first = cuts.place(self.low) + (0 if self.low_inclusive else 1)
        if self.high is not None:
            last = cuts.place(self.high) - (0 if self.high_inclusive else 1)
        return [(first, last)]


def make_comparable(test: Test, kind: IcebergType) -> ComparableTest | None:
    """Return the test for a column of this type, or None if its literals are not values of the column."""
    if test.kind == "range":
        return _make_comparable_range(test, kind)
    points = [to_comparable(kind, value) for value in test.values]
    if not points or any(point is None for point in points):
        return None
    known = [point for point in points if point is not None]
    if test.kind == "prefix":
        [prefix] = known if len(known) == 1 else [None]
        if not isinstance(prefix, bytes):
            return None
        return ComparableTest(low=prefix, high=find_successor(prefix), high_inclusive=False, is_range=True)
    # A fraction is equal to no integer, nor is a number beyond the type: nothing has to be read for them.
    return ComparableTest(
        points=tuple(point for point in known if _fits_type(kind, point) and _is_in_reach(kind, point))
    )


def _make_comparable_range(test: Test, kind: IcebergType) -> ComparableTest | None:
    low, high = (None if end is None else to_comparable(kind, end) for end in (test.low, test.high))
    if (test.low is not None and low is None) or (test.high is not None and high is None):
        return None
    low_inclusive, high_inclusive = test.low_inclusive, test.high_inclusive
    if low is not None and not _fits_type(kind, low):
        low, low_inclusive = ceil(low), True  # type: ignore[arg-type]
    if high is not None and not _fits_type(kind, high):
        high, high_inclusive = floor(high), True  # type: ignore[arg-type]
    return ComparableTest((), low, high, low_inclusive, high_inclusive, is_range=True)


def _fits_type(kind: IcebergType, point: Comparable) -> bool:
    return isinstance(kind, (*TEXT_TYPES, *REAL_TYPES)) or isinstance(point, int)


def _is_in_reach(kind: IcebergType, point: Comparable) -> bool:
    """Return whether a point has no more bits than the values of a type. Buckets are computed from 64 bits."""
    return not isinstance(point, int) or isinstance(kind, DecimalType) or abs(point) <= MAX_INT64 + 1


@dataclass(frozen=True)
class ColumnTests:
    """The tests of one column, by the rows of their answers.

    `starts` has the index of the first interval of each test.
    """

    column: str
    kind: IcebergType
    cuts: SortedLiterals
    rows: RowNumbers
    low: Positions
    high: Positions
    starts: RowNumbers
    points: tuple[tuple[Comparable, ...] | None, ...]
    null_rows: RowNumbers
    filled_rows: RowNumbers
    _hashed: dict[int, npt.NDArray[np.bool_]] = field(default_factory=dict)

    @classmethod
    def of(
        cls, column: str, kind: IcebergType, tests: Sequence[tuple[int, Test, ComparableTest | None]]
    ) -> ColumnTests:
        """Return the tests with their rows. Tests for null have no intervals."""
        valued = [(row, ends) for row, _test, ends in tests if ends is not None]
        cuts = SortedLiterals(literal for _row, ends in valued for literal in ends.literals)
        within = [ends.within(cuts) for _row, ends in valued]
        flat = np.array([pair for pairs in within for pair in pairs], dtype=np.int64).reshape(-1, 2)
        sizes = np.array([len(pairs) for pairs in within], dtype=np.intp)
        return cls(
            column=column,
            kind=kind,
            cuts=cuts,
            rows=_row_numbers(row for row, _ends in valued),
            low=flat[:, 0],
            high=flat[:, 1],
            starts=np.concatenate(([0], np.cumsum(sizes)[:-1])).astype(np.intp) if len(sizes) else _row_numbers(()),
            points=tuple(None if ends.is_range else ends.points for _row, ends in valued),
            null_rows=_row_numbers(row for row, test, ends in tests if ends is None and test.kind == "is_null"),
            filled_rows=_row_numbers(row for row, test, ends in tests if ends is None and test.kind == "not_null"),
        )

    def buckets(self, number: int) -> npt.NDArray[np.bool_]:
        """Return which of `number` buckets may contain the values of each test. A range may be in any bucket."""
        if number in self._hashed:
            return self._hashed[number]
        allowed = np.ones((len(self.points), number), dtype=bool)
        bucket = BucketTransform(number).transform(self.kind)
        for row, points in enumerate(self.points):
            if points is not None:
                allowed[row] = False
                numbers = [bucket(_to_iceberg(self.kind, point)) for point in points]
                allowed[row, np.array([number for number in numbers if number is not None], dtype=np.intp)] = True
        self._hashed[number] = allowed
        return allowed


def _row_numbers(rows: Iterable[int]) -> RowNumbers:
    return np.array(list(rows), dtype=np.intp)


def _to_iceberg(kind: IcebergType, point: Comparable) -> object:
    """Return a value in the form that Iceberg's transforms accept."""
    if isinstance(kind, StringType) and isinstance(point, bytes):
        return point.decode(errors="replace")
    if isinstance(kind, UUIDType) and isinstance(point, bytes):
        return UUID(bytes=point)
    if isinstance(kind, DecimalType) and isinstance(point, int):
        return Decimal(point).scaleb(-kind.scale)
    return point


ALWAYS, NEVER, FIRST_LEAF = 0, 1, 2


class Evidence(Protocol):
    """Knowledge about one column in some files."""

    @property
    def column(self) -> str:
        """The name of the column."""

    def answer(self, tests: ColumnTests, answers: Answers) -> None:
        """Rule out the files that can't contain rows of a test: one row for each test, one column for each file."""

    def select(self, files: FileSelection) -> Evidence:
        """Return the evidence about some of the files."""


EvidenceView = Sequence[Evidence]  # evidence of one kind: of partitions, or of bounds


@dataclass(frozen=True)
class EvaluationStep:
    """Nodes of one kind whose children are all evaluated before."""

    is_all: bool
    first: int
    children: RowNumbers
    starts: RowNumbers


@dataclass(frozen=True)
class CompiledFilters:
    """Distinct filters, in order of first occurrence."""

    filters: tuple[Filter, ...]
    columns: Mapping[str, ColumnTests]
    rows: int
    steps: tuple[EvaluationStep, ...]
    roots: RowNumbers

    def matches(self, views: Sequence[EvidenceView], files: int) -> Answers:
        """Return the files that each filter must read.

        These are the files that no view rules out. Each view is evaluated by itself, as engines plan.
        """
        matches = np.ones((len(self.roots), files), dtype=bool)
        for view in views:
            if view:
                matches &= self._evaluate(view, files)
        return matches

    def _evaluate(self, view: EvidenceView, files: int) -> Answers:
        answers = np.ones((self.rows, files), dtype=bool)
        answers[NEVER] = False
        for evidence in view:
            tests = self.columns.get(evidence.column)
            if tests is not None:
                evidence.answer(tests, answers)
        for step in self.steps:
            last = step.first + len(step.starts)
            answers[step.first : last] = reduce_runs(answers[step.children], step.starts, every=step.is_all)
        return answers[self.roots]


def compile_filters(filters: Sequence[Filter], types: Mapping[str, IcebergType]) -> CompiledFilters:
    """Compile filters over columns of these types. A test that statistics can't answer holds for every file."""
    distinct = tuple(dict.fromkeys(filters))
    tree = _FilterTree()
    for one in distinct:
        tree.add(one)
    leaves, columns = _compile_leaves(tree.tests, types)
    row_of: dict[Filter, int] = {**leaves, AllOf(): ALWAYS, AnyOf(()): NEVER}
    steps, rows = _order_steps(tree.heights, row_of, FIRST_LEAF + len(tree.tests))
    return CompiledFilters(distinct, columns, rows, steps, np.array([row_of[one] for one in distinct], dtype=np.intp))


class _FilterTree:
    """The nodes of all filters, each once."""

    def __init__(self) -> None:
        self.tests: dict[Test, None] = {}
        self.heights: dict[Filter, int] = {}

    def add(self, node: Filter) -> int:
        """Add a node and its children, and return its height above its leaves."""
        if isinstance(node, Test):
            self.tests[node] = None
            return 0
        if not node.parts:
            return 0
        if node not in self.heights:
            self.heights[node] = 1 + max(map(self.add, node.parts))
        return self.heights[node]


def _compile_leaves(
    tests: Mapping[Test, None], types: Mapping[str, IcebergType]
) -> tuple[dict[Filter, int], dict[str, ColumnTests]]:
    rows: dict[Filter, int] = {}
    by_column: dict[str, list[tuple[int, Test, ComparableTest | None]]] = {}
    for row, test in enumerate(tests, start=FIRST_LEAF):
        kind = types.get(test.column)
        if kind is None or not is_comparable(kind) or test.kind == "other":
            rows[test] = ALWAYS
            continue
        tests_nulls = test.kind in {"is_null", "not_null"}
        ends = None if tests_nulls else make_comparable(test, kind)
        rows[test] = row if tests_nulls or ends is not None else ALWAYS
        if rows[test] != ALWAYS:
            by_column.setdefault(test.column, []).append((row, test, ends))
    return rows, {name: ColumnTests.of(name, types[name], some) for name, some in by_column.items()}


def _order_steps(
    heights: Mapping[Filter, int], row_of: dict[Filter, int], first: int
) -> tuple[tuple[EvaluationStep, ...], int]:
    """Return the order in which nodes are evaluated, and add their rows to `row_of`."""
    steps = []
    for height in sorted(set(heights.values())):
        for shape in (AllOf, AnyOf):
            nodes = [node for node, high in heights.items() if high == height and isinstance(node, shape)]
            if not nodes:
                continue
            parts = [[row_of[part] for part in node.parts] for node in nodes if isinstance(node, (AllOf, AnyOf))]
            row_of.update(zip(nodes, range(first, first + len(nodes)), strict=True))
            starts = np.cumsum([0, *(len(some) for some in parts[:-1])])
            children = np.array([row for some in parts for row in some], dtype=np.intp)
            steps.append(EvaluationStep(shape is AllOf, first, children, starts.astype(np.intp)))
            first += len(nodes)
    return tuple(steps), first
