"""The upkeep of trace summaries and of the service map, each from the commits of the table before it.

Spans become trace summaries, and these become the edges of the service map. Both tables hold their position in the
commit of their rows. Runs need no JVM.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from neve.errors import LakeError
from neve.lake.duckdb import open_scratch_database
from neve.lake.follower import Follower, FollowMetrics, Progress, TableChange
from neve.lake.read.file_values import read_time_bounds
from neve.model.commits import TRACES
from neve.model.signals import TRACE_SUMMARIES_TABLE, TRACE_TABLES
from neve.state.leases import hold_worker_lease
from neve.traces.assembly import TraceAssembly
from neve.traces.edges import EdgeUpdate

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager

    import duckdb
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table

    from neve.lake.follower import FollowResult, FollowStatus, FollowStep
    from neve.lake.lake import Lake
    from neve.state.documents import Documents
    from neve.state.leases import Lease
    from neve.traces.config import TracesConfig

SOURCES = {table: source for source, table in TRACE_TABLES.items()}
METRICS = FollowMetrics.create("neve_traces", "traces")


@dataclass(frozen=True)
class TraceAssembler:
    """Job that keeps trace summaries and the service map of a lake current.

    Processes with one state store run one at a time.
    """

    lake: Lake
    config: TracesConfig
    documents: Documents
    steal: bool = False
    progress: Progress = field(default=lambda _step, _done, _total: None)

    def run(self) -> list[FollowResult]:
        """Update both tables."""
        return [self.update(table) for table in SOURCES]

    def update(self, table: str) -> FollowResult:
        """Update one table. Raises `LakeError` if it is none of these."""
        if table not in SOURCES:
            raise LakeError(f"{table} is not a table of traces, expected {' or '.join(SOURCES)}")
        name, seconds = f"{TRACES}:{table}", self.config.lease_seconds
        plan = self._assemble if table == TRACE_SUMMARIES_TABLE else self._count
        with hold_worker_lease(self.documents, name, seconds=seconds, what="traces", steal=self.steal) as lease:
            return self._follow(table).update(lambda step: plan(step, lease), lease.check)

    def status(self) -> list[FollowStatus]:
        """Return the status of both tables. Reads metadata alone."""
        return [self._follow(table).find_status() for table in SOURCES]

    def _follow(self, table: str) -> Follower:
        return Follower(self.lake, SOURCES[table], table, TRACES, METRICS)

    def _assemble(self, step: FollowStep, lease: Lease) -> TableChange:
        """Replace the summaries of traces with new spans. A backlog has a commit for each chunk."""
        total = TableChange()
        chunks = list(_split_files(step.source, step.list_new_files(), self.config.chunk_spans))
        for done, files in enumerate(chunks):
            self.progress(TRACE_SUMMARIES_TABLE, done, len(chunks))
            with self._open_database() as connection:
                change = TraceAssembly(connection, step, self.config, lease.check).replace_traces(files)
            if done + 1 < len(chunks):
                lease.check()
                step.commit_part(change)
                change.added, change.removed = [], []
            total = TableChange(
                change.added,
                change.removed,
                total.files + change.files,
                total.rows + change.rows,
                total.partitions + change.partitions,
            )
        return total

    def _count(self, step: FollowStep, lease: Lease) -> TableChange:
        with self._open_database() as connection:
            return EdgeUpdate(connection, step, lease.check).replace_minutes()

    def _open_database(self) -> AbstractContextManager[duckdb.DuckDBPyConnection]:
        return open_scratch_database(
            self.lake.s3, on_s3=self.lake.lake.on_s3, memory_mb=self.config.memory_mb, threads=self.config.threads
        )


def _split_files(source: Table, files: Sequence[DataFile], most: int) -> Iterator[list[DataFile]]:
    """Yield files in the order of their times, in chunks of about so many rows."""
    chunk: list[DataFile] = []
    rows = 0
    for file in sorted(files, key=lambda one: (read_time_bounds(source, one) or (0, 0), one.file_path)):
        if chunk and rows + file.record_count > most:
            yield chunk
            chunk, rows = [], 0
        chunk.append(file)
        rows += file.record_count
    if chunk:
        yield chunk
