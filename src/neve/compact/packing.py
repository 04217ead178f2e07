"""Files into groups: so that what comes out has the target size, and is left alone from then on.

Three outputs or more of equal size are never undersized, however many bytes they share out. So a group takes files
until it has enough for that; only what is left of a whole partition may be too little for good outputs, and such a rest
is one group, which does not come again: its outputs do not fit into fewer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from neve.compact.candidate import Take

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from neve.compact.candidate import Candidate
    from neve.lake.target_sizes import TargetSizes

Bin = tuple["Candidate", ...]


def pack(candidates: Iterable[Candidate], sizes: TargetSizes, group_bytes: int, group_files: int) -> list[Bin]:
    """Bins of candidates in their order; each but the last is large enough for good outputs, where files allow it.

    A bin takes `group_bytes` at about: the last one is put to the one before it when it is too little by itself.
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


def without_giants(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The candidates without those that are larger than all smaller ones together, which wait until these have grown.

    A partition that is packed every few minutes would else write its largest fragment anew each time. So a row is
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


def expected_bytes(files: Sequence[Candidate]) -> int:
    """What the files take when they are rewritten."""
    return sum(file.expected_bytes for file in files)


def output_sizes(files: Sequence[Candidate], sizes: TargetSizes) -> list[int]:
    """The sizes that the outputs of a bin are expected to have."""
    total = expected_bytes(files)
    count = sizes.outputs(total)
    return [total // count] * count


def is_worth_it(files: Sequence[Candidate], take: Take, sizes: TargetSizes) -> bool:
    """Whether a rewrite leaves fewer files, smaller ones where they were too large, fewer deletes or a better layout.

    Fewer is meant by today's sizes: a second rewrite of the same rows does not save what the first one did.
    """
    if len(files) > sizes.outputs(sum(file.bytes for file in files)):
        return True
    if any(file.kinds & take & (Take.DELETES | Take.UNLAID) for file in files):
        return True
    is_split = any(file.kinds & take & Take.OVERSIZED for file in files)
    return is_split and sizes.outputs(expected_bytes(files)) > 1
