"""Branches of the autopilot: a port, and its driver for Iceberg's own branches.

A version is what a branch stands at: a snapshot of the table for Iceberg, a commit of the whole catalog for Nessie, a
commit of the files of a repository for lakeFS.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Protocol

from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.update import AssertRefSnapshotId, RemoveSnapshotRefUpdate, SetSnapshotRefUpdate

from neve.errors import CommitConflict, ConfigError, LakeError
from neve.lake.commits import TableMoved
from neve.lake.metadata_commit import MetadataChange, commit_metadata

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from neve.lake.lake import Lake

MAIN = "main"
PREFIX = "neve-autopilot-"
TAG_PREFIX = "neve-before-"
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


class Branches(Protocol):
    """Where changes are tried without touching what others read."""

    def create(self, name: str, version: str) -> None:
        """Make a branch at a version; no change where it is there and stands at it, `CommitConflict` at another."""

    def head(self, name: str) -> str | None:
        """The version that a branch stands at; none where there is no such branch."""

    def remove(self, name: str) -> None:
        """Remove a branch, if there is one; main is never removed."""

    def names(self) -> tuple[str, ...]:
        """The autopilot's branches, in order."""

    def merge(self, name: str) -> str:
        """Bring main to what a branch has; main's version then. Raises `CommitConflict` when main went another way."""


def branch_name(attempt_id: str) -> str:
    """The branch of an attempt.

    >>> branch_name("7f3a")
    'neve-autopilot-7f3a'
    """
    return PREFIX + checked_id(attempt_id)


def tag_name(attempt_id: str) -> str:
    """The tag that keeps what an attempt replaced.

    >>> tag_name("7f3a")
    'neve-before-7f3a'
    """
    return TAG_PREFIX + checked_id(attempt_id)


def checked_id(attempt_id: str) -> str:
    """An attempt's id, which is part of names in the catalog and of a folder."""
    if not _ID.fullmatch(attempt_id):
        raise ConfigError(
            f"the attempt's id is {attempt_id!r}, expected up to 64 letters, digits, dashes and underscores"
        )
    return attempt_id


def check_ours(name: str) -> None:
    """Raises `LakeError` for a branch that the autopilot did not make."""
    if not name.startswith(PREFIX):
        raise LakeError(f"the branch {name!r} is not the autopilot's, expected a name that begins with {PREFIX!r}")


class IcebergBranches:
    """Branches of one table, by pyiceberg, so on every catalog."""

    def __init__(self, lake: Lake, table: str) -> None:
        self._lake = lake
        self._table = table

    def create(self, name: str, version: str) -> None:
        """Make a branch at a snapshot."""
        check_ours(name)

        def decide(table: Table) -> MetadataChange | None:
            found = snapshot_of(table, name)
            if found == int(version):
                return None
            if found is not None:
                raise CommitConflict(f"the branch {name} of {self._table} is at {found}, expected {version}")
            return MetadataChange(
                (set_branch(table, name, int(version)),), (AssertRefSnapshotId(ref=name, snapshot_id=None),)
            )

        commit_metadata(self._lake, self._table, decide)

    def head(self, name: str) -> str | None:
        """The snapshot of a branch."""
        found = snapshot_of(self._lake.table(self._table), name)
        return None if found is None else str(found)

    def remove(self, name: str) -> None:
        """Remove the branch alone; its snapshots stay until they expire."""
        check_ours(name)

        def decide(table: Table) -> MetadataChange | None:
            return MetadataChange((RemoveSnapshotRefUpdate(ref_name=name),)) if name in table.metadata.refs else None

        commit_metadata(self._lake, self._table, decide)

    def names(self) -> tuple[str, ...]:
        """The autopilot's branches of the table."""
        return ours(self._lake.table(self._table))

    def merge(self, name: str) -> str:
        """Fast-forward main; where it has moved on, the swap of files has to be replayed first."""
        check_ours(name)
        merged: list[str] = []

        def decide(table: Table) -> MetadataChange | None:
            head, main = snapshot_of(table, name), snapshot_of(table, MAIN)
            if head is None:
                raise LakeError(f"{self._table} has no branch {name}")
            merged[:] = [str(head)]
            if main == head:
                return None
            if main not in ancestors(table, head):
                raise TableMoved(
                    f"main of {self._table} is at {main}, which {name} does not come from",
                    hint="stage it anew on main's snapshot",
                )
            return MetadataChange(
                (set_branch(table, MAIN, head),),
                (AssertRefSnapshotId(ref=MAIN, snapshot_id=main), AssertRefSnapshotId(ref=name, snapshot_id=head)),
            )

        commit_metadata(self._lake, self._table, decide)
        return merged[0]


def snapshot_of(table: Table, ref: str) -> int | None:
    """The snapshot of a branch or tag."""
    found = table.metadata.refs.get(ref)
    return found.snapshot_id if found else None


def ours(table: Table) -> tuple[str, ...]:
    """The autopilot's branches among a table's refs."""
    refs = table.metadata.refs
    return tuple(
        sorted(
            name
            for name, ref in refs.items()
            if name.startswith(PREFIX) and ref.snapshot_ref_type is SnapshotRefType.BRANCH
        )
    )


def refs_of(table: Table, branch: str) -> tuple[str, ...]:
    """A branch, where there is one, and the refs that go with it: they have its name, a dot and a word."""
    return tuple(sorted(name for name in table.metadata.refs if name == branch or name.startswith(f"{branch}.")))


def ancestors(table: Table, snapshot_id: int | None) -> list[int]:
    """A snapshot and those it comes from, newest first, as far as the table remembers them."""
    parents = {one.snapshot_id: one.parent_snapshot_id for one in table.metadata.snapshots}
    found: list[int] = []
    while snapshot_id is not None and snapshot_id in parents:
        found.append(snapshot_id)
        snapshot_id = parents[snapshot_id]
    return found


def set_branch(table: Table, name: str, snapshot_id: int) -> SetSnapshotRefUpdate:
    """The update that lets a branch stand at a snapshot; what is said of how long it keeps what stays."""
    found = table.metadata.refs.get(name)
    return SetSnapshotRefUpdate(
        ref_name=name,
        type=SnapshotRefType.BRANCH.value,
        snapshot_id=snapshot_id,
        max_ref_age_ms=found.max_ref_age_ms if found else None,
        max_snapshot_age_ms=found.max_snapshot_age_ms if found else None,
        min_snapshots_to_keep=found.min_snapshots_to_keep if found else None,
    )


def set_tag(name: str, snapshot_id: int) -> SetSnapshotRefUpdate:
    """The update that lets a tag stand at a snapshot, for as long as nobody removes it."""
    return SetSnapshotRefUpdate(
        ref_name=name,
        type=SnapshotRefType.TAG.value,
        snapshot_id=snapshot_id,
        max_ref_age_ms=None,
        max_snapshot_age_ms=None,
        min_snapshots_to_keep=None,
    )
