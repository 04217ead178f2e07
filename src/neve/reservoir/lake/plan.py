"""Which windows are to be sampled, and why: a pure function of where a sample is and what happened to its source."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from neve.reservoir.lake.windows import BEGINNING, END, by_owner, floor, ranges_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from neve.reservoir.lake.windows import Range, Windows

Frozen = Callable[[str], int]  # the moment before which an organization's source may be incomplete
Counts = Mapping[tuple[str, int], int]  # records by organization and window

MOST_RANGES = 50  # that a scan is asked for apart


def never(_owner: str) -> int:
    """Nothing is frozen."""
    return BEGINNING


@dataclass(frozen=True)
class Scope:
    """What a run is asked to look at; `again` samples windows that need it not."""

    since: int = BEGINNING
    until: int = END
    owner: str | None = None
    again: bool = False

    @property
    def is_whole(self) -> bool:
        """Whether no window is left out."""
        return self.since == BEGINNING and self.until == END and self.owner is None

    def covers(self, owner: str, start: int, end: int) -> bool:
        """Whether a window is looked at: any part of it may lie after `since`, and its start before `until`."""
        return self.owner in (None, owner) and end > self.since and start < self.until


@dataclass(frozen=True)
class Wanted:
    """What happened since the last run: windows that changed (`None`: any may have), and time that settled."""

    micros: int
    changed: Windows | None
    settled: Range
    scope: Scope = Scope()
    frozen: Frozen = never

    @property
    def everything(self) -> bool:
        """Whether every window is wanted."""
        return self.changed is None or self.scope.again

    @cached_property
    def time(self) -> tuple[Range, ...]:
        """Time that holds every window that may be wanted, in few ranges."""
        first, last = self.scope.since, self.scope.until
        if self.everything:
            found: tuple[Range, ...] = ((BEGINNING, END),)
        else:
            starts = {start for owned in (self.changed or {}).values() for start in owned}
            found = ranges_of(starts, self.micros, MOST_RANGES)
            if self.settled[0] < self.settled[1]:
                # A window that settled ends after the one and by the other.
                found = (*found, (self.settled[0] - self.micros, self.settled[1]))
        bounds = ((max(start, floor(first, self.micros)), min(end, last + self.micros)) for start, end in found)
        return tuple((start, end) for start, end in bounds if start < end)

    def holds(self, owner: str, start: int) -> bool:
        """Whether a window is wanted, if it is settled."""
        if not self.scope.covers(owner, start, start + self.micros):
            return False
        came = self.everything or start in (self.changed or {}).get(owner, ())
        return came or self.settled[0] < start + self.micros <= self.settled[1]

    def without_rows(self, counts: Counts) -> Iterator[tuple[str, int]]:
        """Windows that changed and have no rows any more."""
        for owner, starts in (self.changed or {}).items():
            yield from ((owner, start) for start in starts if (owner, start) not in counts)


@dataclass(frozen=True, order=True)
class Turn:
    """A window of one organization, with the records that it has now."""

    owner: str
    start: int
    records: int


@dataclass(frozen=True)
class Plan:
    """What to sample, and how many windows have to wait, or stay because their source is not all there any more."""

    turns: tuple[Turn, ...] = ()
    waiting: int = 0
    left: int = 0

    @cached_property
    def windows(self) -> dict[str, set[int]]:
        """The windows whose rows are replaced, by organization."""
        return by_owner((turn.owner, turn.start) for turn in self.turns)

    def time(self, micros: int) -> tuple[Range, ...]:
        """Time that holds them, in few ranges."""
        return ranges_of((turn.start for turn in self.turns), micros, MOST_RANGES)

    @property
    def records(self) -> int:
        """Records of them all."""
        return sum(turn.records for turn in self.turns)


def plan_windows(counts: Counts, wanted: Wanted) -> Plan:
    """The windows to sample: those that are wanted, settled, and whose source is all there."""
    turns, waiting, left = [], 0, 0
    known = {**counts, **dict.fromkeys(wanted.without_rows(counts), 0)}
    for (owner, start), records in sorted(known.items()):
        if not wanted.holds(owner, start):
            continue
        if start + wanted.micros > wanted.settled[1]:
            waiting += 1
        elif start < wanted.frozen(owner):
            left += bool(records)
        else:
            turns.append(Turn(owner, start, records))
    return Plan(tuple(turns), waiting, left)
