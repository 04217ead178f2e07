"""Which files in a table's folder nobody knows, and may be removed: a pure function of a listing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from neve.lake.paths import is_within, same_path
from neve.maintain.entry import KEEP, Entry
from neve.maintain.snapshots import shown

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

REMOVE = "remove"
METADATA = ".metadata.json"
# Hadoop's catalog keeps its pointer in a file that no metadata names.
POINTERS = ("version-hint.text", "version-hint")


@dataclass(frozen=True)
class Listed:
    """A file that stands in a table's folder."""

    path: str
    bytes: int
    modified: datetime


@dataclass(frozen=True)
class Limits:
    """What is no orphan although no snapshot knows it. Paths as `same_path` writes them."""

    location: str
    older_than: datetime
    protected: frozenset[str] = frozenset()
    kept_out: tuple[str, ...] = ()


@dataclass(frozen=True)
class OrphanPlan:
    """The files that can go, and the reason for each that nobody knows and that stays."""

    remove: tuple[Listed, ...]
    entries: tuple[Entry, ...]
    files: int

    @property
    def bytes(self) -> int:
        """How much they take up."""
        return sum(file.bytes for file in self.remove)


def plan_orphans(listed: Iterable[Listed], reachable: frozenset[str], limits: Limits) -> OrphanPlan:
    """A file goes when no metadata names it, by whatever scheme, it is old enough, and nothing else speaks for it."""
    every = [file for file in listed if not is_hidden(file.path, limits.location)]
    tables = _other_tables(every, limits.location)
    remove, entries = [], []
    for file in every:
        path = same_path(file.path)
        if path in reachable:
            continue
        reason = _reason_to_keep(file, path, limits, tables)
        if reason:
            entries.append(Entry(KEEP, file.path, reason, file.bytes))
        else:
            remove.append(file)
            changed = shown(file.modified)
            entries.append(Entry(REMOVE, file.path, f"no snapshot knows it; last changed {changed}", file.bytes))
    return OrphanPlan(tuple(remove), tuple(entries), len(every))


def is_hidden(path: str, location: str) -> bool:
    """Whether a file is none of Iceberg's: one whose name, or whose folder's, begins with a dot or an underscore.

    >>> is_hidden("/t/data/.a.crc", "/t"), is_hidden("/t/_tmp/a", "/t"), is_hidden("/t/data/_day=1/a", "/t")
    (True, True, False)
    """
    inner = same_path(path).removeprefix(location)
    return any(part.startswith((".", "_")) and "=" not in part for part in inner.split("/"))


def _reason_to_keep(file: Listed, path: str, limits: Limits, tables: tuple[str, ...]) -> str:
    if file.modified >= limits.older_than:
        return f"changed {shown(file.modified)}: a writer may be about to commit it"
    if path in limits.protected:
        return "a journal speaks for it"
    folder = next((folder for folder in (*limits.kept_out, *tables) if is_within(path, folder)), "")
    if folder:
        return f"{folder} is kept out of this" if folder in limits.kept_out else f"another table is at {folder}"
    if not is_within(path, limits.location):
        return f"it is not below {limits.location}"
    return "it points to the table's metadata" if path.rsplit("/", 1)[-1] in POINTERS else ""


def _other_tables(listed: list[Listed], location: str) -> tuple[str, ...]:
    """Folders below this one that have metadata of their own: the files in there are another table's."""
    roots = {
        path.rsplit("/", 2)[0] for file in listed if (path := same_path(file.path)).endswith(METADATA) and "/" in path
    }
    return tuple(sorted(root for root in roots if is_within(root, location)))
