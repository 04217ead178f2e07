"""Files of a table rewritten for a branch: read with their deletes, written as another layout asks, swapped there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_random_exponential

from neve.errors import CommitConflict, LakeError
from neve.lake.java_commit import commit_once
from neve.lake.java_table import DATA_PATH, JavaTable
from neve.lake.replace import rewriting
from neve.lake.staged import StagedFiles

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import SparkSession

    from neve.lake.commits import Commit
    from neve.lake.content import Content
    from neve.lake.lake import Lake
    from neve.lake.replace import Replacement

OPERATION = "autopilot"
EQUALITY = "EQUALITY_DELETES"
STALE = "older than last sequence number"
ATTEMPTS = 10
LONGEST_WAIT_SECONDS = 2


@dataclass(frozen=True)
class Swap:
    """What one snapshot of a branch put in the place of what, and whether the new files count as written at its base.

    They do not where position deletes were applied: those would seem to apply to the new files for ever.
    """

    snapshot_id: int
    added: tuple[Content, ...]
    removed: tuple[Content, ...]
    removed_deletes: tuple[Content, ...]
    pinned: bool

    @property
    def paths(self) -> frozenset[str]:
        """The data files that went."""
        return frozenset(str(file["file-path"]) for file in self.removed)


class BranchFiles(StagedFiles):
    """Staged files whose writers see properties that the table itself does not have yet."""

    def __init__(self, spark: SparkSession, name: str, folder: str, properties: Mapping[str, str]) -> None:
        super().__init__(spark, name, folder)
        self._staged = _with_properties(self._table, {DATA_PATH: folder, **properties})

    def inputs(self, tasks: Any) -> tuple[Content, ...]:
        """The documents of the files that tasks read."""
        return tuple(self._table.contents(task.file() for task in tasks))


def swap_on_branch(
    lake: Lake, name: str, branch: str, replacement: Replacement, *, batch_id: str, summary: Mapping[str, str]
) -> Commit:
    """Replace files on a branch once; raises `CommitConflict` when one of them was touched since `from_snapshot`."""

    def prepare(table: JavaTable) -> Any:
        return rewriting(table, replacement, branch)

    attempts = Retrying(
        retry=retry_if_exception(_is_stale),
        stop=stop_after_attempt(ATTEMPTS),
        wait=wait_random_exponential(multiplier=0.05, max=LONGEST_WAIT_SECONDS),
        reraise=True,
    )
    return attempts(commit_once, lake, name, prepare, batch_id=batch_id, operation=OPERATION, summary=summary)


def _is_stale(error: BaseException) -> bool:
    """Whether a commit to another branch came between: a REST catalog says so in a way that no client tries again."""
    return isinstance(error, LakeError) and STALE in error.message


def swaps_between(lake: Lake, name: str, base: int, head: int, pinned_key: str) -> Iterator[Swap]:
    """The swaps that lead from one snapshot to a later one, oldest first; `CommitConflict` where one has expired."""
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
            f"{name} does not remember all that led from {base} to {head}: snapshots between them have expired",
            hint="stage it anew",
        )
    for one in reversed(chain):
        yield Swap(
            one.snapshotId(),
            tuple(table.contents(one.addedDataFiles(io))),
            tuple(table.contents(one.removedDataFiles(io))),
            tuple(table.contents(one.removedDeleteFiles(io))),
            one.summary().get(pinned_key) != "false",
        )


def applied_deletes(lake: Lake, name: str, snapshot_id: int) -> dict[str, frozenset[str]]:
    """Every data file of a snapshot, with the deletes that apply to it; each begins with its kind."""
    table = JavaTable(lake.spark, lake.spark_name(name))
    table.java.refresh()
    tasks = table.java.newScan().useSnapshot(snapshot_id).ignoreResiduals().planFiles()
    found: dict[str, frozenset[str]] = {}
    iterator = tasks.iterator()
    while iterator.hasNext():
        task = iterator.next()
        # Several deletion vectors share a file: what tells them apart is where they begin.
        found[task.file().location()] = frozenset(
            f"{one.content()}:{one.location()}#{one.contentOffset()}" for one in task.deletes()
        )
    tasks.close()
    return found


def _with_properties(table: JavaTable, further: Mapping[str, str]) -> Any:
    properties = table.jvm.java.util.HashMap(table.java.properties())
    for key, value in further.items():
        properties.put(key, value)
    metadata = table.java.operations().current().replaceProperties(properties)
    places = table.iceberg.LocationProviders.locationsFor(metadata.location(), properties)
    operations = table.iceberg.StaticTableOperations(metadata, table.java.io(), places)
    return table.iceberg.BaseTable(operations, table.java.name())
