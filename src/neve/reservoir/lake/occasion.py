"""A source and its sample as they are at one moment, and what follows from that for a run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from neve.errors import ConfigError
from neve.lake.changes import snapshots_since
from neve.reservoir.lake.plan import Wanted, never
from neve.reservoir.lake.position import Position
from neve.reservoir.lake.touched import touched_by
from neve.reservoir.lake.windows import BEGINNING, END

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from neve.reservoir.lake.config import LakeSampling
    from neve.reservoir.lake.plan import Frozen, Scope

STALE_MILLIS = 1_800_000  # after which a position is written anew though nothing was sampled


@dataclass(frozen=True)
class Occasion:
    """What a run starts from."""

    source: Table
    target: Table
    config: LakeSampling
    scope: Scope
    now: int
    frozen: Frozen

    @property
    def snapshot(self) -> int | None:
        """The state of the source that the run is about; `None` where it has no rows yet."""
        return self.source.metadata.current_snapshot_id

    @property
    def target_snapshot(self) -> int | None:
        """The state of the sample that the run changes."""
        return self.target.metadata.current_snapshot_id

    @cached_property
    def was(self) -> Position | None:
        """Where the sample is."""
        return Position.of(self.target)

    @cached_property
    def position(self) -> Position:
        """Where it is to be; a run that leaves windows out does not bring it further."""
        config, was = self.config, self.was
        other = was is not None and (was.mixed or was.policy != config.policy)
        if self.scope.is_whole:
            mixed = other and not self.scope.again
            return Position(self.snapshot, config.policy, config.how, config.window_seconds, self._until, mixed)
        if was is None:
            return Position(None, config.policy, config.how, config.window_seconds, BEGINNING)
        return replace(was, policy=config.policy, how=config.how, seconds=config.window_seconds, mixed=other)

    @cached_property
    def wanted(self) -> Wanted:
        """What is to be sampled."""
        self._check()
        line = snapshots_since(self.source, self.was.snapshot) if self.was else None
        micros = self.config.micros
        changed = touched_by(self.source, line, micros) if line is not None and not self.scope.again else None
        before = self.was.until if self.was else BEGINNING
        frozen = self.frozen if self.target_snapshot is not None else never
        return Wanted(micros, changed, (min(before, self._until), self._until), self.scope, frozen)

    @property
    def reason(self) -> str:
        """Why windows are sampled."""
        if self.was is None:
            return "the first run"
        if self.scope.again:
            return "asked for again"
        if self.wanted.changed is None:
            return "the snapshot of the last run is gone from the source, or what changed since can't be told"
        number = sum(len(starts) for starts in self.wanted.changed.values())
        return f"{number:,} window{'' if number == 1 else 's'} changed since the last run"

    @property
    def must_tell(self) -> bool:
        """Whether the position is so old that expiry has to keep snapshots of the source for it."""
        was, newest = self.was, self.source.current_snapshot()
        if was is None or was == self.position or newest is None:
            return False
        then = self.source.metadata.snapshot_by_id(was.snapshot) if was.snapshot is not None else None
        return then is not None and newest.timestamp_ms - then.timestamp_ms > STALE_MILLIS

    @property
    def _until(self) -> int:
        """Windows that end by then are settled."""
        return self.now - self.config.settle_seconds * 1_000_000 if self.config.settle_seconds else END

    def _check(self) -> None:
        """Windows of two lengths would overlap, and their records count twice."""
        was, seconds = self.was, self.config.window_seconds
        if was is not None and was.seconds != seconds and not (self.scope.again and self.scope.is_whole):
            raise ConfigError(
                f"{'.'.join(self.target.name())} has windows of {was.seconds:,} s, and is to get some of {seconds:,} s",
                hint="sample every window anew with --again, or set reservoir.lake.window_seconds as it was",
            )
