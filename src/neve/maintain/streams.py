"""Which snapshots exactly-once stands on: the newest of each stream, and the way to it from the current one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neve.maintain.snapshots import ancestors
from neve.model.commits import STREAM

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neve.maintain.snapshots import Snapshot


def newest_of_streams(snapshots: Sequence[Snapshot], current: int | None) -> dict[str, Snapshot]:
    """The last commit of each stream in the line of the current snapshot; it says where the stream goes on."""
    newest: dict[str, Snapshot] = {}
    for snapshot in ancestors(snapshots, current):
        stream = snapshot.summary.get(STREAM)
        if stream is not None:
            newest.setdefault(stream, snapshot)
    return newest


def way_to(snapshots: Sequence[Snapshot], current: int | None, snapshot_id: int) -> list[int]:
    """The snapshots from the current one to an ancestor. A stream walks this way, and a gap would end it."""
    way = []
    for snapshot in ancestors(snapshots, current):
        way.append(snapshot.id)
        if snapshot.id == snapshot_id:
            return way
    return []
