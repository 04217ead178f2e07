"""The verdict of a strategy on a partition, and the order in which partitions with work are planned."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from neve.compact.plan import LeftAlone, Level
from neve.compact.planning.candidates import FileKind
from neve.lake.read.partition_stats import FileTotals
from neve.text import format_bytes, format_count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neve.compact.health import Measure
    from neve.compact.plan import Layout


FILE_COST = 4 * 1024 * 1024  # opening a file costs as much as reading this many bytes
ORDER = (Level.MINOR, Level.MAJOR, Level.FULL)


@dataclass(frozen=True)
class Verdict:
    """Decision on a partition: the files to rewrite, the layout, and the reason for or against it.

    Without a `layout` outputs keep the layout of their inputs. `whole` work is done to all of a partition or not at
    all. Work that `moves` files to another partitioning is justified for a single file.
    """

    measure: Measure
    strategy: str
    cause: str
    level: Level | None = None
    take: FileKind = FileKind.NOTHING
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
        """True if there is anything to do."""
        return self.level is not None

    @property
    def everything(self) -> bool:
        """True if files without a problem are taken."""
        return bool(self.take & FileKind.REST)

    @cached_property
    def share(self) -> FileTotals:
        """Approximate number of files that are taken.

        A file with two causes counts twice, but never above the total.
        """
        measure, stats = self.measure, self.measure.stats
        if self.everything:
            return FileTotals(measure.cold_files, measure.cold_bytes)
        parts = (
            (FileKind.FRAGMENTS, stats.fragments),
            (FileKind.UNDERSIZED, stats.undersized),
            (FileKind.OVERSIZED, stats.oversized),
            (FileKind.OVER_DELETES, stats.over_deletes),
            (FileKind.POSITIONS, stats.with_positions),
            (FileKind.EQUALITIES, stats.with_equality),
            (FileKind.UNLAID, stats.unlaid),
        )
        taken = [part for kind, part in parts if kind & self.take]
        return FileTotals(
            min(measure.cold_files, sum(part.files for part in taken)),
            min(measure.cold_bytes, sum(part.bytes for part in taken)),
        )

    @property
    def cost(self) -> float:
        """Amount of work, which is the urgency if every partition should have its turn."""
        taken, deletes = self.share, self.measure.stats.deletes
        return 2 * taken.bytes + 1.1 * deletes.bytes + FILE_COST * taken.files

    def left_alone(self, reason: str = "") -> LeftAlone:
        """Return the partition as one that is not rewritten."""
        stats = self.measure.stats
        return LeftAlone(self.measure.partition, stats.files, stats.bytes, self.measure.health, reason or self.reason)

    def join(self, other: Verdict) -> Verdict:
        """Return a verdict that combines both, with the larger scope of each property."""
        if self.level is None or other.level is None:
            return self if other.level is None else other
        takes_layout = bool(other.take & FileKind.UNLAID)
        return replace(
            self,
            level=max(self.level, other.level, key=ORDER.index),
            take=self.take | other.take,
            layout=other.layout if takes_layout else self.layout or other.layout,
            whole=self.whole or other.whole,
            moves=self.moves or other.moves,
            cause=self.cause if other.cause in self.cause else f"{self.cause}; {other.cause}",
        )


GAIN_WEIGHT, COST_WEIGHT = 0.7, 0.3


def rank_verdicts(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Sort the verdicts with work: by gain against cost if the strategy computes gains, else by the amount of work.

    A postponed partition has more work in the next run, so every partition has its turn.
    """
    working = [verdict for verdict in verdicts if verdict.has_work]
    gains, costs = [verdict.gain for verdict in working], [verdict.cost for verdict in working]
    if not any(gains):
        return sorted(working, key=lambda verdict: (-verdict.cost, verdict.measure.partition.key))
    scores = {
        verdict.measure.partition.key: GAIN_WEIGHT * gain - COST_WEIGHT * cost
        for verdict, gain, cost in zip(working, _normalize(gains), _normalize(costs), strict=True)
    }
    return sorted(working, key=lambda verdict: (-scores[verdict.measure.partition.key], verdict.measure.partition.key))


def _normalize(values: Sequence[float]) -> list[float]:
    low, high = min(values), max(values)
    return [(value - low) / (high - low) if high > low else 1.0 for value in values]


def explain_cut(verdict: Verdict, limit: str) -> str:
    """Return why a partition was postponed."""
    taken = verdict.share
    return (
        f"{verdict.reason}; {format_count(taken.files, 'file')} of {format_bytes(taken.bytes)} "
        f"wait for another run: {limit} is used up"
    )
