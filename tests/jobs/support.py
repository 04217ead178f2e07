"""What the tests of work share: a clock that is put forward by hand, and a store in a file."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from neve.state.config import StateConfig
from neve.state.sql_documents import SqlDocuments
from neve.state.store import StateStore

if TYPE_CHECKING:
    from pathlib import Path

START = datetime(2026, 1, 31, 12, tzinfo=UTC)


@dataclass
class Clock:
    """The time as the tests want it; where ids must be in order, each look at it takes a moment."""

    time: datetime = START
    moment: timedelta = timedelta(0)

    def __call__(self) -> datetime:
        """What the time is."""
        self.time += self.moment
        return self.time

    def forward(self, seconds: float) -> datetime:
        """Let time pass."""
        self.time += timedelta(seconds=seconds)
        return self.time


def sqlite(folder: Path) -> SqlDocuments:
    """The embedded store."""
    return SqlDocuments(StateStore(StateConfig(path=str(folder / "state.db"))))
