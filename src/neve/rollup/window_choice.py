"""Position of a rollup level in its source, and the choice of the windows to compute.

The choice is a pure function of the position and the changes since.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from neve.lake.read.incremental import StoredPosition, TouchedWindows, never_frozen
from neve.lake.time_ranges import BEGINNING, END, EVERYTHING, Ranges, ceiling, floor
from neve.text import format_count

if TYPE_CHECKING:
    from neve.lake.read.incremental import Frozen
    from neve.model.rollups import Level


ROLLUP = "rollup"
DAY_MICROS = 86_400 * 1_000_000


@dataclass(frozen=True)
class Position(StoredPosition):
    """State of the source from which a level's rows were computed. Windows that end by `closed_until` are final.

    `partial` is true if later windows are included, too.
    """

    snapshot: int | None
    closed_until: int
    definition: str
    partial: bool = False


@dataclass(frozen=True)
class WindowsToCompute:
    """The time ranges to recompute for each organization, and the reason."""

    level: Level
    touched: TouchedWindows
    everyone: Ranges
    until: int
    after: int
    frozen: Frozen
    computed_until: int
    reason: str

    def of(self, owner: str) -> Ranges:
        """Return the windows of one organization."""
        return self._open(self._asked(owner)).within(start=self._first(owner))

    def left(self, owner: str) -> Ranges:
        """Return windows that should be computed, but whose source is no longer complete."""
        return self._open(self._asked(owner)).within(end=self._first(owner))

    def _asked(self, owner: str) -> Ranges:
        changed = self.touched.of(owner).widen(after=self.after) if self.touched.of(owner) else Ranges()
        return (changed | self.everyone).align(self.level.micros)

    def _open(self, ranges: Ranges) -> Ranges:
        return ranges.within(end=self.until)

    def _first(self, owner: str) -> int:
        """Return the start of the first window to compute: earlier ones were computed, and their source may be gone."""
        moment = self.frozen(owner)
        if moment == BEGINNING:
            return BEGINNING
        return min(ceiling(moment + self.after, self.level.micros), self.computed_until)

    @property
    def hull(self) -> Ranges:
        """Return few time ranges that contain all windows."""
        if self.everyone == EVERYTHING:
            return self._open(EVERYTHING)
        changed = self.touched.all.widen(after=self.after)
        return self._open((changed | self.everyone).align(self.level.micros)).close_gaps(DAY_MICROS)


@dataclass(frozen=True)
class RunTerms:
    """Parameters of a run: how much later than a change dependent rows may be, and further requests of users.

    `has_rows` is true if there are rows to lose.
    """

    after: int = 0
    since: int | None = None
    frozen: Frozen = never_frozen
    has_rows: bool = True


def choose_windows(
    level: Level, was: Position | None, will: Position, touched: TouchedWindows | None, terms: RunTerms
) -> WindowsToCompute:
    """Choose the windows to compute to get from one position to another.

    `touched` is `None` if the changes between them are unknown.
    """
    until = END if will.partial else will.closed_until
    if was is None or touched is None or was.definition != will.definition:
        frozen = terms.frozen if terms.has_rows else never_frozen
        computed = was.closed_until if was else END
        why = _why_everything(was, will, terms)
        return WindowsToCompute(level, TouchedWindows(), EVERYTHING, until, terms.after, frozen, computed, why)
    begins_partial = will.partial and not was.partial
    closing = Ranges.of([(was.closed_until, END if begins_partial else will.closed_until)])
    asked = Ranges.of([(floor(terms.since, level.micros), END)]) if terms.since is not None else Ranges()
    parts = [f"{format_count(touched.commits, 'commit')} since the last run"] if touched.commits else []
    parts += ["open windows are wanted from now on" if begins_partial else "windows closed since"] if closing else []
    parts += ["asked for"] if asked else []
    reason = ", ".join(parts) or "nothing came since the last run, and no window closed"
    return WindowsToCompute(level, touched, closing | asked, until, terms.after, terms.frozen, was.closed_until, reason)


def _why_everything(was: Position | None, will: Position, terms: RunTerms) -> str:
    if was is None and terms.has_rows:
        return "how far the level was is not known any more: every window that the source still has"
    if was is None:
        return "the first run: every window"
    if was.definition != will.definition:
        return "what is kept of series was changed: every window that the source still has"
    return "the snapshot of the last run is gone from the source: every window that the source still has"
