"""The upkeep of the tables of series: read the files of new commits, and replace the days that they change.

One commit replaces all of them. It holds the position in the source, so that rows and position change together. Rows
that are read twice change nothing. Runs need no JVM: they read the identity of rows alone, file by file.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa
from prometheus_client import Counter, Gauge, Histogram
from pyiceberg.expressions import AlwaysTrue, And, GreaterThanOrEqual, In, LessThanOrEqual, Reference
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.manifest import DataFileContent
from pyiceberg.table import FileScanTask

from neve.lake.commit.append import append_once, require_snapshot
from neve.lake.commit.java_commit import retry_conflicts
from neve.lake.read.file_values import partition_values
from neve.lake.read.positions import SourcePosition, find_changes
from neve.lake.read.snapshot_files import iterate_entries, scan_files
from neve.lake.write.table_writer import Target, write_files
from neve.model.commits import SERIES
from neve.series.rows import KINDS, make_rows, merge_rows
from neve.state.leases import hold_worker_lease
from neve.text import format_count

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table

    from neve.lake.lake import Lake
    from neve.series.config import SeriesConfig
    from neve.series.rows import SeriesKind
    from neve.state.documents import Documents
    from neve.state.leases import Lease

MERGED_ROWS = 200_000  # rows of series that wait until they are merged

RUNS = Counter("neve_series_runs", "finished runs, by table and whether they committed", ["table", "did"])
CONFLICTS = Counter("neve_series_conflicts", "commit conflicts with other writers; the run is planned again", ["table"])
FILES = Counter("neve_series_files", "data files whose series were read", ["table"])
MISSING = Gauge("neve_series_files_missing", "data files whose series were not read yet", ["table"])
BUCKETS = (0.1, 0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600)
SECONDS = Histogram("neve_series_seconds", "seconds from planning to the commit", ["table"], buckets=BUCKETS)


@dataclass(frozen=True)
class SeriesResult:
    """Result of a run for one table."""

    table: str
    source: str
    reason: str
    committed: bool
    files: int = 0
    rows: int = 0
    days: int = 0
    snapshot: str = ""
    seconds: float = 0.0

    def as_document(self) -> dict[str, Any]:
        """Return the result as a JSON document, for programs."""
        return asdict(self)


@dataclass(frozen=True)
class SeriesStatus:
    """Status of a table of series. Queries read the missing files directly."""

    table: str
    source: str
    files: int
    files_missing: int
    bytes_missing: int

    def as_document(self) -> dict[str, Any]:
        """Return the status as a JSON document, for programs."""
        return asdict(self)


Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class SeriesIndexer:
    """Job that keeps the tables of series of a lake current. Processes with one state store run one at a time."""

    lake: Lake
    config: SeriesConfig
    documents: Documents
    steal: bool = False
    progress: Progress = field(default=lambda _step, _done, _total: None)

    def run(self) -> list[SeriesResult]:
        """Update all tables."""
        return [self.update(kind) for kind in KINDS]

    def update(self, kind: SeriesKind) -> SeriesResult:
        """Update one table. If another writer replaced its files meanwhile, plan again."""
        table = kind.target.name
        retry = retry_conflicts(CONFLICTS.labels(table).inc)
        seconds, steal = self.config.lease_seconds, self.steal
        with hold_worker_lease(
            self.documents, f"{SERIES}:{table}", seconds=seconds, what="series", steal=steal
        ) as lease:
            result: SeriesResult = retry(self._update, kind, lease)
        RUNS.labels(table, "commit" if result.committed else "nothing").inc()
        FILES.labels(table).inc(result.files)
        SECONDS.labels(table).observe(result.seconds)
        MISSING.labels(table).set(0)
        return result

    def status(self) -> list[SeriesStatus]:
        """Return the status of all tables. Reads metadata alone."""
        found = [self._status(kind) for kind in KINDS]
        for one in found:
            MISSING.labels(one.table).set(one.files_missing)
        return found

    def _status(self, kind: SeriesKind) -> SeriesStatus:
        source, target = self.lake.table(kind.source), self.lake.table(kind.target.name)
        files = [entry.data_file for entry in _data_entries(source, 0)]
        missing = [
            entry.data_file for entry in _data_entries(source, SourcePosition.read_sequence(target, SERIES, source))
        ]
        return SeriesStatus(
            table=kind.target.name,
            source=kind.source,
            files=len(files),
            files_missing=len(missing),
            bytes_missing=sum(file.file_size_in_bytes for file in missing),
        )

    def _update(self, kind: SeriesKind, lease: Lease) -> SeriesResult:
        began = time.monotonic()
        source, target = self.lake.table(kind.source), self.lake.table(kind.target.name)
        snapshot = source.current_snapshot()
        position = SourcePosition.load(target, SERIES)
        if snapshot is None or (position is not None and position.snapshot == snapshot.snapshot_id):
            return SeriesResult(kind.target.name, kind.source, "every file was read", committed=False)
        files = _find_new_files(source, target, position)
        update = _Update(kind, source, target, lease)
        for done, group in enumerate(groups := _group_files(source, files)):
            self.progress(kind.target.name, done, len(groups))
            update.add(group)
        lease.check()
        sequence = snapshot.sequence_number or 0
        stored = SourcePosition(snapshot.snapshot_id, sequence, str(source.metadata.table_uuid))
        commit = append_once(
            target,
            update.added,
            batch_id=f"{SERIES}:{kind.target.name}:{uuid4().hex}",
            operation=SERIES,
            summary=stored.to_summary(SERIES),
            guard=require_snapshot(target.metadata.current_snapshot_id),
            removed=lambda _table: update.removed,
        )
        return SeriesResult(
            table=kind.target.name,
            source=kind.source,
            reason=f"{format_count(len(files), 'file')} of {kind.source} not read before",
            committed=True,
            files=len(files),
            rows=update.rows,
            days=update.days,
            snapshot=str(commit.snapshot_id),
            seconds=time.monotonic() - began,
        )


def _find_new_files(source: Table, target: Table, position: SourcePosition | None) -> list[DataFile]:
    """Return the files of commits after the position. If all of them were rewrites, there are no new rows."""
    seen = SourcePosition.read_sequence(target, SERIES, source)
    if position is not None and seen:
        changes = find_changes(source, position.snapshot)
        if not changes.gap and not changes.commits:
            return []
    return [entry.data_file for entry in _data_entries(source, seen)]


def _data_entries(table: Table, after: int) -> Iterator[Any]:
    return (
        entry
        for entry in iterate_entries(table)
        if entry.data_file.content == DataFileContent.DATA and (entry.sequence_number or 0) > after
    )


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
    added: list[DataFile] = field(default_factory=list)
    removed: list[DataFile] = field(default_factory=list)
    rows: int = 0
    days: int = 0

    def add(self, files: Sequence[DataFile]) -> None:
        """Merge the series of some files with those of their days, and write the result if it differs."""
        new = self._read(files)
        if not new.num_rows:
            return
        known = {file.file_path for file in self.removed}
        tasks = [one for one in scan_files(self.target, _filter_of(new)) if one.file.file_path not in known]
        old = merge_rows(self.kind, self._scan(self.target, tasks, self.kind.target.schema.names))
        merged = merge_rows(self.kind, pa.concat_tables([old, new]))
        if merged.equals(old):
            return
        self.lease.check()
        self.added += write_files(Target.of(self.target), merged)
        self.removed += [one.file for one in tasks]
        self.rows += merged.num_rows
        self.days += len(new.column("timestamp").unique())

    def _read(self, files: Sequence[DataFile]) -> pa.Table:
        """Return the series of some files."""
        held: list[pa.Table] = [self.kind.target.schema.empty_table()]
        for file in files:
            for batch in _scan_batches(self.source, [FileScanTask(file)], self.kind.columns):
                held.append(make_rows(self.kind, batch))
                if sum(one.num_rows for one in held) > MERGED_ROWS:
                    held = [merge_rows(self.kind, pa.concat_tables(held))]
            self.lease.check()
        return merge_rows(self.kind, pa.concat_tables(held))

    def _scan(self, table: Table, tasks: Sequence[FileScanTask], names: Sequence[str]) -> pa.Table:
        schema = self.kind.target.schema
        batches = _scan_batches(table, tasks, names)
        return pa.concat_tables([schema.empty_table(), *(pa.Table.from_batches([one]).cast(schema) for one in batches)])


def _scan_batches(table: Table, tasks: Sequence[FileScanTask], names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    if tasks:
        projected = table.schema().select(*names)
        for batch in ArrowScan(table.metadata, table.io, projected, AlwaysTrue()).to_record_batches(list(tasks)):
            yield batch.select(list(names))


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
