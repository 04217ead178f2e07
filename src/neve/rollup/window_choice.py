"""The windows of a rollup level to compute: a pure function of its position and the changes since."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from neve.lake.read.incremental import TouchedWindows, never_frozen
from neve.lake.time_ranges import BEGINNING, END, EVERYTHING, Ranges, ceiling, floor
from neve.text import format_count

if TYPE_CHECKING:
    from neve.lake.read.incremental import Frozen
    from neve.model.levels import Level
    from neve.rollup.position import Position


DAY_MICROS = 86_400 * 1_000_000


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
        return self._open(self._candidates(owner)).within(start=self._first(owner))

    def unavailable(self, owner: str) -> Ranges:
        """Return windows that should be computed, but whose source is no longer complete."""
        return self._open(self._candidates(owner)).within(end=self._first(owner))

    def _candidates(self, owner: str) -> Ranges:
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
    level: Level, previous: Position | None, next_position: Position, touched: TouchedWindows | None, terms: RunTerms
) -> WindowsToCompute:
    """Choose the windows to compute to get from one position to another.

    `touched` is `None` if the changes between them are unknown.
    """
    until = END if next_position.partial else next_position.closed_until
    if previous is None or touched is None or previous.definition != next_position.definition:
        frozen = terms.frozen if terms.has_rows else never_frozen
        computed = previous.closed_until if previous else END
        why = _explain_recompute(previous, next_position, terms)
        return WindowsToCompute(level, TouchedWindows(), EVERYTHING, until, terms.after, frozen, computed, why)
    begins_partial = next_position.partial and not previous.partial
    closing = Ranges.of([(previous.closed_until, END if begins_partial else next_position.closed_until)])
    requested = Ranges.of([(floor(terms.since, level.micros), END)]) if terms.since is not None else Ranges()
    parts = [f"{format_count(touched.commits, 'commit')} since the last run"] if touched.commits else []
    if closing:
        parts.append("rollup.partial was enabled" if begins_partial else "windows closed since the last run")
    parts += ["requested by --since"] if requested else []
    reason = ", ".join(parts) or "no new commits and no closed windows since the last run"
    return WindowsToCompute(
        level, touched, closing | requested, until, terms.after, terms.frozen, previous.closed_until, reason
    )


def _explain_recompute(previous: Position | None, next_position: Position, terms: RunTerms) -> str:
    if previous is None and terms.has_rows:
        return "the position of the level is lost: every window that the source still has"
    if previous is None:
        return "first run: every window"
    if previous.definition != next_position.definition:
        return "the series definition changed: every window that the source still has"
    return "the source snapshot of the last run has expired: every window that the source still has"
