"""Copies of a table's metadata that share its snapshots.

pyiceberg copies the whole metadata of a table, each snapshot for itself, some sixteen times for a commit: after a day
of commits every ten seconds, that took most of the time between two of them. Snapshots never change once they are in a
table's metadata, so that a copy can have the same ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from pyiceberg.table.snapshots import MetadataLogEntry, Snapshot, SnapshotLogEntry

if TYPE_CHECKING:
    from pydantic import BaseModel

SHARED: tuple[type[BaseModel], ...] = (Snapshot, SnapshotLogEntry, MetadataLogEntry)
Itself = TypeVar("Itself")


def share_snapshots() -> None:
    """Have all copies made in this way from now on; done again, nothing changes."""
    for kind in SHARED:
        kind.__deepcopy__ = _itself  # type: ignore[method-assign,assignment]


def _itself(frozen: Itself, _memo: object = None) -> Itself:
    return frozen
