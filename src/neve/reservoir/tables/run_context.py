"""Context of a run: source and sample at one moment, the sample's position, and the windows wanted.

The position is the snapshot of the source that the sample represents. It is stored in the commits of the sample.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from neve.errors import ConfigError
from neve.lake.read.incremental import find_touched_windows, never_frozen
from neve.lake.read.positions import NO_POSITION, StoredPosition, find_changes, is_stale
from neve.lake.time_ranges import BEGINNING, END
from neve.reservoir.tables.plan import WindowSelection

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

    from neve.lake.read.incremental import Frozen
    from neve.reservoir.config import LakeSampling
    from neve.reservoir.tables.plan import Scope
    from neve.reservoir.windows import Windows


RESERVOIR = "reservoir"


@dataclass(frozen=True)
class Position(StoredPosition):
    """Position of a sample: the state of the source that it was drawn from.

    Windows that end after `until` are not in it.

    `mixed` is set if some windows were sampled by another policy before, and were not sampled again.
    """

    snapshot: int | None
    policy: str
    how: str
    seconds: int
    until: int
    mixed: bool = False


def find_changed_windows(source: Table, snapshots: Iterable[Snapshot], micros: int) -> Windows | None:
    """Return the windows that snapshots changed, or `None` if any window may have changed."""
    touched = find_touched_windows(source, snapshots, micros)
    if touched.everyone or not all(ranges.is_bounded for ranges in touched.owners.values()):
        return None
    return {owner: ranges.starts(micros) for owner, ranges in touched.owners.items()}


@dataclass(frozen=True)
class RunContext:
    """Input of a run."""

    source: Table
    target: Table
    config: LakeSampling
    scope: Scope
    now: int
    frozen: Frozen

    @property
    def snapshot(self) -> int | None:
        """The snapshot of the source for the run; `None` if it has no rows yet."""
        return self.source.metadata.current_snapshot_id

    @property
    def target_snapshot(self) -> int | None:
        """The snapshot of the sample that the run changes."""
        return self.target.metadata.current_snapshot_id

    @cached_property
    def previous(self) -> Position | None:
        """The current position of the sample."""
        return Position.load(self.target, RESERVOIR)

    @cached_property
    def position(self) -> Position:
        """The position after the run.

        A run that excludes windows does not advance it.
        """
        config, previous = self.config, self.previous
        other = previous is not None and (previous.mixed or previous.policy != config.policy)
        if self.scope.is_whole:
            mixed = other and not self.scope.again
            return Position(self.snapshot, config.policy, config.how, config.window_seconds, self._until, mixed)
        if previous is None:
            return Position(None, config.policy, config.how, config.window_seconds, BEGINNING)
        return replace(previous, policy=config.policy, how=config.how, seconds=config.window_seconds, mixed=other)

    @cached_property
    def windows(self) -> WindowSelection:
        """The windows to sample."""
        self._check()
        changes = find_changes(self.source, self.previous.snapshot) if self.previous else NO_POSITION
        micros, unknown = self.config.micros, bool(changes.gap) or self.scope.again
        changed = None if unknown else find_changed_windows(self.source, changes.snapshots, micros)
        before = self.previous.until if self.previous else BEGINNING
        frozen = self.frozen if self.target_snapshot is not None else never_frozen
        return WindowSelection(micros, changed, (min(before, self._until), self._until), self.scope, frozen)

    @property
    def reason(self) -> str:
        """The reason why windows are sampled."""
        if self.previous is None:
            return "first run"
        if self.scope.again:
            return "resampling was requested"
        if self.windows.changed is None:
            return "the source snapshot of the last run has expired, or the changes since are unknown"
        number = sum(len(starts) for starts in self.windows.changed.values())
        return f"{number:,} window{'' if number == 1 else 's'} changed since the last run"

    @property
    def must_commit_position(self) -> bool:
        """True if the position is so old that expiry must keep snapshots of the source for it."""
        return (
            self.previous is not None
            and self.previous != self.position
            and is_stale(self.source, self.previous.snapshot)
        )

    @property
    def _until(self) -> int:
        """The time up to which windows are settled."""
        return self.now - self.config.settle_seconds * 1_000_000 if self.config.settle_seconds else END

    def _check(self) -> None:
        """Reject windows of two lengths: they would overlap, and their records would count twice."""
        previous, seconds = self.previous, self.config.window_seconds
        if previous is not None and previous.seconds != seconds and not (self.scope.again and self.scope.is_whole):
            raise ConfigError(
                f"{'.'.join(self.target.name())} has windows of {previous.seconds:,} s, "
                f"but reservoir.lake.window_seconds is {seconds:,}",
                hint="sample every window again with --again, or restore reservoir.lake.window_seconds",
            )
