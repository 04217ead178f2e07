"""Commits through Iceberg's Java library: replace files by files with the same rows, or replace rows by delete files.

Iceberg validates each commit. A commit happens once: a batch is recognised by its id, and after an error the table is
read to find out whether the commit happened.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from neve import __version__
from neve.errors import CommitConflict, CommitUnknown, LakeError
from neve.lake.commit.append import Commit, find_batch
from neve.lake.spark.java_table import JavaTable
from neve.model.commits import BATCH_ID, OPERATION, VERSION

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from neve.lake.lake import Lake
    from neve.lake.write.data_file_json import DataFileJson


ATTEMPTS = 5
VALIDATION_FAILED = "ValidationException"
COMMIT_FAILED = "CommitFailedException"


class TableBusy(CommitConflict):
    """Raised when other writers committed first at each attempt. The written files can be published later."""


def retry_conflicts(notify: Callable[[], None] = lambda: None) -> Retrying:
    """Return the retry of a job that plans again after `CommitConflict`, when another writer replaced its files.

    `notify` is called before each further attempt.
    """
    return Retrying(
        retry=retry_if_exception_type(CommitConflict),
        stop=stop_after_attempt(ATTEMPTS),
        wait=wait_random_exponential(multiplier=0.2, max=5),
        before_sleep=lambda _state: notify(),
        reraise=True,
    )


def commit_once(
    lake: Lake,
    name: str,
    prepare: Callable[[JavaTable], Any],
    *,
    batch_id: str,
    operation: str,
    summary: Mapping[str, str],
) -> Commit:
    """Commit the change that `prepare` returns, unless a snapshot carries the batch's id already.

    Raises `CommitConflict` if Iceberg finds a conflicting change by another writer. Then nothing was changed.
    """
    full_name = ".".join(lake.table(name).name())
    known = find_batch(lake.table(name), batch_id)
    if known is not None:
        return Commit(full_name, known, new=False)
    table = JavaTable(lake.spark, lake.spark_name(name))
    properties = {BATCH_ID: batch_id, OPERATION: operation, VERSION: __version__, **summary}
    try:
        table.java.refresh()
        change = prepare(table)
        for key, value in properties.items():
            change.set(key, value)
    except Py4JJavaError as error:
        kind, message = _describe_java_error(error.java_exception)
        raise LakeError(f"Iceberg rejected {batch_id} for {name}: {kind}: {message}") from error
    try:
        change.commit()
    except Py4JJavaError as error:
        _check_outcome(lake, name, batch_id, error)
    done = find_batch(lake.table(name), batch_id)
    if done is None:
        raise CommitUnknown(f"{full_name} accepted {batch_id}, but has no snapshot with its id", hint=_HINT)
    return Commit(full_name, done, new=True)


def _check_outcome(lake: Lake, name: str, batch_id: str, error: Py4JJavaError) -> None:
    """Distinguish a rejected commit from an error.

    After an error, read the table to find out whether the commit happened.
    """
    kind, message = _describe_java_error(error.java_exception)
    if kind == VALIDATION_FAILED:
        raise CommitConflict(
            f"{name} changed during {batch_id}: {message}", hint="nothing was committed; the next run plans again"
        ) from error
    if kind == COMMIT_FAILED:
        raise TableBusy(
            f"other writers committed to {name} first each time: {message}", hint="the next run publishes it"
        ) from error
    try:
        done = find_batch(lake.table(name), batch_id)
    except Exception:
        raise CommitUnknown(f"the commit of {batch_id} to {name} failed with {kind}: {message}", hint=_HINT) from error
    if done is None:
        raise CommitUnknown(f"the commit of {batch_id} to {name} failed with {kind}: {message}", hint=_HINT) from error


def _describe_java_error(exception: Any) -> tuple[str, str]:
    lines = str(exception.getMessage() or "").splitlines()
    return str(exception.getClass().getSimpleName()), lines[0] if lines else ""


_HINT = "written files are kept; the next run checks whether the commit succeeded"


@dataclass(frozen=True)
class Replacement:
    """Removed and added files. The removed ones must not have changed since `from_snapshot`.

    With `data_sequence`, the new files keep the sequence number of the old ones, so that a later equality delete still
    applies to their rows.
    """

    removed: tuple[DataFileJson, ...]
    added: tuple[DataFileJson, ...]
    from_snapshot: int
    data_sequence: int | None = None
    removed_deletes: tuple[DataFileJson, ...] = ()


def replace_files(
    lake: Lake, name: str, replacement: Replacement, *, batch_id: str, operation: str, summary: Mapping[str, str]
) -> Commit:
    """Replace files once. Raises `CommitConflict`, without a change, if another writer changed them."""
    return commit_once(
        lake,
        name,
        lambda table: prepare_rewrite(table, replacement),
        batch_id=batch_id,
        operation=operation,
        summary=summary,
    )


def prepare_rewrite(table: JavaTable, replacement: Replacement, branch: str | None = None) -> Any:
    """Return the commit that replaces files, on main or on a branch."""
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


@dataclass(frozen=True)
class RowChange:
    """Added and removed files.

    Neither the removed files nor those that the delete files refer to may have been replaced since `from_snapshot`, and
    no other rows may have been added.
    """

    added: tuple[DataFileJson, ...] = ()
    deletes: tuple[DataFileJson, ...] = ()
    removed: tuple[DataFileJson, ...] = ()
    from_snapshot: int | None = None

    @property
    def changes_rows(self) -> bool:
        """Return whether there is anything to change."""
        return bool(self.added or self.deletes or self.removed)


def change_rows(
    lake: Lake, name: str, change: RowChange, *, batch_id: str, operation: str, summary: Mapping[str, str]
) -> Commit:
    """Change rows once. Raises `CommitConflict` if another writer replaced the affected files."""

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
        for file in change.deletes:
            marked.add(str(file["referenced-data-file"]))
        # Compaction may have moved the rows of a file to another file. They would stay beside the new ones.
        delta.validateDataFilesExist(marked).validateDeletedFiles()
        # Rows that were added meanwhile may be the same ones, from a run that was considered dead.
        delta.conflictDetectionFilter(table.jvm.org.apache.iceberg.expressions.Expressions.alwaysTrue())
        delta.validateNoConflictingDataFiles()
        return delta

    return commit_once(lake, name, prepare, batch_id=batch_id, operation=operation, summary=summary)
