"""Tables that are kept current from the commits of another table.

A run reads the position in the source, plans a change of the target from the files of later commits, and commits the
change with the new position. Rows and position change together, so that a killed run leaves nothing behind.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from prometheus_client import Counter, Gauge, Histogram
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.manifest import DataFileContent

from neve.lake.commit.append import append_once, require_snapshot
from neve.lake.commit.java_commit import retry_conflicts
from neve.lake.read.file_values import read_time_bounds
from neve.lake.read.positions import Changes, SourcePosition, find_changes
from neve.lake.read.snapshot_files import iterate_entries, list_changed_files
from neve.lake.time_ranges import EVERYTHING, Ranges
from neve.text import format_count

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import FileScanTask, Table

    from neve.lake.commit.append import Commit
    from neve.lake.lake import Lake

BUCKETS = (0.1, 0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600)

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class FollowResult:
    """Result of a run for one table. `partitions` are those that got rows."""

    table: str
    source: str
    reason: str
    committed: bool
    files: int = 0
    rows: int = 0
    partitions: int = 0
    snapshot: str = ""
    seconds: float = 0.0

    def as_document(self) -> dict[str, Any]:
        """Return the result as a JSON document, for programs."""
        return asdict(self)


@dataclass(frozen=True)
class FollowStatus:
    """Files of the source that a table has not seen. Queries read these files directly."""

    table: str
    source: str
    files: int
    files_missing: int
    bytes_missing: int

    def as_document(self) -> dict[str, Any]:
        """Return the status as a JSON document, for programs."""
        return asdict(self)


@dataclass
class TableChange:
    """Files to add to a table and to remove from it. `files` are those of the source that were read."""

    added: list[DataFile] = field(default_factory=list)
    removed: list[DataFile] = field(default_factory=list)
    files: int = 0
    rows: int = 0
    partitions: int = 0


@dataclass(frozen=True)
class FollowStep:
    """Source and target at the start of a run."""

    source: Table
    target: Table
    stream: str

    @cached_property
    def position(self) -> SourcePosition | None:
        """The position of the last run, or `None` if nothing of this source was read."""
        found = SourcePosition.load(self.target, self.stream)
        return found if found is not None and found.table_uuid == str(self.source.metadata.table_uuid) else None

    @property
    def changes(self) -> Changes:
        """Commits to the source since the position."""
        return find_changes(self.source, self.position.snapshot if self.position else None)

    def list_new_files(self) -> list[DataFile]:
        """Return the files of commits after the position. If all of them were rewrites, there are no new rows."""
        if self.position is None:
            return [one.data_file for one in iterate_data_entries(self.source)]
        changes = self.changes
        if not changes.gap and not changes.commits:
            return []
        return [one.data_file for one in iterate_data_entries(self.source, self.position.sequence)]

    def find_changed_times(self, micros: int, most: int) -> tuple[int, Ranges]:
        """Return the number of new files, and the times of all files that came or went since the position.

        Times are whole windows of `micros`, in at most so many ranges, or everything if they are unknown.
        """
        changes = self.changes
        if self.position is None or changes.gap:
            return len(self.list_new_files()), EVERYTHING
        files, found = 0, Ranges()
        for snapshot in changes.commits:
            for one in list_changed_files(self.source, snapshot):
                files += one.added
                bounds = read_time_bounds(self.source, one.file)
                found |= EVERYTHING if bounds is None else Ranges.of([(bounds[0], bounds[1] + 1)])
        return files, found.align(micros).join_to(most) if found.is_bounded else EVERYTHING

    def commit_part(self, change: TableChange) -> None:
        """Commit a part of the change without a position: a run that is killed later does the whole work again."""
        self.commit(change, {})
        self.target.refresh()

    def commit(self, change: TableChange, summary: Mapping[str, str]) -> Commit:
        """Commit a change, unless another writer changed the target in the meantime."""
        return append_once(
            self.target,
            change.added,
            batch_id=f"{self.stream}:{self.target.name()[-1]}:{uuid4().hex}",
            operation=self.stream,
            summary=summary,
            guard=require_snapshot(self.target.metadata.current_snapshot_id),
            removed=lambda _table: change.removed,
        )


@dataclass(frozen=True)
class FollowMetrics:
    """Metrics of the runs of one job, by table."""

    runs: Counter
    conflicts: Counter
    files: Counter
    missing: Gauge
    seconds: Histogram

    @classmethod
    def create(cls, prefix: str, things: str) -> FollowMetrics:
        """Register the metrics of a job; `things` are what it reads of files."""
        by = ["table"]
        return cls(
            Counter(f"{prefix}_runs", "finished runs, by table and whether they committed", ["table", "did"]),
            Counter(f"{prefix}_conflicts", "commit conflicts with other writers; the run is planned again", by),
            Counter(f"{prefix}_files", f"data files whose {things} were read", by),
            Gauge(f"{prefix}_files_missing", f"data files whose {things} were not read yet", by),
            Histogram(f"{prefix}_seconds", "seconds from planning to the commit", by, buckets=BUCKETS),
        )


@dataclass(frozen=True)
class Follower:
    """Upkeep of one table from another. `stream` names it in the commits of the table."""

    lake: Lake
    source: str
    target: str
    stream: str
    metrics: FollowMetrics

    def update(self, plan: Callable[[FollowStep], TableChange], check: Callable[[], None]) -> FollowResult:
        """Plan and commit a change. If another writer replaced files of the table meanwhile, plan again.

        `check` is called before the commit. It raises an error if this process may no longer commit.
        """
        retry = retry_conflicts(self.metrics.conflicts.labels(self.target).inc)
        result: FollowResult = retry(self._update, plan, check)
        self.metrics.runs.labels(self.target, "commit" if result.committed else "nothing").inc()
        self.metrics.files.labels(self.target).inc(result.files)
        self.metrics.seconds.labels(self.target).observe(result.seconds)
        self.metrics.missing.labels(self.target).set(0)
        return result

    def find_status(self) -> FollowStatus:
        """Return the status of the table. Reads metadata alone."""
        source, target = self.lake.table(self.source), self.lake.table(self.target)
        seen = SourcePosition.read_sequence(target, self.stream, source)
        entries = list(iterate_data_entries(source))
        missing = [one.data_file for one in entries if (one.sequence_number or 0) > seen]
        self.metrics.missing.labels(self.target).set(len(missing))
        size = sum(file.file_size_in_bytes for file in missing)
        return FollowStatus(self.target, self.source, len(entries), len(missing), size)

    def _update(self, plan: Callable[[FollowStep], TableChange], check: Callable[[], None]) -> FollowResult:
        began = time.monotonic()
        step = FollowStep(self.lake.table(self.source), self.lake.table(self.target), self.stream)
        snapshot = step.source.current_snapshot()
        if snapshot is None or (step.position is not None and step.position.snapshot == snapshot.snapshot_id):
            return FollowResult(self.target, self.source, "every file was read", committed=False)
        change = plan(step)
        check()
        sequence = snapshot.sequence_number or 0
        stored = SourcePosition(snapshot.snapshot_id, sequence, str(step.source.metadata.table_uuid))
        commit = step.commit(change, stored.to_summary(self.stream))
        return FollowResult(
            table=self.target,
            source=self.source,
            reason=f"{format_count(change.files, 'file')} of {self.source} not read before",
            committed=True,
            files=change.files,
            rows=change.rows,
            partitions=change.partitions,
            snapshot=str(commit.snapshot_id),
            seconds=time.monotonic() - began,
        )


def iterate_data_entries(table: Table, after: int = 0) -> Iterator[Any]:
    """Yield the manifest entries of the data files of commits after a sequence number."""
    for entry in iterate_entries(table):
        if entry.data_file.content == DataFileContent.DATA and (entry.sequence_number or 0) > after:
            yield entry


def scan_batches(table: Table, tasks: Sequence[FileScanTask], names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of some files, without deleted rows, with the columns of these names in their order."""
    if tasks:
        projected = table.schema().select(*names)
        for batch in ArrowScan(table.metadata, table.io, projected, AlwaysTrue()).to_record_batches(list(tasks)):
            yield batch.select(list(names))
