"""What a run computes, and why: a pure function of where a level is and what happened to its source."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from neve.rollup.ranges import BEGINNING, END, EVERYTHING, Ranges, ceiling, floor
from neve.rollup.touched import Touched

if TYPE_CHECKING:
    from neve.model.rollups import Level
    from neve.rollup.position import Position

Frozen = Callable[[str], int]  # the moment before which an organization's source may be incomplete

DAY = 86_400 * 1_000_000


def never(_owner: str) -> int:
    """Nothing is frozen."""
    return BEGINNING


@dataclass(frozen=True)
class Wanted:
    """The time to be computed anew, of each organization, and the reason."""

    level: Level
    touched: Touched
    everyone: Ranges
    until: int
    after: int
    frozen: Frozen
    computed_until: int
    reason: str

    def of(self, owner: str) -> Ranges:
        """The windows of one organization."""
        return self._open(self._asked(owner)).within(start=self._first(owner))

    def left(self, owner: str) -> Ranges:
        """Windows that should be computed, but whose source is not all there any more."""
        return self._open(self._asked(owner)).within(end=self._first(owner))

    def _asked(self, owner: str) -> Ranges:
        changed = self.touched.of(owner).widened(after=self.after) if self.touched.of(owner) else Ranges()
        return (changed | self.everyone).aligned(self.level.micros)

    def _open(self, ranges: Ranges) -> Ranges:
        return ranges.within(end=self.until)

    def _first(self, owner: str) -> int:
        """Windows before it stay: they were computed, and what they were made of may be gone."""
        moment = self.frozen(owner)
        if moment == BEGINNING:
            return BEGINNING
        return min(ceiling(moment + self.after, self.level.micros), self.computed_until)

    @property
    def hull(self) -> Ranges:
        """Time that holds all of it, in few ranges."""
        if self.everyone == EVERYTHING:
            return self._open(EVERYTHING)
        changed = self.touched.all.widened(after=self.after)
        return self._open((changed | self.everyone).aligned(self.level.micros)).closed_gaps(DAY)


@dataclass(frozen=True)
class Terms:
    """What a run is told: how much later than a change rows may be that depend on it, and what else users ask for.

    `has_rows` says whether there are any to lose.
    """

    after: int = 0
    since: int | None = None
    frozen: Frozen = never
    has_rows: bool = True


def want(level: Level, was: Position | None, will: Position, touched: Touched | None, terms: Terms) -> Wanted:
    """What to compute to get from one position to another.

    `touched` is `None` where nobody knows what happened between them.
    """
    until = END if will.partial else will.closed_until
    if was is None or touched is None or was.definition != will.definition:
        frozen = terms.frozen if terms.has_rows else never
        computed = was.closed_until if was else END
        why = _why_everything(was, will, terms)
        return Wanted(level, Touched(), EVERYTHING, until, terms.after, frozen, computed, why)
    begins_partial = will.partial and not was.partial
    closing = Ranges.of([(was.closed_until, END if begins_partial else will.closed_until)])
    asked = Ranges.of([(floor(terms.since, level.micros), END)]) if terms.since is not None else Ranges()
    parts = [f"{_commits(touched.commits)} since the last run"] if touched.commits else []
    parts += ["open windows are wanted from now on" if begins_partial else "windows closed since"] if closing else []
    parts += ["asked for"] if asked else []
    reason = ", ".join(parts) or "nothing came since the last run, and no window closed"
    return Wanted(level, touched, closing | asked, until, terms.after, terms.frozen, was.closed_until, reason)


def _commits(number: int) -> str:
    return "1 commit" if number == 1 else f"{number:,} commits"


def _why_everything(was: Position | None, will: Position, terms: Terms) -> str:
    if was is None and terms.has_rows:
        return "how far the level was is not known any more: every window that the source still has"
    if was is None:
        return "the first run: every window"
    if was.definition != will.definition:
        return "what is kept of series was changed: every window that the source still has"
    return "the snapshot of the last run is gone from the source: every window that the source still has"
