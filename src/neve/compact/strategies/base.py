"""The interface and common base of strategies: shared triggers, packing, the projected state of a partition.

A strategy also scores the state that its rewrite would leave. It takes more files at once if it would find work again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Protocol

from neve.compact.health import Measure
from neve.compact.plan import Level
from neve.compact.planning.candidates import FileKind, drop_giants, is_worth_it, output_sizes, pack_candidates
from neve.compact.planning.groups import choose_layout
from neve.compact.strategies import triggers
from neve.compact.strategies.verdict import Verdict
from neve.lake.read.partition_stats import FileTotals
from neve.text import format_count

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from neve.compact.partition_memory import PartitionMemory
    from neve.compact.plan import Layout
    from neve.compact.planning.candidates import Bin, Candidate
    from neve.compact.planning.context import Context
    from neve.compact.strategies.triggers import Trigger
    from neve.lake.read.partition_stats import PartitionStats


@dataclass(frozen=True)
class Draft:
    """Files that are rewritten together, and the verdict behind it."""

    verdict: Verdict
    bins: tuple[Bin, ...]


class Strategy(Protocol):
    """A rule that decides what is rewritten. It depends on numbers and settings only."""

    @property
    def name(self) -> str:
        """Name of the strategy for users."""

    def score(self, measure: Measure, context: Context) -> Verdict:
        """Return the verdict on a partition, by its counts alone."""

    def plan(self, verdict: Verdict, candidates: Sequence[Candidate], context: Context, *, complete: bool) -> Draft:
        """Plan the rewrite of a partition's files. They are all its files or, if there are too many, the first ones."""


def project_state(
    verdict: Verdict, candidates: Sequence[Candidate], bins: Sequence[Bin], context: Context
) -> PartitionStats:
    """Return the expected counts. The candidates must include every file that has a problem."""
    stats, sizes = verdict.measure.stats, context.table.sizes
    gone = {candidate.file.path for files in bins for candidate in files}
    rest = [candidate for candidate in candidates if candidate.file.path not in gone]
    outputs = [size for files in bins for size in output_sizes(files, sizes)]
    unlaid = [size for files in bins if not _lays_out(files, verdict, context) for size in output_sizes(files, sizes)]
    everything = [candidate.bytes for candidate in rest] + outputs
    undersized = [size for size in everything if sizes.fragment < size <= sizes.small]
    positions = [candidate for candidate in rest if candidate.kinds & FileKind.POSITIONS]
    equalities = [candidate for candidate in rest if candidate.kinds & FileKind.EQUALITIES]
    deletes = replace(
        stats.deletes,
        live_position_rows=stats.deletes.live_position_rows if positions else 0,
        live_equality_files=stats.deletes.live_equality_files if equalities else 0,
        live_equality_rows=stats.deletes.live_equality_rows if equalities else 0,
    )
    return replace(
        stats,
        files=stats.files - len(gone) + len(outputs),
        bytes=stats.bytes - sum(candidate.bytes for files in bins for candidate in files) + sum(outputs),
        fragments=_sum_share(size for size in everything if size <= sizes.fragment),
        undersized=_sum_share(undersized),
        oversized=_sum_share(size for size in everything if size > sizes.large),
        smallest=tuple(sorted(undersized)[:2]),
        unlaid=_sum_share([*unlaid, *(candidate.bytes for candidate in rest if candidate.kinds & FileKind.UNLAID)]),
        over_deletes=_sum_share(candidate.bytes for candidate in rest if candidate.kinds & FileKind.OVER_DELETES),
        with_positions=_sum_share(candidate.bytes for candidate in positions),
        with_position_rows=sum(candidate.file.rows for candidate in positions),
        with_equality=_sum_share(candidate.bytes for candidate in equalities),
        with_equality_rows=sum(candidate.file.rows for candidate in equalities),
        deletes=deletes,
    )


def _sum_share(sizes: Iterable[int]) -> FileTotals:
    found = list(sizes)
    return FileTotals(len(found), sum(found))


