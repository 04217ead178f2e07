"""Idempotent appends: a batch that is in the table already is recognised by its id and not appended again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update.snapshot import _OverwriteFiles
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from neve import __version__
from neve.errors import CommitConflict, CommitUnknown, LakeError
from neve.lake.commit.stream_properties import build_properties, find_remembered_batch
from neve.lake.read.history import read_summary
from neve.model.commits import BATCH_ID, OPERATION, VERSION
from neve.model.properties import FORMAT_VERSION_DEFAULT

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyiceberg.manifest import DataFile, ManifestFile
    from pyiceberg.table import Table

ATTEMPTS = 12
MAX_WAIT_SECONDS = 5


@dataclass(frozen=True)
class Commit:
    """Result of a commit: the snapshot of the batch, and whether this call made it."""

    table: str
    snapshot_id: int
    new: bool


class TableMoved(CommitConflict):
    """Raised when a table is not at the expected snapshot."""


Guard = Callable[["Table"], None]
FindRemoved = Callable[["Table"], "Sequence[DataFile]"]

MANIFESTS_KEPT_APART = 50  # a table with commits every few seconds would have too many manifests


def append_once(  # noqa: PLR0913 - what a commit is about, and what is held against it
    table: Table,
    files: Iterable[DataFile],
    *,
    batch_id: str,
    operation: str,
    summary: Mapping[str, str] | None = None,
    guard: Guard | None = None,
    removed: FindRemoved | None = None,
    remember_batch: bool = False,
) -> Commit:
    """Add files in one snapshot that carries the batch's id, unless a snapshot carries it already.

    Every attempt reads the table again, so two writers of the same batch can't both succeed. A `guard` checks the table
    before the commit, and raises an error to reject it. `removed` names the files that the added ones replace.
    Positions of streams, and with `remember_batch` the batch's id, are also set as table properties in the same commit,
    because other programs expire snapshots (`lake/commit/stream_properties.py`).
    """
    _check_version(table)
    properties = {BATCH_ID: batch_id, OPERATION: operation, VERSION: __version__, **(summary or {})}
    added = list(files)
    name = ".".join(table.name())
    attempts = Retrying(
        retry=retry_if_exception_type(CommitFailedException),
        stop=stop_after_attempt(ATTEMPTS),
        wait=wait_random_exponential(multiplier=0.05, max=MAX_WAIT_SECONDS),
        reraise=True,
    )
    try:
        return attempts(_attempt, table, added, properties, guard, removed, remember_batch)
    except CommitFailedException as error:
        raise CommitConflict(
            f"other writers changed {name} {ATTEMPTS} times while batch {batch_id} was being committed",
            hint="nothing was added; run the command again",
        ) from error


def _check_version(table: Table) -> None:
    if table.metadata.format_version > FORMAT_VERSION_DEFAULT:
        raise LakeError(
            f"{'.'.join(table.name())} has Iceberg format version {table.metadata.format_version}, "
            f"Neve writes version {FORMAT_VERSION_DEFAULT}",
            hint="pyiceberg can't commit to newer versions yet; they can be queried",
        )


def require_snapshot(snapshot_id: int | None) -> Guard:
    """Return a guard that raises `TableMoved` unless the table is still at a snapshot (`None`: still empty)."""

    def check(table: Table) -> None:
        if table.metadata.current_snapshot_id != snapshot_id:
            name = ".".join(table.name())
            raise TableMoved(f"{name} is at snapshot {table.metadata.current_snapshot_id}, expected {snapshot_id}")

    return check


def find_batch(table: Table, batch_id: str) -> int | None:
    """Return the snapshot with a batch's id, even if another program has expired it."""
    for snapshot in reversed(table.metadata.snapshots):
        if read_summary(snapshot).get(BATCH_ID) == batch_id:
            return snapshot.snapshot_id
    return find_remembered_batch(table, batch_id)


def _attempt(
    table: Table,
    files: list[DataFile],
    properties: dict[str, str],
    guard: Guard | None,
    removed: FindRemoved | None,
    remember_batch: bool,
) -> Commit:
    name, batch_id = ".".join(table.name()), properties[BATCH_ID]
    table.refresh()
    known = find_batch(table, batch_id)
    if known is not None:
        return Commit(name, known, new=False)
    if guard is not None:
        guard(table)
    _append(table, files, properties, removed(table) if removed else (), remember_batch)
    snapshot = find_batch(table, batch_id)
    if snapshot is None:
        raise CommitUnknown(f"{name} accepted batch {batch_id}, but has no snapshot with its id", hint=_HINT)
    return Commit(name, snapshot, new=True)


def _append(
    table: Table,
    files: list[DataFile],
    properties: dict[str, str],
    removed: Sequence[DataFile],
    remember_batch: bool,
) -> None:
    # pyiceberg's own retry would append again without a check for the batch. This one checks first.
    once = {
        **table.metadata.properties,
        "commit.retry.num-retries": "0",
        "commit.manifest-merge.enabled": "true",
        "commit.manifest.min-count-to-merge": str(MANIFESTS_KEPT_APART),
    }
    table.metadata = table.metadata.model_copy(update={"properties": once})
    try:
        with table.transaction() as transaction:
            change = (
                _Replace(Operation.OVERWRITE, transaction, table.io, snapshot_properties=properties)
                if removed
                else transaction.update_snapshot(properties).merge_append()
            )
            for file in removed:
                change.delete_data_file(file)
            for file in files:
                change.append_data_file(file)
            change.commit()
            further = build_properties(transaction.table_metadata, change.snapshot_id, remember_batch=remember_batch)
            if further:
                transaction.set_properties(further)
    except CommitFailedException:
        raise
    except Exception as error:
        if _OVERTAKEN in str(error):
            raise CommitFailedException(str(error)) from error
        _settle(table, ".".join(table.name()), properties[BATCH_ID], error)


class _Replace(_OverwriteFiles):
    """An overwrite that finds the files that it removes.

    pyiceberg's overwrite shares one evaluator between several threads, though the evaluator stores the current manifest
    in itself. A thread then gets the result for another thread's manifest, and an existing file counts as missing.
    """

    def _build_manifest_evaluator(self, spec_id: int) -> Callable[[ManifestFile], bool]:
        build = super()._build_manifest_evaluator

        def evaluate(manifest: ManifestFile) -> bool:
            return build(spec_id)(manifest)

        return evaluate


def _settle(table: Table, name: str, batch_id: str, error: Exception) -> None:
    """Find out whether a commit that ended in an error happened. Raise `CommitUnknown` if that can't be found out."""
    try:
        table.refresh()
    except Exception:
        raise CommitUnknown(f"the commit of batch {batch_id} to {name} failed: {error}", hint=_HINT) from error
    if find_batch(table, batch_id) is None:
        raise CommitUnknown(f"the commit of batch {batch_id} to {name} failed: {error}", hint=_HINT) from error


# A catalog's message if a commit to a branch came first. It is a conflict like any other, with another message.
_OVERTAKEN = "older than last sequence number"
_HINT = "its files are kept; run the same command again, a committed batch is recognized by its id"
