"""What strategies share: the causes that every one has, and groups that leave nothing to do again."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from neve.compact import triggers
from neve.compact.aftermath import aftermath
from neve.compact.candidate import Take
from neve.compact.measure import Measure
from neve.compact.packing import is_worth_it, pack, without_giants
from neve.compact.plan import Level
from neve.compact.strategies.port import Draft
from neve.compact.verdict import Verdict
from neve.compact.words import number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neve.compact.candidate import Candidate
    from neve.compact.context import Context
    from neve.compact.memory import Memory
    from neve.compact.packing import Bin
    from neve.compact.plan import Layout
    from neve.compact.triggers import Trigger

ROUNDS = 4


class Rewriting(ABC):
    """A strategy that packs the files that its verdict takes, in their order."""

    name: ClassVar[str]

    @abstractmethod
    def score(self, measure: Measure, context: Context) -> Verdict:
        """What is to be done to a partition, by its counts alone."""

    def plan(self, verdict: Verdict, candidates: Sequence[Candidate], context: Context, *, complete: bool) -> Draft:
        """Groups of files; more are taken where what comes out would be taken next."""
        bins = _bins(verdict, candidates, context)
        for _round in range(ROUNDS if complete and bins and not verdict.moves else 0):
            after = Measure(aftermath(verdict, candidates, bins, context), context.table.sizes)
            then = self.score(after, context.later(after.partition, _remembered(verdict, context)))
            wider = verdict.joined(replace(then, cause=f"and what comes of that would be next: {then.cause}"))
            if not then.has_work or (wider.take, wider.layout) == (verdict.take, verdict.layout):
                break
            verdict, bins = wider, _bins(wider, candidates, context)
        return Draft(_with_those_that_wait(verdict, candidates, context), bins)

    def judged(self, measure: Measure, context: Context, *own: Trigger | None, layout: Layout | None = None) -> Verdict:
        """The verdict of the first cause that there is: those that every strategy has come before its own."""
        moved = triggers.repartition(measure, context)
        causes = (moved, triggers.full(measure, context), *own)
        found = next((cause for cause in causes if cause), None)
        if found is None:
            return Verdict(measure, self.name, why_not(measure))
        whole = layout is not None and layout.kind == "zorder"
        return Verdict(
            measure, self.name, found.reason, found.level, found.take, layout, whole=whole, moves=found is moved
        )


def _bins(verdict: Verdict, candidates: Sequence[Candidate], context: Context) -> tuple[Bin, ...]:
    sizes, config = context.table.sizes, context.config
    bins = pack(_taken(verdict, candidates, context), sizes, config.group_bytes, config.group_files)
    return tuple(files for files in bins if verdict.moves or is_worth_it(files, verdict.take, sizes))


def _taken(verdict: Verdict, candidates: Sequence[Candidate], context: Context) -> list[Candidate]:
    """The files that a verdict takes; of fragments that are packed again and again, not those that have to wait."""
    taken = [candidate for candidate in candidates if candidate.kinds & verdict.take]
    in_turn = verdict.take == Take.FRAGMENTS and context.is_in_turn(verdict.measure.partition)
    return without_giants(taken) if in_turn else taken


def _with_those_that_wait(verdict: Verdict, candidates: Sequence[Candidate], context: Context) -> Verdict:
    """The verdict with a word about fragments that are left for another time."""
    wanted = sum(bool(candidate.kinds & verdict.take) for candidate in candidates)
    waiting = wanted - len(_taken(verdict, candidates, context))
    if not waiting:
        return verdict
    words = f"{number(waiting, 'larger one')} left until the others together are as large"
    return replace(verdict, cause=f"{verdict.cause}; {words}")


def _remembered(verdict: Verdict, context: Context) -> Memory:
    """What is remembered when the verdict is carried out."""
    memory = replace(context.memory(verdict.measure.partition), minor_at=context.now)
    return replace(memory, full_at=context.now) if verdict.level is Level.FULL else memory


def why_not(measure: Measure) -> str:
    """Why nothing is done, in words."""
    stats = measure.stats
    if not measure.cold_files:
        return "all are hot, and left to the writers that add to them"
    if stats.files == 1:
        return "a single file that nothing is wrong with"
    small = [
        number(share.files, noun)
        for share, noun in ((stats.fragments, "fragment"), (stats.undersized, "undersized file"))
        if share.files
    ]
    if small:
        return f"{' and '.join(small)}, too few to be packed now"
    return "none is too small, too large or has too many deletes"
