"""Whether what was read is what should be there: every row once, and none else."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.race.rows import Row

EXAMPLES = 8


@dataclass(frozen=True)
class Verdict:
    """What a reader found too little or too much of."""

    reader: str
    expected: int
    missing: tuple[Row, ...]
    extra: tuple[Row, ...]

    @property
    def good(self) -> bool:
        """Whether the rows are equal."""
        return not self.missing and not self.extra

    def __str__(self) -> str:
        parts = [f"{self.reader}: {self.expected:,} rows expected"]
        for words, rows in (("missing", self.missing), ("extra", self.extra)):
            if rows:
                parts.append(f"{len(rows):,} {words}: {', '.join(map(str, rows[:EXAMPLES]))}")
        return "; ".join(parts)


def judge(reader: str, expected: Iterable[Row], found: Iterable[Row]) -> Verdict:
    """Compare; a row that is there twice is extra once."""
    wanted, there = Counter(expected), Counter(found)
    return Verdict(
        reader, wanted.total(), tuple(sorted((wanted - there).elements())), tuple(sorted((there - wanted).elements()))
    )
