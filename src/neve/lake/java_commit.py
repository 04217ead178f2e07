"""One commit through Iceberg's Java library: prepared, made once, and asked after when it ended in an error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError

from neve import __version__
from neve.errors import CommitConflict, CommitUnknown, LakeError
from neve.lake.commits import Commit, find_batch
from neve.lake.java_table import JavaTable
from neve.model.commits import BATCH_ID, OPERATION, VERSION

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from neve.lake.lake import Lake

REFUSED = "ValidationException"
BUSY = "CommitFailedException"


class TableBusy(CommitConflict):
    """Raised when other writers were quicker each time; what was written can be published later."""


def commit_once(
    lake: Lake,
    name: str,
    prepare: Callable[[JavaTable], Any],
    *,
    batch_id: str,
    operation: str,
    summary: Mapping[str, str],
) -> Commit:
    """Make the change that `prepare` gives, unless a snapshot carries the batch's id already.

    Raises `CommitConflict` when Iceberg finds that another writer touched what it is about; then nothing was changed.
    """
    full_name = ".".join(lake.table(name).name())
    there = find_batch(lake.table(name), batch_id)
    if there is not None:
        return Commit(full_name, there, new=False)
    table = JavaTable(lake.spark, lake.spark_name(name))
    properties = {BATCH_ID: batch_id, OPERATION: operation, VERSION: __version__, **summary}
    try:
        table.java.refresh()
        change = prepare(table)
        for key, value in properties.items():
            change.set(key, value)
    except Py4JJavaError as error:
        kind, words = _told(error.java_exception)
        raise LakeError(f"iceberg does not take {batch_id} for {name}: {kind}: {words}") from error
    try:
        change.commit()
    except Py4JJavaError as error:
        _settle(lake, name, batch_id, error)
    done = find_batch(lake.table(name), batch_id)
    if done is None:
        raise CommitUnknown(f"{full_name} took {batch_id}, but shows no snapshot with its id", hint=_HINT)
    return Commit(full_name, done, new=True)


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
