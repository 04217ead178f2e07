"""How far a sample is: the snapshot of its source that it stands for, kept in the commits of its own table."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING

from neve.lake.changes import newest_of
from neve.model.commits import POSITIONS, STREAM, WINDOWS
from neve.reservoir.lake.windows import ranges_of

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from neve.reservoir.lake.windows import Windows

RESERVOIR = "reservoir"
MOST_CHARACTERS = 8_000  # every later metadata file has the summary in it
MANY = 1_000_000
EVERYONE = "*"


@dataclass(frozen=True)
class Position:
    """The state of the source that a sample was drawn from; windows that end later than `until` are not in it.

    `mixed` says that some windows were sampled by another policy before, and left so.
    """

    snapshot: int | None
    policy: str
    how: str
    seconds: int
    until: int
    mixed: bool = False

    @classmethod
    def of(cls, table: Table) -> Position | None:
        """The position that a table of samples tells; `None` where nothing was sampled yet."""
        words = newest_of(table, RESERVOIR)
        if not words:
            return None
        told = json.loads(words[POSITIONS])
        return cls(**{field.name: told[field.name] for field in fields(cls) if field.name in told})

    @property
    def summary(self) -> dict[str, str]:
        """What a commit says of it, where expiry knows to keep it."""
        return {STREAM: RESERVOIR, POSITIONS: json.dumps(asdict(self), separators=(",", ":"))}


def announce(windows: Windows, seconds: int) -> dict[str, str]:
    """Say which windows of whom a commit replaced; where that takes too many words, the time that holds them."""
    everyone = {EVERYONE: {start for starts in windows.values() for start in starts}}
    for shorter, most in ((windows, MANY), (windows, 1), (everyone, 1)):
        told = {owner: ranges_of(starts, seconds * 1_000_000, most) for owner, starts in sorted(shorter.items())}
        words = json.dumps(
            {owner: [[edge // 1_000_000 for edge in one] for one in ranges] for owner, ranges in told.items()},
            separators=(",", ":"),
        )
        if len(words) <= MOST_CHARACTERS:
            break
    return {WINDOWS: words}
