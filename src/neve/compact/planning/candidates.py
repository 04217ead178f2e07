"""Candidate files of a rewrite, and their packing into bins whose outputs have the target size.

Three or more outputs of equal size are never undersized, whatever their total size. So a bin takes files until it has
enough for three. Only the rest of a whole partition may be too small for good outputs. Such a rest is one bin, which is
not rewritten again, because its outputs do not fit into fewer files.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Flag, auto
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from neve.compact.plan import InputFile

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from neve.lake.read.file_index import IndexedFile
    from neve.lake.read.partition_stats import TargetSizes


class FileKind(Flag):
    """Kinds of files of a partition that a rewrite takes."""

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
    """A file of the table's metadata that is not hot, with its properties."""

    file: InputFile
    kinds: FileKind
    expected_bytes: int

    @property
    def bytes(self) -> int:
        """Current size of the file."""
        return self.file.bytes


@dataclass(frozen=True)
class FileClassifier:
    """Classifies files by size, deletes and layout, and estimates their size after a rewrite.

    The ratio of past runs describes files of writers. A file that is not a fragment was packed well already.
    """

    sizes: TargetSizes
    delete_files: int
    delete_ratio: float
    ratio: float = 1.0

    def candidate(self, file: IndexedFile) -> Candidate:
        """Return the file as a candidate."""
        live_share = 1 - min(1.0, file.own_rows / file.rows) if file.rows else 1.0
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
            expected_bytes=round(file.bytes * ratio * live_share),
        )

    def kinds(self, file: IndexedFile) -> FileKind:
        """Return all kinds of a file."""
        own = file.position_files + file.own_files
        found = (
            (FileKind.FRAGMENTS, file.bytes <= self.sizes.fragment),
            (FileKind.UNDERSIZED, self.sizes.fragment < file.bytes <= self.sizes.small),
            (FileKind.OVERSIZED, file.bytes > self.sizes.large),
            (FileKind.OVER_DELETES, own >= self.delete_files or file.own_rows > self.delete_ratio * file.rows),
            (FileKind.POSITIONS, file.position_files > 0),
            (FileKind.EQUALITIES, file.equality_files > 0),
            (FileKind.UNLAID, file.unlaid),
        )
        return combine_kinds(kind for kind, is_it in found if is_it) | FileKind.REST


def combine_kinds(kinds: Iterable[FileKind]) -> FileKind:
    """Return the union of some kinds."""
    return reduce(or_, kinds, FileKind.NOTHING)


Bin = tuple["Candidate", ...]


def pack_candidates(
    candidates: Iterable[Candidate], sizes: TargetSizes, group_bytes: int, group_files: int
) -> list[Bin]:
    """Pack candidates into bins in their order. Each bin but the last is large enough for good outputs, if possible.

    A bin takes about `group_bytes`. The last one is merged into the previous one if it is too small by itself.
    """
    enough = sizes.target * 5 // 2
    bins: list[list[Candidate]] = []
    taken = expected = 0
    for candidate in candidates:
        is_full = taken + candidate.bytes > group_bytes and expected >= enough
        if not bins or is_full or len(bins[-1]) >= group_files:
            bins.append([])
            taken = expected = 0
        bins[-1].append(candidate)
        taken, expected = taken + candidate.bytes, expected + candidate.expected_bytes
    if len(bins) > 1 and expected < enough and len(bins[-2]) + len(bins[-1]) <= group_files:
        bins[-2:] = [bins[-2] + bins[-1]]
    return [tuple(files) for files in bins]


def drop_giants(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Drop candidates that are larger than all smaller ones together. They wait until those have grown.

    Otherwise a partition that is packed every few minutes would rewrite its largest fragment each time. So a row is
    rewritten about as often as its file doubles.
    """
    left = sum(candidate.bytes for candidate in candidates)
    giants: set[str] = set()
    for candidate in sorted(candidates, key=lambda one: one.bytes, reverse=True):
        left -= candidate.bytes
        if candidate.bytes <= left:
            break
        giants.add(candidate.file.path)
    return [candidate for candidate in candidates if candidate.file.path not in giants]


def sum_expected_bytes(files: Sequence[Candidate]) -> int:
    """Return the expected size of the files after a rewrite."""
    return sum(file.expected_bytes for file in files)


def output_sizes(files: Sequence[Candidate], sizes: TargetSizes) -> list[int]:
    """Return the expected sizes of the outputs of a bin."""
    total = sum_expected_bytes(files)
    count = sizes.outputs(total)
    return [total // count] * count


def is_worth_it(files: Sequence[Candidate], take: FileKind, sizes: TargetSizes) -> bool:
    """Return whether a rewrite leaves fewer files, smaller ones if too large, fewer deletes or a better layout.

    The number of files is compared by current sizes: a second rewrite of the same rows saves less than the first.
    """
    if len(files) > sizes.outputs(sum(file.bytes for file in files)):
        return True
    if any(file.kinds & take & (FileKind.DELETES | FileKind.UNLAID) for file in files):
        return True
    is_split = any(file.kinds & take & FileKind.OVERSIZED for file in files)
    return is_split and sizes.outputs(sum_expected_bytes(files)) > 1
