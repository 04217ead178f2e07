"""Rows of a table replaced by others in one commit: old ones are marked in delete files or go with their files."""

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
class RowChange:
    """What comes and what goes. `marked` are the data files that the delete files are about.

    Neither they nor the removed ones may have been replaced since `from_snapshot`, nor may other rows have come.
    """

    added: tuple[Content, ...] = ()
    deletes: tuple[Content, ...] = ()
    removed: tuple[Content, ...] = ()
    marked: tuple[str, ...] = ()
    from_snapshot: int | None = None

    @property
    def changes_rows(self) -> bool:
        """Whether there is anything to change."""
        return bool(self.added or self.deletes or self.removed)


def change_rows(
    lake: Lake, name: str, change: RowChange, *, batch_id: str, operation: str, summary: Mapping[str, str]
) -> Commit:
    """Change rows once; raises `CommitConflict` when another writer replaced what is to be changed."""

    def prepare(table: JavaTable) -> Any:
        delta = table.java.newRowDelta()
        if change.from_snapshot is not None:
            delta.validateFromSnapshot(change.from_snapshot)
        for files, take in (
            (change.added, delta.addRows),
            (change.deletes, delta.addDeletes),
            (change.removed, delta.removeRows),
        ):
            for file in table.files(files):
                take(file)
        marked = table.jvm.java.util.ArrayList()
        for path in change.marked:
            marked.add(path)
        # A file that compaction replaced meanwhile has its rows elsewhere: they would stay beside the new ones.
        delta.validateDataFilesExist(marked).validateDeletedFiles()
        # Rows that came meanwhile may be the same ones: those of a run that was thought to be dead.
        delta.conflictDetectionFilter(table.jvm.org.apache.iceberg.expressions.Expressions.alwaysTrue())
        delta.validateNoConflictingDataFiles()
        return delta

    return commit_once(lake, name, prepare, batch_id=batch_id, operation=operation, summary=summary)
