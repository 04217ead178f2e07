"""Whether a table holds what it should: everything once, and nothing else."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

EXAMPLES = 10


@dataclass(frozen=True)
class Verdict:
    """What a table has too little or too much of."""

    table: str
    expected: int
    rows: int
    missing: tuple[Hashable, ...]
    doubled: tuple[Hashable, ...]
    unknown: tuple[Hashable, ...]
    repeated_ids: int

    @property
    def good(self) -> bool:
        """Whether the table holds every record once."""
        wrong = self.missing or self.doubled or self.unknown or self.repeated_ids
        return not wrong and self.rows == self.expected

    def __str__(self) -> str:
        parts = [
            f"{self.table}: {self.rows:,} rows, {self.expected:,} expected",
            _some("missing", self.missing),
            _some("there more than once", self.doubled),
            _some("never acknowledged", self.unknown),
            f"{self.repeated_ids:,} record ids repeated" if self.repeated_ids else "",
        ]
        return "; ".join(part for part in parts if part)


def judge(table: str, expected: Iterable[Hashable], found: Iterable[Hashable], ids: Iterable[Hashable]) -> Verdict:
    """Compare the records that should be there with those that are; `ids` are the record ids of the rows."""
    wanted, there, all_ids = set(expected), Counter(found), Counter(ids)
    return Verdict(
        table,
        expected=len(wanted),
        rows=there.total(),
        missing=tuple(sorted(wanted - there.keys(), key=str)),
        doubled=tuple(sorted((key for key, count in there.items() if count > 1), key=str)),
        unknown=tuple(sorted(there.keys() - wanted, key=str)),
        repeated_ids=all_ids.total() - len(all_ids),
    )


def _some(words: str, keys: tuple[Hashable, ...]) -> str:
    if not keys:
        return ""
    more = f" and {len(keys) - EXAMPLES:,} more" if len(keys) > EXAMPLES else ""
    return f"{len(keys):,} {words} ({', '.join(map(str, keys[:EXAMPLES]))}{more})"
