"""What a step is given: one table, the settings, the time, and who wants to know how far it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from neve.maintain.config import MaintainConfig

if TYPE_CHECKING:
    from datetime import datetime

    from pyiceberg.table import Table

    from neve.lake.lake import Lake

Tell = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Guards:
    """What must not be touched, known to those who know other rooms.

    Snapshots younger than `horizon` are what ingestion looks for duplicates by. `protected` are files that are about to
    be committed, and `kept_out` are folders that are no table's. `folders` and `batches` ask, each time anew, where
    work lies that is not committed yet, and which batches must still be found in snapshots. `readers` asks who reads
    what changed in a table, and which of its snapshots each has read last.
    """

    horizon: timedelta = timedelta(hours=1)
    protected: frozenset[str] = frozenset()
    kept_out: tuple[str, ...] = ()
    folders: Callable[[], tuple[str, ...]] = tuple
    batches: Callable[[], frozenset[str]] = frozenset
    readers: Callable[[str], tuple[tuple[str, int], ...]] = lambda _table: ()


@dataclass(frozen=True)
class Work:
    """One table to be maintained."""

    lake: Lake
    name: str
    now: datetime
    config: MaintainConfig = field(default_factory=MaintainConfig)
    guards: Guards = field(default_factory=Guards)
    dry_run: bool = False
    tell: Tell = lambda _step, _done, _total: None
    check: Callable[[], None] = lambda: None

    def table(self) -> Table:
        """The table as it is now."""
        return self.lake.table(self.name)
