"""Work cut into pieces that fit into memory: some time of one organization, with the files that it takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from neve.rollup.ranges import Ranges, ceiling, floor

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


@dataclass(frozen=True)
class Held:
    """How many rows a file has between which moments; `number` is the caller's name for it."""

    number: int
    earliest: int
    latest: int
    rows: int

    def within(self, start: int, end: int) -> float:
        """About how many of its rows lie in some time, as if they were spread evenly."""
        overlap = min(end, self.latest + 1) - max(start, self.earliest)
        return self.rows * max(0, overlap) / (self.latest + 1 - self.earliest)


def pieces_of(ranges: Ranges, files: Sequence[Held], most_rows: int, micros: int) -> list[Ranges]:
    """Whole windows in order, each piece with about so many rows at most; time without a row is left out."""
    pieces: list[Ranges] = []
    held: list[tuple[int, int]] = []
    rows = 0.0
    for start, end in _busy(ranges, files, micros):
        for first, last in _cut(start, end, files, most_rows, micros):
            expected = sum(file.within(first, last) for file in files)
            if held and rows + expected > most_rows:
                pieces.append(Ranges.of(held))
                held, rows = [], 0.0
            held.append((first, last))
            rows += expected
    return [*pieces, Ranges.of(held)] if held else pieces


def files_for(ranges: Ranges, files: Sequence[Held], before: int) -> list[int]:
    """The files that may have rows of a piece, or so much before it."""
    needed = ranges.widened(before=before)
    return [file.number for file in files if needed.overlaps(file.earliest, file.latest + 1)]


def _busy(ranges: Ranges, files: Sequence[Held], micros: int) -> Iterator[tuple[int, int]]:
    """The ranges, no longer than there are windows with rows."""
    if not files:
        return
    earliest, latest = min(file.earliest for file in files), max(file.latest for file in files)
    yield from ranges.within(floor(earliest, micros), ceiling(latest + 1, micros))


def _cut(start: int, end: int, files: Sequence[Held], most_rows: int, micros: int) -> Iterator[tuple[int, int]]:
    """A range in as many equal parts as its rows ask for; parts begin where windows do."""
    expected = sum(file.within(start, end) for file in files)
    parts = max(1, -(-int(expected) // most_rows))
    step = max(micros, ceiling(-(-(end - start) // parts), micros))
    while start < end:
        following = min(end, ceiling(start + step - micros + 1, micros))
        yield start, following
        start = following
