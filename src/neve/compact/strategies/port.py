"""What every strategy can do: score a partition, and plan it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neve.compact.candidate import Candidate
    from neve.compact.context import Context
    from neve.compact.measure import Measure
    from neve.compact.packing import Bin
    from neve.compact.verdict import Verdict


@dataclass(frozen=True)
class Draft:
    """Which files are rewritten together, and the verdict that this carries out."""

    verdict: Verdict
    bins: tuple[Bin, ...]


class Strategy(Protocol):
    """A way to decide what is rewritten; it knows numbers and settings only."""

    @property
    def name(self) -> str:
        """What users call it."""

    def score(self, measure: Measure, context: Context) -> Verdict:
        """What is to be done to a partition, by its counts alone."""

    def plan(self, verdict: Verdict, candidates: Sequence[Candidate], context: Context, *, complete: bool) -> Draft:
        """How to do it, with its files, which are all that there are or, where there are too many, the first ones."""
