"""Position of a rollup level in its source, stored in the commits of the level."""

from __future__ import annotations

from dataclasses import dataclass

from neve.lake.read.positions import StoredPosition

ROLLUP = "rollup"


@dataclass(frozen=True)
class Position(StoredPosition):
    """State of the source from which a level's rows were computed. Windows that end by `closed_until` are final.

    `partial` is true if later windows are included, too.
    """

    snapshot: int | None
    closed_until: int
    definition: str
    partial: bool = False
