"""A file that may be rewritten, and for what."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Flag, auto
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from neve.compact.plan import InputFile

if TYPE_CHECKING:
    from collections.abc import Iterable

    from neve.lake.file_index import IndexedFile
    from neve.lake.target_sizes import TargetSizes


class Take(Flag):
    """Which files of a partition a rewrite takes."""

    NOTHING = 0
    FRAGMENTS = auto()
    UNDERSIZED = auto()
    OVERSIZED = auto()
    OVER_DELETES = auto()
    POSITIONS = auto()
    EQUALITIES = auto()
    UNLAID = auto()
    REST = auto()
    SMALL = FRAGMENTS | UNDERSIZED
    SIZES = SMALL | OVERSIZED
    DELETES = OVER_DELETES | POSITIONS | EQUALITIES
    EVERYTHING = SIZES | DELETES | UNLAID | REST


@dataclass(frozen=True)
class Candidate:
    """A file of the table's metadata that is not hot, and all that it is."""

    file: InputFile
    kinds: Take
    expected_bytes: int

    @property
    def bytes(self) -> int:
        """What the file takes now."""
        return self.file.bytes


@dataclass(frozen=True)
class Judge:
    """Says what files are: by size, by their deletes, by their layout; and what they will take when rewritten.

    The ratio of past runs is about what writers leave behind: a file that is no fragment was packed well already.
    """

    sizes: TargetSizes
    delete_files: int
    delete_ratio: float
    ratio: float = 1.0

    def candidate(self, file: IndexedFile) -> Candidate:
        """The file as a candidate."""
        kept = 1 - min(1.0, file.own_rows / file.rows) if file.rows else 1.0
        ratio = self.ratio if file.bytes <= self.sizes.fragment else 1.0
        return Candidate(
            file=InputFile(
                path=file.path,
                bytes=file.bytes,
                rows=file.rows,
                sequence=file.sequence,
                format=file.format,
                sort_order_id=file.sort_order_id,
                delete_files=file.position_files + file.own_files + file.equality_files,
                deleted_rows=file.own_rows,
            ),
            kinds=self.kinds(file),
            expected_bytes=round(file.bytes * ratio * kept),
        )

    def kinds(self, file: IndexedFile) -> Take:
        """All that a file is."""
        own = file.position_files + file.own_files
        found = (
            (Take.FRAGMENTS, file.bytes <= self.sizes.fragment),
            (Take.UNDERSIZED, self.sizes.fragment < file.bytes <= self.sizes.small),
            (Take.OVERSIZED, file.bytes > self.sizes.large),
            (Take.OVER_DELETES, own >= self.delete_files or file.own_rows > self.delete_ratio * file.rows),
            (Take.POSITIONS, file.position_files > 0),
            (Take.EQUALITIES, file.equality_files > 0),
            (Take.UNLAID, file.unlaid),
        )
        return sum_of(kind for kind, is_it in found if is_it) | Take.REST


def sum_of(kinds: Iterable[Take]) -> Take:
    """All of some kinds together."""
    return reduce(or_, kinds, Take.NOTHING)
