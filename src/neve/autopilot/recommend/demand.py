"""What the queries of a log ask of one table."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from neve.autopilot.workload import AllOf, Test

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from neve.autopilot.workload import Filter, Query, TableUse

POINTS, RANGES = ("eq", "in"), ("range",)
SECONDS_A_DAY = 86_400


@dataclass(frozen=True)
class ColumnDemand:
    """In how many queries a column is filtered, and how; `prefix_length` is the shortest prefix that is asked for."""

    queries: int
    points: int
    ranges: int
    prefixes: int
    prefix_length: int


@dataclass(frozen=True)
class Demand:
    """All uses of a table, with the days that they were logged over."""

    table: str
    uses: tuple[TableUse, ...]
    days: float

    @classmethod
    def of(cls, table: str, queries: Sequence[Query]) -> Demand:
        """The uses of a table; a log of less than a day counts as one of a day."""
        asked = [(query.at, use) for query in queries for use in query.uses if use.table == table]
        return cls(table, tuple(use for _at, use in asked), _days([at for at, _use in asked]))

    @property
    def queries(self) -> int:
        """How many uses there are."""
        return len(self.uses)

    def filtered(self) -> dict[str, ColumnDemand]:
        """The columns in filters, the one in most queries first."""
        seen: dict[str, list[set[int]]] = {}
        lengths: dict[str, int] = {}
        for number, use in enumerate(self.uses):
            for test in tests_of(use.filter):
                every, points, ranges, prefixes = seen.setdefault(test.column, [set(), set(), set(), set()])
                every.add(number)
                if test.kind in POINTS:
                    points.add(number)
                elif test.kind in RANGES:
                    ranges.add(number)
                elif test.kind == "prefix":
                    prefixes.add(number)
                    shortest = min(len(str(value)) for value in test.values)
                    lengths[test.column] = min(lengths.get(test.column, shortest), shortest)
        found = {name: _column(sets, lengths.get(name, 0)) for name, sets in seen.items()}
        return dict(sorted(found.items(), key=lambda pair: (-pair[1].queries, pair[0])))

    def ordered(self) -> Counter[str]:
        """How often a column leads an ORDER BY that can gain by it: with a filter, or with a LIMIT."""
        gaining = (use for use in self.uses if use.order_by and (use.limit is not None or use.filter != AllOf()))
        return Counter(use.order_by[0] for use in gaining)

    def together(self) -> Counter[tuple[str, str]]:
        """How many queries filter both of two columns."""
        pairs: Counter[tuple[str, str]] = Counter()
        for use in self.uses:
            names = sorted({test.column for test in tests_of(use.filter)})
            pairs.update((a, b) for place, a in enumerate(names) for b in names[place + 1 :])
        return pairs


def tests_of(node: Filter) -> Iterator[Test]:
    """All tests of a filter that statistics may answer."""
    if not isinstance(node, Test):
        for part in node.parts:
            yield from tests_of(part)
    elif node.kind != "other":
        yield node


def _column(sets: Sequence[set[int]], prefix_length: int) -> ColumnDemand:
    every, points, ranges, prefixes = map(len, sets)
    return ColumnDemand(every, points, ranges, prefixes, prefix_length)


def _days(moments: Sequence[datetime]) -> float:
    if not moments:
        return 1.0
    return max(1.0, (max(moments) - min(moments)).total_seconds() / SECONDS_A_DAY)
