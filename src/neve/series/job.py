"""The upkeep of the tables of series: read the files of new commits, and replace the days that they change.

One commit replaces all of them. It holds the position in the source, so that rows and position change together. Rows
that are read twice change nothing. Runs need no JVM: they read the identity of rows alone, file by file. The sizes of
log streams are a table of their own (`volumes.py`).
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg.expressions import And, GreaterThanOrEqual, In, LessThanOrEqual, Reference
from pyiceberg.table import FileScanTask

from neve.errors import LakeError
from neve.lake.duckdb import open_scratch_database
from neve.lake.follower import Follower, FollowMetrics, Progress, TableChange, scan_batches
from neve.lake.read.file_values import partition_values
from neve.lake.read.snapshot_files import scan_files
from neve.lake.write.table_writer import Target, write_files
from neve.model.commits import SERIES
from neve.model.signals import VOLUME_TABLES
from neve.series.rows import KINDS, make_rows, merge_rows
from neve.series.volumes import VolumeUpdate
from neve.state.leases import hold_worker_lease

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table

    from neve.lake.follower import FollowResult, FollowStatus, FollowStep
    from neve.lake.lake import Lake
    from neve.series.config import SeriesConfig
    from neve.series.rows import SeriesKind
    from neve.state.documents import Documents
    from neve.state.leases import Lease

SOURCES = {
    **{kind.target.name: kind.source for kind in KINDS},
    **{table: source for source, table in VOLUME_TABLES.items()},
}
MERGED_ROWS = 200_000  # rows of series that wait until they are merged
METRICS = FollowMetrics.create("neve_series", "series")


@dataclass(frozen=True)
class SeriesIndexer:
    """Job that keeps the tables of series of a lake current. Processes with one state store run one at a time."""

    lake: Lake
    config: SeriesConfig
    documents: Documents
    steal: bool = False
    progress: Progress = field(default=lambda _step, _done, _total: None)

    def run(self) -> list[FollowResult]:
        """Update all tables."""
        return [self.update(table) for table in SOURCES if self._has(table)]

    def update(self, table: str) -> FollowResult:
        """Update one table. Raises `LakeError` if it is none of these."""
        if table not in SOURCES:
            raise LakeError(f"{table} is not a table of series, expected {', '.join(SOURCES)}")
        kind = next((one for one in KINDS if one.target.name == table), None)
        name, seconds = f"{SERIES}:{table}", self.config.lease_seconds
        with hold_worker_lease(self.documents, name, seconds=seconds, what="series", steal=self.steal) as lease:
            return self._follow(table).update(
                lambda step: self._count(step, lease) if kind is None else self._plan(kind, step, lease), lease.check
            )

    def status(self) -> list[FollowStatus]:
        """Return the status of all tables. Reads metadata alone."""
        return [self._follow(table).find_status() for table in SOURCES if self._has(table)]

    def _has(self, table: str) -> bool:
        """Return whether the lake has a table: lakes of older releases have no volumes before `neve init`."""
        return table not in VOLUME_TABLES.values() or table in self.lake.table_names()

    def _follow(self, table: str) -> Follower:
        return Follower(self.lake, SOURCES[table], table, SERIES, METRICS)

    def _count(self, step: FollowStep, lease: Lease) -> TableChange:
        """Count the lines of minutes that changed."""
        lake = self.lake
        with open_scratch_database(
            lake.s3, on_s3=lake.lake.on_s3, memory_mb=self.config.memory_mb, threads=self.config.threads
        ) as connection:
            return VolumeUpdate(connection, step, lease.check).replace_minutes()

    def _plan(self, kind: SeriesKind, step: FollowStep, lease: Lease) -> TableChange:
        files = step.list_new_files()
        update = _Update(kind, step.source, step.target, lease, TableChange(files=len(files)))
        for done, group in enumerate(groups := _group_files(step.source, files)):
            self.progress(kind.target.name, done, len(groups))
            update.add(group)
        return update.change


def _group_files(source: Table, files: Sequence[DataFile]) -> list[list[DataFile]]:
    """Group files by partition, so that one organization and day are in memory at a time.

    With files of older partition specs, a day may be in several partitions: all are one group then.
    """
    if any(file.spec_id != source.metadata.default_spec_id for file in files):
        return [list(files)]
    groups: defaultdict[Any, list[DataFile]] = defaultdict(list)
    for file in files:
        groups[partition_values(file)].append(file)
    return list(groups.values())


@dataclass
class _Update:
    """Files to add and to remove, collected group by group."""

    kind: SeriesKind
    source: Table
    target: Table
    lease: Lease
    change: TableChange

    def add(self, files: Sequence[DataFile]) -> None:
        """Merge the series of some files with those of their days, and write the result if it differs."""
        new = self._read(files)
        if not new.num_rows:
            return
        known = {file.file_path for file in self.change.removed}
        tasks = [one for one in scan_files(self.target, _filter_of(new)) if one.file.file_path not in known]
        old = merge_rows(self.kind, self._scan(self.target, tasks, self.kind.target.schema.names))
        merged = merge_rows(self.kind, pa.concat_tables([old, new]))
        if merged.equals(old):
            return
        self.lease.check()
        self.change.added += write_files(Target.of(self.target), merged)
        self.change.removed += [one.file for one in tasks]
        self.change.rows += merged.num_rows
        self.change.partitions += len(new.column("timestamp").unique())

    def _read(self, files: Sequence[DataFile]) -> pa.Table:
        """Return the series of some files."""
        held: list[pa.Table] = [self.kind.target.schema.empty_table()]
        for file in files:
            for batch in scan_batches(self.source, [FileScanTask(file)], self.kind.columns):
                held.append(make_rows(self.kind, batch))
                if sum(one.num_rows for one in held) > MERGED_ROWS:
                    held = [merge_rows(self.kind, pa.concat_tables(held))]
            self.lease.check()
        return merge_rows(self.kind, pa.concat_tables(held))

    def _scan(self, table: Table, tasks: Sequence[FileScanTask], names: Sequence[str]) -> pa.Table:
        schema = self.kind.target.schema
        batches = scan_batches(table, tasks, names)
        return pa.concat_tables([schema.empty_table(), *(pa.Table.from_batches([one]).cast(schema) for one in batches)])


def _filter_of(rows: pa.Table) -> Any:
    """Return the filter for the organizations and days of some rows."""
    owners = rows.column("organization_id").unique().to_pylist()
    days = pa.compute.min_max(rows.column("timestamp")).as_py()
    return And(
        In(term=Reference("organization_id"), literals=set(owners)),
        And(
            GreaterThanOrEqual(term=Reference("timestamp"), value=days["min"].isoformat()),
            LessThanOrEqual(term=Reference("timestamp"), value=days["max"].isoformat()),
        ),
    )
