"""Ranges of rows that get a filter of their own: row groups of a Parquet file, small ones together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

RANGE_ROWS = 100_000  # that a range has at least, where the file has as many


@dataclass(frozen=True)
class Range:
    """Neighbouring row groups, and the rows that they are."""

    groups: tuple[int, ...]
    first_row: int
    row_count: int


def ranges_of(groups: Sequence[int], least: int = RANGE_ROWS) -> list[Range]:
    """Cut row groups, given by their numbers of rows, into ranges of so many rows at least; what is left over joins.

    >>> ranges_of([60, 60, 200, 10], least=100)
    [Range(groups=(0, 1), first_row=0, row_count=120), Range(groups=(2, 3), first_row=120, row_count=210)]
    """
    found: list[Range] = []
    numbers: list[int] = []
    rows = first = 0
    for number, count in enumerate(groups):
        numbers.append(number)
        rows += count
        if rows >= least:
            found.append(Range(tuple(numbers), first, rows))
            numbers, first, rows = [], first + rows, 0
    if not numbers:
        return found
    if not found:
        return [Range(tuple(numbers), first, rows)]
    last = found.pop()
    return [*found, Range((*last.groups, *numbers), last.first_row, last.row_count + rows)]
