"""Where a selector is: written into every commit that it makes, read back from the newest of them."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING

from neve.errors import ConfigError
from neve.lake.changes import newest_of
from neve.model.commits import POSITIONS, STREAM

if TYPE_CHECKING:
    from pyiceberg.table import Table

TAIL = "tail"


@dataclass(frozen=True)
class Position:
    """After a cycle: what was read of the source, and until when traces that were ready are decided.

    `layout` tells which bits of a summary mean what, `waits` when traces were ready; `limits` is how far budgets and
    moving averages are.
    """

    cycle: int
    source: str
    snapshot_id: int | None
    now_us: int
    until_us: int
    policies: str
    layout: str
    waits: str = ""
    limits: dict[str, dict[str, object]] = field(default_factory=dict)

    @classmethod
    def of(cls, table: Table, selector: str) -> Position | None:
        """What the selector's last commit to a table said."""
        words = newest_of(table, stream(selector))
        return cls(**json.loads(words[POSITIONS])) if words else None

    def summary(self, selector: str) -> dict[str, str]:
        """The position as a commit carries it."""
        return {STREAM: stream(selector), POSITIONS: json.dumps(asdict(self), sort_keys=True)}


@dataclass(frozen=True)
class Before:
    """Where a selector is when a cycle begins; `unfinished` is the position of a cycle that was killed halfway."""

    position: Position | None
    unfinished: Position | None = None

    @property
    def until_us(self) -> int:
        """Until when traces that were ready are decided."""
        return self.position.until_us if self.position else 0

    @property
    def limits(self) -> dict[str, dict[str, object]]:
        """How far budgets and moving averages are."""
        return self.position.limits if self.position else {}

    @property
    def cycle(self) -> int:
        """The last cycle that is known to have been."""
        return self.position.cycle if self.position else 0


def before_cycle(decisions: Table, opened: Table, selector: str, source: str) -> Before:
    """Where a selector is, by its last commits to both of its tables."""
    decided, left = Position.of(decisions, selector), Position.of(opened, selector)
    for position in (decided, left):
        if position is not None and position.source != source:
            raise ConfigError(
                f"the selector {selector!r} has decided about {position.source}, and is to go on with {source}",
                hint="give the selector of another table another tail.name",
            )
    if decided is not None and (left is None or decided.cycle > left.cycle):
        return Before(left, unfinished=decided)
    if left is not None and decided is not None:
        # Cycles that decided nothing moved the open traces alone; budgets stand where something was decided last.
        left = replace(left, limits=decided.limits)
    return Before(left)


def stream(selector: str) -> str:
    """The name of a selector among all that write into tables and go on where they were."""
    return f"{TAIL}:{selector}"
