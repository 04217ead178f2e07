"""The index build: index new data files and remove rows of deleted ones, in one commit, with its result and metrics."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from prometheus_client import Counter, Gauge, Histogram
from pyiceberg.types import BinaryType, StringType

from neve.errors import ConfigError
from neve.lake.calendar import now_utc
from neve.lake.commit.java_commit import RowChange, change_rows, retry_conflicts
from neve.lake.spark.tasks import count_slices, run_tasks
from neve.lake.write.data_file_json import make_removal_json
from neve.lake.write.table_writer import Target
from neve.model.tables import SEARCH_INDEX
from neve.search.plan import live_files, load_index_files, plan_build
from neve.search.tasks import RANGE_ROWS, RewriteTask, TaskRunner
from neve.state.leases import hold_worker_lease

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from pyiceberg.table import Table

    from neve.lake.lake import Lake
    from neve.search.config import SearchConfig
    from neve.search.plan import BuildPlan
    from neve.search.tasks import TaskResult
    from neve.state.documents import Documents
    from neve.state.leases import Lease


@dataclass(frozen=True)
class BuildResult:
    """Result of the index build of one table. `left_out` are files that can't be indexed and are always read."""

    table: str
    columns: tuple[str, ...]
    reason: str
    committed: bool
    files_indexed: int = 0
    files_left_out: int = 0
    rows: int = 0
    ranges: int = 0
    words: int = 0
    data_bytes: int = 0
    index_bytes: int = 0
    index_files_added: int = 0
    index_files_removed: int = 0
    snapshot: str = ""
    seconds: float = 0.0

    def as_document(self) -> dict[str, Any]:
        """Return the result as a JSON document, for programs."""
        return asdict(self)


@dataclass(frozen=True)
class IndexStatus:
    """Status of the index of one table. The share is that of the bytes for which a search can use the index."""

    table: str
    columns: tuple[str, ...]
    files: int
    files_indexed: int
    files_missing: int
    files_gone: int
    bytes: int
    bytes_indexed: int
    index_bytes: int

    @property
    def share(self) -> float:
        """Return the share of bytes that is indexed. For an empty table it is 1."""
        return self.bytes_indexed / self.bytes if self.bytes else 1.0

    def as_document(self) -> dict[str, Any]:
        """Return the status as a JSON document, for programs."""
        return {**asdict(self), "share": self.share}


RUNS = Counter("neve_search_runs", "finished runs, by table and whether they committed", ["table", "did"])
CONFLICTS = Counter("neve_search_conflicts", "commit conflicts with other writers; the run is planned again", ["table"])
FILES = Counter("neve_search_files", "data files indexed", ["table"])
ROWS = Counter("neve_search_rows", "rows of indexed data files", ["table"])
WORDS = Counter("neve_search_words", "distinct words of indexed ranges", ["table"])
INDEX_BYTES = Counter("neve_search_index_bytes", "bytes of index files written", ["table"])
SHARE = Gauge("neve_search_share", "share of the table's bytes that is indexed", ["table"])
MISSING = Gauge("neve_search_files_missing", "data files that are not indexed", ["table"])
BUCKETS = (0.1, 0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600)
SECONDS = Histogram("neve_search_seconds", "seconds from planning to the commit", ["table"], buckets=BUCKETS)


def count_run(result: BuildResult) -> None:
    """Count a finished run in the metrics."""
    table = result.table
    RUNS.labels(table, "commit" if result.committed else "nothing").inc()
    FILES.labels(table).inc(result.files_indexed)
    ROWS.labels(table).inc(result.rows)
    WORDS.labels(table).inc(result.words)
    INDEX_BYTES.labels(table).inc(result.index_bytes)
    SECONDS.labels(table).observe(result.seconds)


def count_status(status: IndexStatus) -> None:
    """Set the metrics of an index's status."""
    SHARE.labels(status.table).set(status.share)
    MISSING.labels(status.table).set(status.files_missing)


Progress = Callable[[str, int, int], None]
SEARCH = "search"


