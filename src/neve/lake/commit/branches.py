"""Branches of the autopilot: the interface, and the driver for Iceberg's own branches.

A version is the head of a branch: a snapshot of the table for Iceberg, a commit of the whole catalog for Nessie, a
commit of the files of a repository for lakeFS.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Protocol

from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.update import AssertRefSnapshotId, RemoveSnapshotRefUpdate, SetSnapshotRefUpdate

from neve.errors import CommitConflict, ConfigError, LakeError
from neve.lake.commit.append import TableMoved
from neve.lake.commit.metadata import MetadataChange, commit_metadata
from neve.lake.read.history import list_ancestors

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from neve.lake.lake import Lake

MAIN_BRANCH = "main"
BRANCH_PREFIX = "neve-autopilot-"
TAG_PREFIX = "neve-before-"
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


class Branches(Protocol):
    """Isolated versions of tables, on which changes are tested without an effect on readers of main."""

    def create(self, name: str, version: str) -> None:
        """Create a branch at a version.

        Do nothing if it has this version already; raise `CommitConflict` if it has another.
        """

    def head(self, name: str) -> str | None:
        """Return the version of a branch, or None if it does not exist."""

    def remove(self, name: str) -> None:
        """Delete a branch, if it exists. Main is never deleted."""

    def names(self) -> tuple[str, ...]:
        """List the autopilot's branches, in order."""

    def merge(self, name: str) -> str:
        """Bring main to the version of a branch, and return main's new version.

        Raises `CommitConflict` if main diverged.
        """


def branch_name(attempt_id: str) -> str:
    """Return the branch of an attempt.

    >>> branch_name("7f3a")
    'neve-autopilot-7f3a'
    """
    return BRANCH_PREFIX + check_attempt_id(attempt_id)


def tag_name(attempt_id: str) -> str:
    """Return the name of the tag that retains the files that an attempt replaced.

    >>> tag_name("7f3a")
    'neve-before-7f3a'
    """
    return TAG_PREFIX + check_attempt_id(attempt_id)


def check_attempt_id(attempt_id: str) -> str:
    """Validate and return an attempt's id, which is part of names in the catalog and of a folder."""
    if not _ID.fullmatch(attempt_id):
        raise ConfigError(
            f"the attempt's id is {attempt_id!r}, expected up to 64 letters, digits, dashes and underscores"
        )
    return attempt_id


def check_own_branch(name: str) -> None:
    """Raise `LakeError` for a branch that the autopilot did not create."""
    if not name.startswith(BRANCH_PREFIX):
        raise LakeError(
            f"the branch {name!r} is not the autopilot's, expected a name that begins with {BRANCH_PREFIX!r}"
        )


class IcebergBranches:
    """Branches of one table through pyiceberg, for every catalog."""

    def __init__(self, lake: Lake, table: str) -> None:
        self._lake = lake
        self._table = table

    def create(self, name: str, version: str) -> None:
        """Create a branch at a snapshot."""
        check_own_branch(name)

        def decide(table: Table) -> MetadataChange | None:
            found = find_ref_snapshot(table, name)
            if found == int(version):
                return None
            if found is not None:
                raise CommitConflict(f"the branch {name} of {self._table} is at {found}, expected {version}")
            return MetadataChange(
                (make_branch_update(table, name, int(version)),), (AssertRefSnapshotId(ref=name, snapshot_id=None),)
            )

        commit_metadata(self._lake, self._table, decide)

    def head(self, name: str) -> str | None:
        """Return the snapshot of a branch."""
        found = find_ref_snapshot(self._lake.table(self._table), name)
        return None if found is None else str(found)

    def remove(self, name: str) -> None:
        """Delete the branch alone. Its snapshots stay until they expire."""
        check_own_branch(name)

        def decide(table: Table) -> MetadataChange | None:
            return MetadataChange((RemoveSnapshotRefUpdate(ref_name=name),)) if name in table.metadata.refs else None

        commit_metadata(self._lake, self._table, decide)

    def names(self) -> tuple[str, ...]:
        """List the autopilot's branches of the table."""
        return list_own_branches(self._lake.table(self._table))

    def merge(self, name: str) -> str:
        """Fast-forward main. If main has new commits, the swaps must be replayed first."""
        check_own_branch(name)
        merged: list[str] = []

        def decide(table: Table) -> MetadataChange | None:
            head, main = find_ref_snapshot(table, name), find_ref_snapshot(table, MAIN_BRANCH)
            if head is None:
                raise LakeError(f"{self._table} has no branch {name}")
            merged[:] = [str(head)]
            if main == head:
                return None
            if main not in list_ancestors(table, head):
                raise TableMoved(
                    f"main of {self._table} is at {main}, which is not an ancestor of {name}",
                    hint="stage it again on the snapshot of main",
                )
            return MetadataChange(
                (make_branch_update(table, MAIN_BRANCH, head),),
                (
                    AssertRefSnapshotId(ref=MAIN_BRANCH, snapshot_id=main),
                    AssertRefSnapshotId(ref=name, snapshot_id=head),
                ),
            )

        commit_metadata(self._lake, self._table, decide)
        return merged[0]


def find_ref_snapshot(table: Table, ref: str) -> int | None:
    """Return the snapshot of a branch or tag."""
    found = table.metadata.refs.get(ref)
    return found.snapshot_id if found else None


def list_own_branches(table: Table) -> tuple[str, ...]:
    """List the autopilot's branches among a table's refs."""
    refs = table.metadata.refs
    return tuple(
        sorted(
            name
            for name, ref in refs.items()
            if name.startswith(BRANCH_PREFIX) and ref.snapshot_ref_type is SnapshotRefType.BRANCH
        )
    )


def list_branch_refs(table: Table, branch: str) -> tuple[str, ...]:
    """List a branch, if it exists, and its related refs, whose names are its name, a dot and a word."""
    return tuple(sorted(name for name in table.metadata.refs if name == branch or name.startswith(f"{branch}.")))


def make_branch_update(table: Table, name: str, snapshot_id: int) -> SetSnapshotRefUpdate:
    """Return the update that sets a branch to a snapshot. Its retention settings stay."""
    found = table.metadata.refs.get(name)
    return SetSnapshotRefUpdate(
        ref_name=name,
        type=SnapshotRefType.BRANCH.value,
        snapshot_id=snapshot_id,
        max_ref_age_ms=found.max_ref_age_ms if found else None,
        max_snapshot_age_ms=found.max_snapshot_age_ms if found else None,
        min_snapshots_to_keep=found.min_snapshots_to_keep if found else None,
    )


def make_tag_update(name: str, snapshot_id: int) -> SetSnapshotRefUpdate:
    """Return the update that sets a tag to a snapshot, without expiry."""
    return SetSnapshotRefUpdate(
        ref_name=name,
        type=SnapshotRefType.TAG.value,
        snapshot_id=snapshot_id,
        max_ref_age_ms=None,
        max_snapshot_age_ms=None,
        min_snapshots_to_keep=None,
    )
