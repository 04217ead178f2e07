"""How far a level is: the snapshot of its source that it stands for, kept in the commits of its own table."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING

from neve.lake.changes import newest_of
from neve.model.commits import POSITIONS, STREAM

if TYPE_CHECKING:
    from pyiceberg.table import Table

ROLLUP = "rollup"


@dataclass(frozen=True)
class Position:
    """The state of the source that a level's rows were made of; windows that end by `closed_until` are final.

    `partial` says whether those that end later are there, too.
    """

    snapshot: int | None
    closed_until: int
    definition: str
    partial: bool = False

    @classmethod
    def of(cls, table: Table) -> Position | None:
        """The position that a level's table tells; `None` where nothing was rolled up yet."""
        words = newest_of(table, ROLLUP)
        if not words:
            return None
        told = json.loads(words[POSITIONS])
        return cls(**{field.name: told[field.name] for field in fields(cls) if field.name in told})

    @property
    def summary(self) -> dict[str, str]:
        """What a commit says of it, where expiry knows to keep it."""
        return {STREAM: ROLLUP, POSITIONS: json.dumps(asdict(self), separators=(",", ":"))}
