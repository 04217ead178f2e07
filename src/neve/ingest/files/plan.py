"""Which files a run takes in, and why it leaves others alone: values in, values out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from neve.ingest.files.formats import Compression, read_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from neve.ingest.files.hashing import HashedFile
    from neve.ingest.files.ledger import Ledger

UNDER_WAY = "its content belongs to a batch that is under way"
UNPACKED_FACTOR = 8  # how much larger a compressed file is inside, for sharing out the work


@dataclass(frozen=True)
class Skipped:
    """A file that is left alone, and why."""

    path: str
    reason: str
    quarantined: bool = False


@dataclass(frozen=True)
class Selection:
    """New files, and those that are known already."""

    new: tuple[HashedFile, ...]
    skipped: tuple[Skipped, ...]


def select_new(files: Iterable[HashedFile], ledger: Ledger) -> Selection:
    """The files whose content is neither in the lake nor claimed, each content once."""
    claimed = {file.content_hash for files in ledger.pending.values() for file in files}
    taken: dict[str, str] = {}
    new, skipped = [], []
    for file in files:
        path = file.source.path
        if file.content_hash in ledger.done:
            skipped.append(Skipped(path, "its content was ingested before"))
        elif file.content_hash in claimed:
            skipped.append(Skipped(path, UNDER_WAY))
        elif file.content_hash in taken:
            skipped.append(Skipped(path, f"it has the same content as {taken[file.content_hash]}"))
        else:
            taken[file.content_hash] = path
            new.append(file)
    return Selection(tuple(new), tuple(skipped))


def weight(file: HashedFile) -> int:
    """About how many bytes there are to decode in a file."""
    packed = read_name(file.source.path).compression is not Compression.NONE
    return max(1, file.source.size * (UNPACKED_FACTOR if packed else 1))


def cut(files: Sequence[HashedFile], most: int, *, at_least: int = 1) -> list[tuple[HashedFile, ...]]:
    """Runs of neighbours of about equal weight, none much over `most`, and at least so many where there are files.

    Neighbours stay together because files of one folder are of one signal mostly: a task then writes to fewer tables.
    """
    total = sum(map(weight, files))
    pieces = max(at_least, -(-total // most))
    runs: dict[int, list[HashedFile]] = {}
    before = 0
    for file in files:
        middle = before + weight(file) / 2
        runs.setdefault(int(middle * pieces / total), []).append(file)
        before += weight(file)
    return [tuple(run) for run in runs.values()]
