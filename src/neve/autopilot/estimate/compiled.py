"""The filters of a workload, made ready to be asked of thousands of files at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from neve.autopilot.estimate.intervals import ColumnTests, Rows, ends_of
from neve.autopilot.estimate.joining import Answers, joined
from neve.autopilot.estimate.plain import is_known
from neve.autopilot.workload import AllOf, AnyOf, Filter, Test

if TYPE_CHECKING:
    from pyiceberg.types import IcebergType

    from neve.autopilot.estimate.bounds import Chosen
    from neve.autopilot.estimate.intervals import Ends

ALWAYS, NEVER, FIRST_LEAF = 0, 1, 2


class Evidence(Protocol):
    """What is known of one column in some files."""

    @property
    def column(self) -> str:
        """The column."""

    def answer(self, tests: ColumnTests, answers: Answers) -> None:
        """Strike out the files that can't hold rows of a test: a row for each test, a column for each file."""

    def chosen(self, files: Chosen) -> Evidence:
        """What is known of some of the files."""


View = Sequence[Evidence]  # what one look at files tells: at their partition, or at their bounds


@dataclass(frozen=True)
class Step:
    """Nodes of a tree whose parts are all answered before: all of one kind."""

    is_all: bool
    first: int
    children: Rows
    starts: Rows


@dataclass(frozen=True)
class Compiled:
    """Distinct filters, in the order in which they came first."""

    filters: tuple[Filter, ...]
    columns: Mapping[str, ColumnTests]
    rows: int
    steps: tuple[Step, ...]
    roots: Rows

    def matches(self, views: Sequence[View], files: int) -> Answers:
        """Which files each filter must read: those that no view rules out, each by itself, as engines plan."""
        matches = np.ones((len(self.roots), files), dtype=bool)
        for view in views:
            if view:
                matches &= self._asked(view, files)
        return matches

    def _asked(self, view: View, files: int) -> Answers:
        answers = np.ones((self.rows, files), dtype=bool)
        answers[NEVER] = False
        for evidence in view:
            tests = self.columns.get(evidence.column)
            if tests is not None:
                evidence.answer(tests, answers)
        for step in self.steps:
            last = step.first + len(step.starts)
            answers[step.first : last] = joined(answers[step.children], step.starts, every=step.is_all)
        return answers[self.roots]


def compile_filters(filters: Sequence[Filter], types: Mapping[str, IcebergType]) -> Compiled:
    """Filters over columns of these types; a test that statistics can't answer holds anywhere."""
    distinct = tuple(dict.fromkeys(filters))
    tree = _Tree()
    for one in distinct:
        tree.add(one)
    leaves, columns = _leaves(tree.tests, types)
    row_of: dict[Filter, int] = {**leaves, AllOf(): ALWAYS, AnyOf(()): NEVER}
    steps, rows = _steps(tree.heights, row_of, FIRST_LEAF + len(tree.tests))
    return Compiled(distinct, columns, rows, steps, np.array([row_of[one] for one in distinct], dtype=np.intp))


class _Tree:
    """The nodes of all filters, each once."""

    def __init__(self) -> None:
        self.tests: dict[Test, None] = {}
        self.heights: dict[Filter, int] = {}

    def add(self, node: Filter) -> int:
        """Remember a node and those below it; how high it stands above its leaves."""
        if isinstance(node, Test):
            self.tests[node] = None
            return 0
        if not node.parts:
            return 0
        if node not in self.heights:
            self.heights[node] = 1 + max(map(self.add, node.parts))
        return self.heights[node]


def _leaves(
    tests: Mapping[Test, None], types: Mapping[str, IcebergType]
) -> tuple[dict[Filter, int], dict[str, ColumnTests]]:
    rows: dict[Filter, int] = {}
    by_column: dict[str, list[tuple[int, Test, Ends | None]]] = {}
    for row, test in enumerate(tests, start=FIRST_LEAF):
        kind = types.get(test.column)
        if kind is None or not is_known(kind) or test.kind == "other":
            rows[test] = ALWAYS
            continue
        asks_nulls = test.kind in {"is_null", "not_null"}
        ends = None if asks_nulls else ends_of(test, kind)
        rows[test] = row if asks_nulls or ends is not None else ALWAYS
        if rows[test] != ALWAYS:
            by_column.setdefault(test.column, []).append((row, test, ends))
    return rows, {name: ColumnTests.of(name, types[name], some) for name, some in by_column.items()}


def _steps(heights: Mapping[Filter, int], row_of: dict[Filter, int], first: int) -> tuple[tuple[Step, ...], int]:
    """The order in which nodes are answered; `row_of` learns their rows."""
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
            steps.append(Step(shape is AllOf, first, children, starts.astype(np.intp)))
            first += len(nodes)
    return tuple(steps), first
