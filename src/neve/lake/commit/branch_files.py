"""Rewrite files of a table on a branch: read them with their deletes, write another layout, swap them in one commit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_random_exponential

from neve.errors import CommitConflict, LakeError
from neve.lake.commit.java_commit import commit_once, prepare_rewrite
from neve.lake.spark.java_table import DATA_PATH, JavaTable
from neve.lake.spark.staged_files import StagedFiles

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import SparkSession

    from neve.lake.commit.append import Commit
    from neve.lake.commit.java_commit import Replacement
    from neve.lake.lake import Lake
    from neve.lake.write.data_file_json import DataFileJson

OPERATION = "autopilot"
EQUALITY_DELETES = "EQUALITY_DELETES"
STALE = "older than last sequence number"
ATTEMPTS = 10
MAX_WAIT_SECONDS = 2


@dataclass(frozen=True)
class FileSwap:
    """Files that one snapshot of a branch replaced by others, and whether the new ones keep the base's sequence number.

    They do not keep it if position deletes were applied: those would seem to apply to the new files forever.
    """

    snapshot_id: int
    added: tuple[DataFileJson, ...]
    removed: tuple[DataFileJson, ...]
    removed_deletes: tuple[DataFileJson, ...]
    pinned: bool

    @property
    def paths(self) -> frozenset[str]:
        """The paths of the removed data files."""
        return frozenset(str(file["file-path"]) for file in self.removed)


class BranchFiles(StagedFiles):
    """Staged files whose writers use properties that the table itself does not have yet."""

    def __init__(self, spark: SparkSession, name: str, folder: str, properties: Mapping[str, str]) -> None:
        super().__init__(spark, name, folder)
        self._staged = _add_properties(self._table, {DATA_PATH: folder, **properties})

    def inputs(self, tasks: Any) -> tuple[DataFileJson, ...]:
        """Return the documents of the files that tasks read."""
        return tuple(self._table.contents(task.file() for task in tasks))


def swap_on_branch(
    lake: Lake, name: str, branch: str, replacement: Replacement, *, batch_id: str, summary: Mapping[str, str]
) -> Commit:
    """Replace files on a branch once. Raises `CommitConflict` if one of them changed since `from_snapshot`."""

    def prepare(table: JavaTable) -> Any:
        return prepare_rewrite(table, replacement, branch)

    attempts = Retrying(
        retry=retry_if_exception(_is_stale),
        stop=stop_after_attempt(ATTEMPTS),
        wait=wait_random_exponential(multiplier=0.05, max=MAX_WAIT_SECONDS),
        reraise=True,
    )
    return attempts(commit_once, lake, name, prepare, batch_id=batch_id, operation=OPERATION, summary=summary)


def _is_stale(error: BaseException) -> bool:
    """Return whether a commit to another branch came first.

    A REST catalog reports this with an error that no client retries.
    """
    return isinstance(error, LakeError) and STALE in error.message


def list_swaps(lake: Lake, name: str, base: int, head: int, pinned_key: str) -> Iterator[FileSwap]:
    """Yield the swaps from one snapshot to a later one, oldest first. Raises `CommitConflict` if one has expired."""
    table = JavaTable(lake.spark, lake.spark_name(name))
    table.java.refresh()
    io, chain = table.java.io(), []
    snapshot = table.java.snapshot(head)
    while snapshot is not None and snapshot.snapshotId() != base:
        chain.append(snapshot)
        parent = snapshot.parentId()
        snapshot = None if parent is None else table.java.snapshot(parent)
    if snapshot is None:
        raise CommitConflict(
            f"{name} lacks the history from {base} to {head}: snapshots between them have expired",
            hint="stage it again",
        )
    for one in reversed(chain):
        yield FileSwap(
            one.snapshotId(),
            tuple(table.contents(one.addedDataFiles(io))),
            tuple(table.contents(one.removedDataFiles(io))),
            tuple(table.contents(one.removedDeleteFiles(io))),
            one.summary().get(pinned_key) != "false",
        )


def find_applied_deletes(lake: Lake, name: str, snapshot_id: int) -> dict[str, frozenset[str]]:
    """Return every data file of a snapshot, with the deletes that apply to it. Each delete begins with its kind."""
    table = JavaTable(lake.spark, lake.spark_name(name))
    table.java.refresh()
    tasks = table.java.newScan().useSnapshot(snapshot_id).ignoreResiduals().planFiles()
    found: dict[str, frozenset[str]] = {}
    iterator = tasks.iterator()
    while iterator.hasNext():
        task = iterator.next()
        # Several deletion vectors share a file. Their offsets distinguish them.
        found[task.file().location()] = frozenset(
            f"{one.content()}:{one.location()}#{one.contentOffset()}" for one in task.deletes()
        )
    tasks.close()
    return found


def _add_properties(table: JavaTable, further: Mapping[str, str]) -> Any:
    properties = table.jvm.java.util.HashMap(table.java.properties())
    for key, value in further.items():
        properties.put(key, value)
    metadata = table.java.operations().current().replaceProperties(properties)
    places = table.iceberg.LocationProviders.locationsFor(metadata.location(), properties)
    operations = table.iceberg.StaticTableOperations(metadata, table.java.io(), places)
    return table.iceberg.BaseTable(operations, table.java.name())
