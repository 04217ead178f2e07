"""What a strategy thinks of a partition."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from neve.compact.candidate import Take
from neve.compact.plan import LeftAlone, Level
from neve.lake.partition_stats import Share

if TYPE_CHECKING:
    from neve.compact.measure import Measure
    from neve.compact.plan import Layout

FILE_COST = 4 * 1024 * 1024  # opening a file costs as much as reading so many bytes
ORDER = (Level.MINOR, Level.MAJOR, Level.FULL)


@dataclass(frozen=True)
class Verdict:
    """Whether files of a partition are rewritten, which, how, and why or why not.

    Without a `layout` outputs keep what their inputs have. `whole` work is done to all of a partition or not at all.
    What `moves` files to another partitioning is worth it for a single file.
    """

    measure: Measure
    strategy: str
    cause: str
    level: Level | None = None
    take: Take = Take.NOTHING
    layout: Layout | None = None
    whole: bool = False
    moves: bool = False
    gain: float = 0.0

    @property
    def reason(self) -> str:
        """The cause with the numbers of the partition."""
        return f"{self.measure.facts}: {self.cause}"

    @property
    def has_work(self) -> bool:
        """Whether anything is to be done."""
        return self.level is not None

    @property
    def everything(self) -> bool:
        """Whether files are taken that nothing is wrong with."""
        return bool(self.take & Take.REST)

    @cached_property
    def share(self) -> Share:
        """How many files are taken, at about: one that is taken for two causes counts twice, but never above all."""
        measure, stats = self.measure, self.measure.stats
        if self.everything:
            return Share(measure.cold_files, measure.cold_bytes)
        parts = (
            (Take.FRAGMENTS, stats.fragments),
            (Take.UNDERSIZED, stats.undersized),
            (Take.OVERSIZED, stats.oversized),
            (Take.OVER_DELETES, stats.over_deletes),
            (Take.POSITIONS, stats.with_positions),
            (Take.EQUALITIES, stats.with_equality),
            (Take.UNLAID, stats.unlaid),
        )
        taken = [part for kind, part in parts if kind & self.take]
        return Share(
            min(measure.cold_files, sum(part.files for part in taken)),
            min(measure.cold_bytes, sum(part.bytes for part in taken)),
        )

    @property
    def cost(self) -> float:
        """How much there is to do: what is most urgent where every partition is to have its turn."""
        taken, deletes = self.share, self.measure.stats.deletes
        return 2 * taken.bytes + 1.1 * deletes.bytes + FILE_COST * taken.files

    def left_alone(self, reason: str = "") -> LeftAlone:
        """The partition as one that is not touched."""
        stats = self.measure.stats
        return LeftAlone(self.measure.partition, stats.files, stats.bytes, self.measure.health, reason or self.reason)

    def joined(self, other: Verdict) -> Verdict:
        """Both at once: what is most, of each."""
        if self.level is None or other.level is None:
            return self if other.level is None else other
        takes_layout = bool(other.take & Take.UNLAID)
        return replace(
            self,
            level=max(self.level, other.level, key=ORDER.index),
            take=self.take | other.take,
            layout=other.layout if takes_layout else self.layout or other.layout,
            whole=self.whole or other.whole,
            moves=self.moves or other.moves,
            cause=self.cause if other.cause in self.cause else f"{self.cause}; {other.cause}",
        )
