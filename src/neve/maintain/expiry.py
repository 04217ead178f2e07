"""The values of expiry: what may go, what a table remembers, and what is to be done."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import timedelta

    from neve.maintain.entry import Entry
    from neve.maintain.snapshots import Ref, Snapshot


@dataclass(frozen=True)
class ExpirePolicy:
    """What may go: older than `max_age` and beyond the last `min_snapshots` of a branch, never younger than `floor`.

    What is beyond the last `max_snapshots` of a branch may go before its age; 0 is any number of them.
    """

    max_age: timedelta
    min_snapshots: int
    floor: timedelta
    max_snapshots: int = 0
    carry: bool = True


@dataclass(frozen=True)
class Remembered:
    """What a table remembers, the batches whose id must still be found in it, and from which snapshots others read on.

    Of `readers` each has a name, and the snapshot that it read last.
    """

    snapshots: tuple[Snapshot, ...]
    refs: tuple[Ref, ...]
    needed_batches: frozenset[str] = frozenset()
    readers: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class Carried:
    """A stream whose position is to be written into a new snapshot, because its last one is to go."""

    stream: str
    snapshot: Snapshot


@dataclass(frozen=True)
class ExpirePlan:
    """What is to go, and the reason for each snapshot beyond the age that stays."""

    expire: tuple[Snapshot, ...] = ()
    drop: tuple[Ref, ...] = ()
    carry: tuple[Carried, ...] = ()
    entries: tuple[Entry, ...] = ()
    refused: str = ""
    bytes: int = 0

    @property
    def empty(self) -> bool:
        """Whether there is nothing to do."""
        return not (self.expire or self.drop)