@dataclass(frozen=True)
class SearchIndexer:
    """Job that keeps the index of a lake current.

    Processes with one state store run one build for a table at a time.
    """

    lake: Lake
    config: SearchConfig
    documents: Documents
    clock: Callable[[], datetime] = now_utc
    steal: bool = False
    progress: Progress = field(default=lambda _step, _done, _total: None)
    range_rows: int = RANGE_ROWS

    def run(self) -> list[BuildResult]:
        """Update the index of every table that the settings name."""
        return [self.build(table) for table in self.config.tables]

    def build(self, table: str = "logs", columns: Sequence[str] | None = None) -> BuildResult:
        """Update the index of one table. If another writer replaced its files meanwhile, plan again."""
        self.lake.check_driver("indexing")
        retry = retry_conflicts(CONFLICTS.labels(table).inc)
        name = f"{SEARCH}:{table}"
        chosen = self.columns_of(table) if columns is None else tuple(columns)
        seconds, steal = self.config.lease_seconds, self.steal
        with hold_worker_lease(self.documents, name, seconds=seconds, what="search", steal=steal) as lease:
            result: BuildResult = retry(self._build, table, chosen, lease)
        count_run(result)
        return result

    def columns_of(self, table: str) -> tuple[str, ...]:
        """Return the columns of a table that are indexed by the settings."""
        columns = self.config.tables.get(table, ())
        if not columns:
            raise ConfigError(
                f"{table!r} has no indexed columns, expected one of: {', '.join(self.config.tables) or 'none'}",
                hint="name the table and its columns in search.tables",
            )
        return columns

    def status(self) -> list[IndexStatus]:
        """Return the status of the indexes. Reads metadata and the paths in the index."""
        found = [self._status(table, columns) for table, columns in self.config.tables.items()]
        for status in found:
            count_status(status)
        return found

    def _build(self, name: str, columns: tuple[str, ...], lease: Lease) -> BuildResult:
        began = time.monotonic()
        source, index = self.lake.table(name), self.lake.table(SEARCH_INDEX.name)
        _check_columns(source, columns)
        live = live_files(source)
        planned = plan_build(live, load_index_files(index, name), columns)
        lease.check()
        done = self._run_tasks(Target.of(source), Target.of(index), name, planned)
        change = _make_change(index, planned, done)
        snapshot = None
        if change.changes_rows:
            lease.check()
            batch_id = f"{SEARCH}:{name}:{uuid4().hex}"
            snapshot = change_rows(
                self.lake, SEARCH_INDEX.name, change, batch_id=batch_id, operation=SEARCH, summary={}
            ).snapshot_id
        sizes = {file.path: file.bytes for file in live}
        return BuildResult(
            table=name,
            columns=columns,
            reason=planned.reason,
            committed=snapshot is not None,
            files_indexed=sum(one.files for one in done),
            files_left_out=planned.left_out + sum(one.left_out for one in done),
            rows=sum(one.rows for one in done),
            ranges=sum(one.ranges for one in done),
            words=sum(one.words for one in done),
            data_bytes=sum(sizes[path] for path in planned.paths_to_index),
            index_bytes=sum(int(file["file-size-in-bytes"]) for one in done if one.files for file in one.added),
            index_files_added=len(change.added),
            index_files_removed=len(change.removed),
            snapshot=str(snapshot or ""),
            seconds=time.monotonic() - began,
        )

    def _run_tasks(self, source: Target, index: Target, name: str, planned: BuildPlan) -> list[TaskResult]:
        if not planned.tasks:
            return []
        spark = self.lake.spark
        assignment = TaskRunner(
            source, index, name, self.config.false_positive_rate, self.range_rows, built_at=self.clock()
        )
        report = partial(self.progress, name)
        return run_tasks(spark, assignment, planned.tasks, report, slices=count_slices(spark))

    def _status(self, name: str, columns: tuple[str, ...]) -> IndexStatus:
        live = live_files(self.lake.table(name))
        index_files = load_index_files(self.lake.table(SEARCH_INDEX.name), name)
        indexed_texts = {text for one in index_files for text in one.texts}
        indexed = [file for file in live if all((file.path, column) in indexed_texts for column in columns)]
        return IndexStatus(
            table=name,
            columns=columns,
            files=len(live),
            files_indexed=len(indexed),
            files_missing=len(live) - len(indexed),
            files_gone=len({path for path, _column in indexed_texts} - {file.path for file in live}),
            bytes=sum(file.bytes for file in live),
            bytes_indexed=sum(file.bytes for file in indexed),
            index_bytes=sum(one.file.file.file_size_in_bytes for one in index_files),
        )


def _make_change(index: Table, planned: BuildPlan, done: Sequence[TaskResult]) -> RowChange:
    rewrites = [task.file for task in planned.tasks if isinstance(task, RewriteTask)]
    return RowChange(
        added=tuple(file for one in done for file in one.added),
        removed=tuple(make_removal_json(index.metadata, one.file) for one in (*planned.removed, *rewrites)),
        from_snapshot=index.metadata.current_snapshot_id,
    )


def _check_columns(table: Table, columns: Sequence[str]) -> None:
    """Reject columns that have neither texts nor bytes."""
    texts = [one.name for one in table.schema().fields if isinstance(one.field_type, StringType | BinaryType)]
    wrong = [name for name in columns if name not in texts]
    if wrong:
        raise ConfigError(
            f"{'.'.join(table.name())} has no text column {wrong[0]!r}, expected one of: {', '.join(texts)}",
            hint="correct search.tables",
        )