def _lays_out(files: Bin, verdict: Verdict, context: Context) -> bool:
    """Return whether the outputs of a bin count as laid out."""
    wanted = context.table.layout
    if wanted.kind == "keep":
        return True
    return choose_layout(files, verdict, context.table) == wanted and (wanted.kind == "sort" or verdict.whole)


ROUNDS = 4


class RewriteStrategy(ABC):
    """A strategy that packs the files of its verdict in their order."""

    name: ClassVar[str]

    @abstractmethod
    def score(self, measure: Measure, context: Context) -> Verdict:
        """Return the verdict on a partition, by its counts alone."""

    def plan(self, verdict: Verdict, candidates: Sequence[Candidate], context: Context, *, complete: bool) -> Draft:
        """Return groups of files. More files are taken if the outputs would be rewritten next."""
        bins = _bins(verdict, candidates, context)
        for _round in range(ROUNDS if complete and bins and not verdict.moves else 0):
            after = Measure(project_state(verdict, candidates, bins, context), context.table.sizes)
            then = self.score(after, context.later(after.partition, _project_memory(verdict, context)))
            wider = verdict.join(replace(then, cause=f"and its outputs would be next: {then.cause}"))
            if not then.has_work or (wider.take, wider.layout) == (verdict.take, verdict.layout):
                break
            verdict, bins = wider, _bins(wider, candidates, context)
        return Draft(_mention_waiting(verdict, candidates, context), bins)

    def decide(self, measure: Measure, context: Context, *own: Trigger | None, layout: Layout | None = None) -> Verdict:
        """Return the verdict of the first trigger that applies. Common triggers come before those of the strategy."""
        moved = triggers.repartition(measure, context)
        causes = (moved, triggers.full(measure, context), *own)
        found = next((cause for cause in causes if cause), None)
        if found is None:
            return Verdict(measure, self.name, explain_no_work(measure))
        whole = layout is not None and layout.kind == "zorder"
        return Verdict(
            measure, self.name, found.reason, found.level, found.take, layout, whole=whole, moves=found is moved
        )


def _bins(verdict: Verdict, candidates: Sequence[Candidate], context: Context) -> tuple[Bin, ...]:
    sizes, config = context.table.sizes, context.config
    bins = pack_candidates(
        _select_candidates(verdict, candidates, context), sizes, config.group_bytes, config.group_files
    )
    return tuple(files for files in bins if verdict.moves or is_worth_it(files, verdict.take, sizes))


def _select_candidates(verdict: Verdict, candidates: Sequence[Candidate], context: Context) -> list[Candidate]:
    """Return the files that a verdict takes. Of fragments that are packed repeatedly, some have to wait."""
    taken = [candidate for candidate in candidates if candidate.kinds & verdict.take]
    in_turn = verdict.take == FileKind.FRAGMENTS and context.is_in_turn(verdict.measure.partition)
    return drop_giants(taken) if in_turn else taken


def _mention_waiting(verdict: Verdict, candidates: Sequence[Candidate], context: Context) -> Verdict:
    """Add a note about postponed fragments to the verdict."""
    wanted = sum(bool(candidate.kinds & verdict.take) for candidate in candidates)
    waiting = wanted - len(_select_candidates(verdict, candidates, context))
    if not waiting:
        return verdict
    note = f"{format_count(waiting, 'larger one')} to wait until the others together are as large"
    return replace(verdict, cause=f"{verdict.cause}; {note}")


def _project_memory(verdict: Verdict, context: Context) -> PartitionMemory:
    """Return the state of the partition after the verdict is carried out."""
    memory = replace(context.memory(verdict.measure.partition), minor_at=context.now)
    return replace(memory, full_at=context.now) if verdict.level is Level.FULL else memory


def explain_no_work(measure: Measure) -> str:
    """Return the reason why nothing is done."""
    stats = measure.stats
    if not measure.cold_files:
        return "all files are hot: writers still add to the partition"
    if stats.files == 1:
        return "one file, no problems"
    small = [
        format_count(share.files, noun)
        for share, noun in ((stats.fragments, "fragment"), (stats.undersized, "undersized file"))
        if share.files
    ]
    if small:
        return f"{' and '.join(small)}, too few to be packed now"
    return "none is too small, too large or has too many deletes"
