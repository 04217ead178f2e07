"""The files of a table that a scan must read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyiceberg.expressions import And

from neve.query.request import TimeRange
from neve.query.scan.deletes import Deletes
from neve.query.scan.expressions import said
from neve.query.scan.manifests import Manifests, holds_deletes, live_files
from neve.query.scan.obstacles import obstacle
from neve.query.scan.owners import TENANT, Owners, check_tenant
from neve.query.scan.pruning import Pruner
from neve.query.scan.times import insider, within

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table import Table

    from neve.query.scan.manifests import Entry
    from neve.query.scan.scans import Scan

COUNTED_AT_MOST = 20_000  # files that are looked at in one plan only to say what was pruned

Tokens = tuple[tuple[str, frozenset[str]], ...]
Ranges = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class PlannedFile:
    """A data file, the files that mark rows of it as deleted, and rows `[first, end)` that may match (none: all).

    `is_inside` says that all of its rows are of the range of time that was planned for; `owner` is the organization
    that all of its rows are known to belong to, if any is.
    """

    path: str
    bytes: int
    rows: int
    deletes: tuple[str, ...] = ()
    ranges: Ranges = ()
    spec_id: int = 0
    partition: tuple[Any, ...] = ()
    is_inside: bool = False
    owner: str | None = None


@dataclass(frozen=True)
class FilePlan:
    """What is read of a table at a snapshot; `only_spark` says why DuckDB can't read it by its files."""

    table: str
    snapshot: int | None
    files: tuple[PlannedFile, ...]
    bytes: int
    pruned_files: int
    pruned_bytes: int
    only_spark: str = ""
    time: TimeRange = field(default_factory=TimeRange)


Index = Callable[[str, str, Sequence[PlannedFile], Tokens], Sequence[PlannedFile]]


class Planner:
    """Plans scans from Iceberg's metadata alone; manifests are read once.

    An `index` takes out files that can't hold words that a scan asks for, or narrows them to rows.
    """

    def __init__(self, index: Index | None = None, manifests: Manifests | None = None) -> None:
        self._index = index
        self._manifests = manifests or Manifests()

    def plan(self, table: Table, scan: Scan, organization: str, time: TimeRange) -> FilePlan:
        """The files of the current snapshot that may hold rows of the organization that the scan asks for."""
        schema = table.schema()
        own = Pruner(table.metadata, tenant_is(table, organization))
        wanted = Pruner(table.metadata, And(scan.predicate, within(schema, time)))
        found = _Found()
        for manifest in self._manifests.of(table):
            if own.manifest(manifest):
                self._look_into(table, manifest, own, wanted, found)
        return self._finish(table, scan, organization, time, found)

    def owned(self, table: Table, organization: str) -> list[Entry]:
        """The data files that may hold rows of the organization."""
        own = Pruner(table.metadata, tenant_is(table, organization))
        return [
            entry
            for manifest in self._manifests.of(table)
            if not holds_deletes(manifest) and own.manifest(manifest)
            for entry in self._manifests.entries(table, manifest)
            if own.file(entry)
        ]

    def _look_into(self, table: Table, manifest: ManifestFile, own: Pruner, wanted: Pruner, found: _Found) -> None:
        is_wanted = wanted.manifest(manifest)
        if holds_deletes(manifest):
            if is_wanted:
                some = self._manifests.entries(table, manifest)
                found.deletes += [
                    entry
                    for entry in some
                    if own.partition(entry.spec_id, entry.partition)
                    and wanted.partition(entry.spec_id, entry.partition)
                ]
            return
        if not is_wanted and not self._manifests.holds(manifest):
            found.counted += live_files(manifest)
            if found.counted > COUNTED_AT_MOST:  # whose files these are is not looked at, so none is counted
                return
        for entry in self._manifests.entries(table, manifest):
            if not own.file(entry):
                continue
            if is_wanted and wanted.file(entry):
                found.data.append(entry)
            else:
                found.prune(entry.file_size_in_bytes)

    def _finish(self, table: Table, scan: Scan, organization: str, time: TimeRange, found: _Found) -> FilePlan:
        deletes = Deletes(found.deletes)
        is_inside, owners = insider(table.schema(), time), Owners(table.metadata)
        files: Sequence[PlannedFile] = [
            _planned(entry, deletes, is_inside(entry), owners.of(entry)) for entry in found.data
        ]
        if self._index is not None and scan.tokens:
            candidates = {file.path: file for file in files}
            files = self._index(scan.table, organization, files, scan.tokens)
            for path in candidates.keys() - {file.path for file in files}:
                found.prune(candidates[path].bytes)
        return FilePlan(
            table=table.name()[-1],
            snapshot=table.metadata.current_snapshot_id,
            files=tuple(files),
            bytes=sum(file.bytes for file in files),
            pruned_files=found.pruned_files,
            pruned_bytes=found.pruned_bytes,
            only_spark=deletes.only_spark or obstacle(table.metadata, found.data),
            time=time,
        )


@dataclass
class _Found:
    """What was come across so far."""

    data: list[Entry] = field(default_factory=list)
    deletes: list[Entry] = field(default_factory=list)
    pruned_files: int = 0
    pruned_bytes: int = 0
    counted: int = 0

    def prune(self, size: int) -> None:
        """Leave a file of the organization out."""
        self.pruned_files += 1
        self.pruned_bytes += size


def tenant_is(table: Table, organization: str) -> BooleanExpression:
    """The organization's rows; raises `QueryError` where the table can't say which those are."""
    check_tenant(table.schema(), table.name()[-1])
    return said(TENANT, "=", organization)


def _planned(entry: Entry, deletes: Deletes, inside: bool, owner: str | None) -> PlannedFile:
    return PlannedFile(
        path=entry.file_path,
        bytes=entry.file_size_in_bytes,
        rows=entry.record_count,
        deletes=deletes.of(entry),
        spec_id=entry.spec_id,
        partition=entry.partition,
        is_inside=inside,
        owner=owner,
    )
