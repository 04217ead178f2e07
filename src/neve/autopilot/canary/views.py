"""The views that a canary's statements read: of both sides, and of no other rows than whoever asked could see."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Self

from neve.autopilot.canary.statement import Sides
from neve.errors import TableMissing
from neve.lake.lake import identify

if TYPE_CHECKING:
    from datetime import datetime

    from neve.autopilot.canary.engine import SparkEngine
    from neve.autopilot.layout import Promoted
    from neve.autopilot.workload import Test

Implied = tuple["Test", ...]


@dataclass
class Views:
    """Views of one comparison; they are dropped at its end."""

    engine: SparkEngine
    main: int
    branch: str
    now: datetime
    promoted: tuple[Promoted, ...]
    _sides: dict[Implied, Sides] = field(default_factory=dict, init=False)
    _others: dict[tuple[str, Implied], str | None] = field(default_factory=dict, init=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        for one in self._sides.values():
            self.engine.drop(one.main)
            self.engine.drop(one.branch)
        for view in self._others.values():
            if view is not None:
                self.engine.drop(view)

    def sides(self, implied: Implied) -> Sides:
        """Main and the branch, with the rows that hold what is implied."""
        if implied not in self._sides:
            lake, table = self.engine.lake, self.engine.table
            self._sides[implied] = Sides(
                lake.catalog_config.name,
                identify(table),
                self.engine.view(self.main, implied),
                self.engine.view(self.branch, implied, branch=True),
                self.now,
                self.promoted,
                partial(self._other, implied),
            )
        return self._sides[implied]

    def _other(self, implied: Implied, table: str) -> str | None:
        """A view of another table of the lake; none where nothing is implied, or there is no such table."""
        if not implied:
            return None
        if (table, implied) not in self._others:
            self._others[table, implied] = self._made(implied, table)
        return self._others[table, implied]

    def _made(self, implied: Implied, table: str) -> str | None:
        try:
            self.engine.lake.table(table)
        except TableMissing:  # Spark says so in its own words
            return None
        return self.engine.other(table, implied)
