"""Commits that happen once: a batch that is in the table already is recognised by its id and not written again."""

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
from neve.lake.commit_properties import properties_for, remembered_batch
from neve.model.columns import FORMAT_VERSION_DEFAULT
from neve.model.commits import BATCH_ID, OPERATION, VERSION

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyiceberg.manifest import DataFile, ManifestFile
    from pyiceberg.table import Table

ATTEMPTS = 12
LONGEST_WAIT_SECONDS = 5


@dataclass(frozen=True)
class Commit:
    """What a commit did: the snapshot that holds the batch, and whether this call made it."""

    table: str
    snapshot_id: int
    new: bool


class TableMoved(CommitConflict):
    """Raised when a table was to be at a snapshot and is at another."""


Guard = Callable[["Table"], None]
Removed = Callable[["Table"], "Sequence[DataFile]"]

MANIFESTS_KEPT_APART = 50  # a table that is committed to every few seconds would drown in manifests


def append_once(  # noqa: PLR0913 - what a commit is about, and what is held against it
    table: Table,
    files: Iterable[DataFile],
    *,
    batch_id: str,
    operation: str,
    summary: Mapping[str, str] | None = None,
    guard: Guard | None = None,
    removed: Removed | None = None,
    remember_batch: bool = False,
) -> Commit:
    """Add files in one snapshot that carries the batch's id, unless a snapshot carries it already.

    Every attempt looks at the table as it is then, so two writers of the same batch can't both succeed. A `guard` looks
    at the table that is about to be committed to, and raises what it has against it; `removed` names the files of it
    that the added ones stand in for. Positions of streams, and with `remember_batch` the batch's id, are also set as
    table properties in the same commit: other programs expire snapshots (`lake/commit_properties.py`).
    """
    _check_version(table)
    properties = {BATCH_ID: batch_id, OPERATION: operation, VERSION: __version__, **(summary or {})}
    added = list(files)
    name = ".".join(table.name())
    attempts = Retrying(
        retry=retry_if_exception_type(CommitFailedException),
        stop=stop_after_attempt(ATTEMPTS),
        wait=wait_random_exponential(multiplier=0.05, max=LONGEST_WAIT_SECONDS),
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


def at_snapshot(snapshot_id: int | None) -> Guard:
    """The table must still be at a snapshot (`None`: still be empty), or `TableMoved` is raised."""

    def check(table: Table) -> None:
        if table.metadata.current_snapshot_id != snapshot_id:
            name = ".".join(table.name())
            raise TableMoved(f"{name} is at snapshot {table.metadata.current_snapshot_id}, expected {snapshot_id}")

    return check


def find_batch(table: Table, batch_id: str) -> int | None:
    """The snapshot that carries a batch's id, or carried it until another program expired it."""
    for snapshot in reversed(table.metadata.snapshots):
        if snapshot.summary is not None and snapshot.summary.additional_properties.get(BATCH_ID) == batch_id:
            return snapshot.snapshot_id
    return remembered_batch(table, batch_id)


def _attempt(
    table: Table,
    files: list[DataFile],
    properties: dict[str, str],
    guard: Guard | None,
    removed: Removed | None,
    remember_batch: bool,
) -> Commit:
    name, batch_id = ".".join(table.name()), properties[BATCH_ID]
    table.refresh()
    there = find_batch(table, batch_id)
    if there is not None:
        return Commit(name, there, new=False)
    if guard is not None:
        guard(table)
    _append(table, files, properties, removed(table) if removed else (), remember_batch)
    snapshot = find_batch(table, batch_id)
    if snapshot is None:
        raise CommitUnknown(f"{name} took batch {batch_id}, but shows no snapshot with its id", hint=_HINT)
    return Commit(name, snapshot, new=True)


def _append(
    table: Table,
    files: list[DataFile],
    properties: dict[str, str],
    removed: Sequence[DataFile],
    remember_batch: bool,
) -> None:
    # pyiceberg's own retry would append again without looking for the batch; ours looks first.
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
            further = properties_for(transaction.table_metadata, change.snapshot_id, remember_batch=remember_batch)
            if further:
                transaction.set_properties(further)
    except CommitFailedException:
        raise
    except Exception as error:
        if _OVERTAKEN in str(error):
            raise CommitFailedException(str(error)) from error
        _settle(table, ".".join(table.name()), properties[BATCH_ID], error)


class _Replace(_OverwriteFiles):
    """An overwrite that finds the files it removes.

    pyiceberg's asks one evaluator from several threads, though it keeps the manifest that it is asked about in itself:
    a thread then gets the answer for another's manifest, and a file that is there counts as missing.
    """

    def _build_manifest_evaluator(self, spec_id: int) -> Callable[[ManifestFile], bool]:
        build = super()._build_manifest_evaluator

        def evaluate(manifest: ManifestFile) -> bool:
            return build(spec_id)(manifest)

        return evaluate


def _settle(table: Table, name: str, batch_id: str, error: Exception) -> None:
    """Find out whether a commit that ended in an error happened; where nobody can tell, say so."""
    try:
        table.refresh()
    except Exception:
        raise CommitUnknown(
            f"the commit of batch {batch_id} to {name} ended in an error: {error}", hint=_HINT
        ) from error
    if find_batch(table, batch_id) is None:
        raise CommitUnknown(
            f"the commit of batch {batch_id} to {name} ended in an error: {error}", hint=_HINT
        ) from error


# What a catalog says of a commit that a branch's came before: as refused as any other conflict, in other words.
_OVERTAKEN = "older than last sequence number"
_HINT = "its files are kept; run the same command again, the batch is recognised by its id if it did happen"
