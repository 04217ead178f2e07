"""Plan of a run: the windows to sample and why, a pure function of the sample's position and the source's changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from neve.lake.read.incremental import never_frozen
from neve.lake.read.snapshot_files import MAX_RANGES
from neve.lake.time_ranges import BEGINNING, END, EVERYTHING, Ranges, floor
from neve.reservoir.windows import by_owner

if TYPE_CHECKING:
    from collections.abc import Iterator

    from neve.lake.read.incremental import Frozen
    from neve.lake.time_ranges import Range
    from neve.reservoir.windows import Windows

Counts = Mapping[tuple[str, int], int]  # records by organization and window


@dataclass(frozen=True)
class Scope:
    """Requested scope of a run; `again` samples windows that did not change."""

    since: int = BEGINNING
    until: int = END
    owner: str | None = None
    again: bool = False

    @property
    def is_whole(self) -> bool:
        """True if no window is excluded."""
        return self.since == BEGINNING and self.until == END and self.owner is None

    def covers(self, owner: str, start: int, end: int) -> bool:
        """Return whether a window is in scope: it ends after `since` and begins before `until`."""
        return self.owner in (None, owner) and end > self.since and start < self.until


@dataclass(frozen=True)
class WindowSelection:
    """Changes since the last run: windows that changed (`None`: any may have), and the time range that settled."""

    micros: int
    changed: Windows | None
    settled: Range
    scope: Scope = Scope()
    frozen: Frozen = never_frozen

    @property
    def everything(self) -> bool:
        """True if every window is wanted."""
        return self.changed is None or self.scope.again

    @cached_property
    def time(self) -> Ranges:
        """Time ranges that contain every window that may be wanted, few in number."""
        if self.everything:
            found = EVERYTHING
        else:
            starts = {start for owned in (self.changed or {}).values() for start in owned}
            found = Ranges.of_windows(starts, self.micros).join_to(MAX_RANGES)
            if self.settled[0] < self.settled[1]:
                # A window that settled ends after the earlier limit, and not after the later one.
                found |= Ranges.of([(self.settled[0] - self.micros, self.settled[1])])
        return found.within(floor(self.scope.since, self.micros), self.scope.until + self.micros)

    def holds(self, owner: str, start: int) -> bool:
        """Return whether a window is wanted, if it is settled."""
        if not self.scope.covers(owner, start, start + self.micros):
            return False
        came = self.everything or start in (self.changed or {}).get(owner, ())
        return came or self.settled[0] < start + self.micros <= self.settled[1]

    def find_empty(self, counts: Counts) -> Iterator[tuple[str, int]]:
        """Yield windows that changed and have no rows any more."""
        for owner, starts in (self.changed or {}).items():
            yield from ((owner, start) for start in starts if (owner, start) not in counts)


@dataclass(frozen=True, order=True)
class PlannedWindow:
    """A window of one organization, with its current number of records."""

    owner: str
    start: int
    records: int


@dataclass(frozen=True)
class Plan:
    """Windows to sample, and the numbers of windows that wait, or stay because their source is incomplete."""

    to_sample: tuple[PlannedWindow, ...] = ()
    waiting: int = 0
    left: int = 0

    def windows(self, micros: int) -> dict[str, Ranges]:
        """Return the windows whose rows are replaced, by organization."""
        owned = by_owner((planned.owner, planned.start) for planned in self.to_sample)
        return {owner: Ranges.of_windows(starts, micros) for owner, starts in sorted(owned.items())}

    def time(self, micros: int) -> Ranges:
        """Return time ranges that contain the windows, few in number."""
        return Ranges.of_windows((planned.start for planned in self.to_sample), micros).join_to(MAX_RANGES)

    @property
    def records(self) -> int:
        """The number of records of all windows."""
        return sum(planned.records for planned in self.to_sample)


def plan_windows(counts: Counts, wanted: WindowSelection) -> Plan:
    """Plan the windows that are wanted, settled and have a complete source."""
    to_sample, waiting, left = [], 0, 0
    known = {**counts, **dict.fromkeys(wanted.find_empty(counts), 0)}
    for (owner, start), records in sorted(known.items()):
        if not wanted.holds(owner, start):
            continue
        if start + wanted.micros > wanted.settled[1]:
            waiting += 1
        elif start < wanted.frozen(owner):
            left += bool(records)
        else:
            to_sample.append(PlannedWindow(owner, start, records))
    return Plan(tuple(to_sample), waiting, left)
