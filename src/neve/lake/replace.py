"""Some files of a table replaced by others that hold the same rows, in one commit that Iceberg itself validates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from neve.lake.java_commit import commit_once

if TYPE_CHECKING:
    from collections.abc import Mapping

    from neve.lake.commits import Commit
    from neve.lake.content import Content
    from neve.lake.java_table import JavaTable
    from neve.lake.lake import Lake


@dataclass(frozen=True)
class Replacement:
    """What goes and what comes; nothing may have been done to what goes since `from_snapshot`.

    New files take the place of old ones in the order of changes: with `data_sequence` they count as written then, so
    that an equality delete that came later still applies to their rows.
    """

    removed: tuple[Content, ...]
    added: tuple[Content, ...]
    from_snapshot: int
    data_sequence: int | None = None
    removed_deletes: tuple[Content, ...] = ()


def replace_files(
    lake: Lake, name: str, replacement: Replacement, *, batch_id: str, operation: str, summary: Mapping[str, str]
) -> Commit:
    """Replace files once; raises `CommitConflict` when another writer touched them, and then nothing was changed."""
    return commit_once(
        lake,
        name,
        lambda table: rewriting(table, replacement),
        batch_id=batch_id,
        operation=operation,
        summary=summary,
    )


def rewriting(table: JavaTable, replacement: Replacement, branch: str | None = None) -> Any:
    """The commit that replaces files, on main or on a branch."""
    rewrite = table.java.newRewrite().validateFromSnapshot(replacement.from_snapshot)
    if branch is not None:
        rewrite.toBranch(branch)
    if replacement.data_sequence is not None:
        rewrite.dataSequenceNumber(replacement.data_sequence)
    for files, change in (
        (replacement.removed, rewrite.deleteFile),
        (replacement.removed_deletes, rewrite.deleteFile),
        (replacement.added, rewrite.addFile),
    ):
        for file in table.files(files):
            change(file)
    return rewrite
