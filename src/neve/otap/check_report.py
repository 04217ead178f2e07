"""Report of a folder check: problems by kind, how often each occurs, and one example of each."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class Kind(StrEnum):
    """Kind of problem of a folder; the texts are shown to users."""

    UNREADABLE = "file can't be read"
    COLUMN_MISSING = "column missing"
    WRONG_TYPE = "column of a wrong type"
    MIXED_PARTS = "files of several parts in one folder"
    NO_VALUE = "null where a value must be"
    DUPLICATE_ID = "id more than once"
    NO_PARENT = "child without a parent id"
    DANGLING = "parent id that no row has"
    NO_IDS = "children, but no parent has an id"
    DUPLICATE_KEY = "key of a parent more than once"
    UNKNOWN_TYPE = "value type that is not known"
    MISFIT = "value that is not in the column of its type"
    NOT_PARQUET = "file that is not Parquet"
    NO_ROOT = "children of a root that is not there"
    NOT_SORTED = "attributes not sorted by parent and key"
    NO_RESOURCE = "row whose resource has no attributes"
    NO_SCOPE = "row whose scope has no attributes"
    UNUSED = "attributes of a resource or scope that no row has"
    GUESSED = "row without an id whose batch is a guess"


# Allowed by the specification, but useful for a reader to know.
NOTES = frozenset(
    {Kind.NOT_PARQUET, Kind.NO_ROOT, Kind.NOT_SORTED, Kind.NO_RESOURCE, Kind.NO_SCOPE, Kind.UNUSED, Kind.GUESSED}
)


@dataclass(frozen=True)
class Problem:
    """One kind of problem in one table."""

    kind: Kind
    table: str
    count: int
    example: str

    @property
    def is_error(self) -> bool:
        """True if a reader would get wrong results, or the folder is not valid OTAP."""
        return self.kind not in NOTES


@dataclass(frozen=True)
class Report:
    """All findings of a folder. `conventions` contains the id convention of each part."""

    base: str
    root: str
    files: Mapping[str, int]
    rows: Mapping[str, int]
    conventions: Mapping[str, str]
    problems: tuple[Problem, ...]

    @property
    def is_valid(self) -> bool:
        """True if there are no errors; there may be notes."""
        return not any(problem.is_error for problem in self.problems)

    @property
    def convention(self) -> str:
        """The convention of all parts: specification, exporter, or both if they differ."""
        return " and ".join(sorted(set(self.conventions.values())))


@dataclass
class Findings:
    """Problems as they are found; the first of a kind in a table is its example."""

    _found: dict[tuple[Kind, str], tuple[int, str]] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """Return the number of problems of all kinds together."""
        return sum(count for count, _ in self._found.values())

    def add(self, kind: Kind, table: str, example: str, count: int = 1) -> None:
        """Count problems of a kind; a count of 0 adds nothing."""
        if count:
            before, first = self._found.get((kind, table), (0, example))
            self._found[kind, table] = before + int(count), first

    def problems(self) -> tuple[Problem, ...]:
        """Return the problems, errors first."""
        order = list(Kind)
        found = [Problem(kind, table, count, example) for (kind, table), (count, example) in self._found.items()]
        return tuple(sorted(found, key=lambda one: (order.index(one.kind), one.table)))
