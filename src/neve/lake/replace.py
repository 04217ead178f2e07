"""Some files of a table replaced by others that hold the same rows, in one commit that Iceberg itself validates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError

from neve import __version__
from neve.errors import CommitConflict, CommitUnknown, LakeError
from neve.lake.commits import Commit, find_batch
from neve.lake.java_table import JavaTable
from neve.model.commits import BATCH_ID, OPERATION, VERSION

if TYPE_CHECKING:
    from collections.abc import Mapping

    from neve.lake.content import Content
    from neve.lake.lake import Lake

REFUSED = "ValidationException"
BUSY = "CommitFailedException"


class TableBusy(CommitConflict):
    """Raised when other writers were quicker each time; what was written can be published later."""


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
    full_name = ".".join(lake.table(name).name())
    there = find_batch(lake.table(name), batch_id)
    if there is not None:
        return Commit(full_name, there, new=False)
    table = JavaTable(lake.spark, lake.spark_name(name))
    properties = {BATCH_ID: batch_id, OPERATION: operation, VERSION: __version__, **summary}
    try:
        rewrite = _prepared(table, replacement, properties)
    except Py4JJavaError as error:
        kind, words = _told(error.java_exception)
        raise LakeError(f"iceberg does not take {batch_id} for {name}: {kind}: {words}") from error
    try:
        rewrite.commit()
    except Py4JJavaError as error:
        _settle(lake, name, batch_id, error)
    done = find_batch(lake.table(name), batch_id)
    if done is None:
        raise CommitUnknown(f"{full_name} took {batch_id}, but shows no snapshot with its id", hint=_HINT)
    return Commit(full_name, done, new=True)


def _prepared(table: JavaTable, replacement: Replacement, properties: Mapping[str, str]) -> Any:
    """Iceberg's rewrite, ready to be committed; nothing has happened yet."""
    table.java.refresh()
    rewrite = table.java.newRewrite().validateFromSnapshot(replacement.from_snapshot)
    if replacement.data_sequence is not None:
        rewrite.dataSequenceNumber(replacement.data_sequence)
    for files, change in (
        (replacement.removed, rewrite.deleteFile),
        (replacement.removed_deletes, rewrite.deleteFile),
        (replacement.added, rewrite.addFile),
    ):
        for file in table.files(files):
            change(file)
    for key, value in properties.items():
        rewrite.set(key, value)
    return rewrite


def _settle(lake: Lake, name: str, batch_id: str, error: Py4JJavaError) -> None:
    """Tell a refusal from an error; after an error the table itself says whether the commit happened."""
    kind, words = _told(error.java_exception)
    if kind == REFUSED:
        raise CommitConflict(
            f"{name} changed under {batch_id}: {words}", hint="nothing was changed; the next run plans anew"
        ) from error
    if kind == BUSY:
        raise TableBusy(
            f"other writers were quicker to commit to {name} each time: {words}", hint="the next run publishes it"
        ) from error
    try:
        done = find_batch(lake.table(name), batch_id)
    except Exception:
        raise CommitUnknown(f"the commit of {batch_id} to {name} ended in {kind}: {words}", hint=_HINT) from error
    if done is None:
        raise CommitUnknown(f"the commit of {batch_id} to {name} ended in {kind}: {words}", hint=_HINT) from error


def _told(exception: Any) -> tuple[str, str]:
    words = str(exception.getMessage() or "").splitlines()
    return str(exception.getClass().getSimpleName()), words[0] if words else ""


_HINT = "the files that were written are kept; the next run asks the table what became of them"
