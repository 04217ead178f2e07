"""The job: data files that are not indexed get their rows, and rows about files that are gone go, in one commit."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING
from uuid import uuid4

from pyiceberg.types import StringType
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from neve.errors import CommitConflict, ConfigError
from neve.lake.calendar import now_utc
from neve.lake.lane import parallelism, run_tasks
from neve.lake.leases import work_under
from neve.lake.row_change import RowChange, change_rows
from neve.lake.writer import Target
from neve.model.search import SEARCH_INDEX
from neve.search import metrics
from neve.search.plan import content_to_remove, held_files, live_files, plan_build
from neve.search.ranges import RANGE_ROWS
from neve.search.result import BuildResult, IndexStatus
from neve.search.tasks import Assignment, Thinning

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from pyiceberg.table import Table

    from neve.lake.documents import Documents
    from neve.lake.lake import Lake
    from neve.lake.leases import Lease
    from neve.search.config import SearchConfig
    from neve.search.plan import Planned
    from neve.search.tasks import Done

Progress = Callable[[str, int, int], None]
SEARCH = "search"
ATTEMPTS = 5
TASKS_EACH = 4  # that a core is given, when there are many


@dataclass(frozen=True)
class Search:
    """Keeps the index of a lake current; among all that share the state store, one run for a table at a time."""

    lake: Lake
    config: SearchConfig
    documents: Documents
    clock: Callable[[], datetime] = now_utc
    steal: bool = False
    progress: Progress = field(default=lambda _step, _done, _total: None)
    range_rows: int = RANGE_ROWS

    def run(self) -> list[BuildResult]:
        """Bring the index of every table up to date that the settings name."""
        return [self.build(table) for table in self.config.tables]

    def build(self, table: str = "logs", columns: Sequence[str] | None = None) -> BuildResult:
        """Bring the index of one table up to date; when another writer replaced its files meanwhile, look again."""
        again = Retrying(
            retry=retry_if_exception_type(CommitConflict),
            stop=stop_after_attempt(ATTEMPTS),
            wait=wait_random_exponential(multiplier=0.2, max=5),
            before_sleep=lambda _state: metrics.CONFLICTS.labels(table).inc(),
            reraise=True,
        )
        name = f"{SEARCH}:{table}"
        wanted = self.columns_of(table) if columns is None else tuple(columns)
        seconds, steal = self.config.lease_seconds, self.steal
        with work_under(self.documents, name, seconds=seconds, what="search", steal=steal) as lease:
            result: BuildResult = again(self._build, table, wanted, lease)
        metrics.count_run(result)
        return result

    def columns_of(self, table: str) -> tuple[str, ...]:
        """The columns of a table that the settings want indexed."""
        columns = self.config.tables.get(table, ())
        if not columns:
            raise ConfigError(
                f"no column of {table!r} is to be indexed, expected one of: {', '.join(self.config.tables) or 'none'}",
                hint="name the table and its columns in search.tables",
            )
        return columns

    def status(self) -> list[IndexStatus]:
        """How the indexes stand; reads metadata and the paths in the index."""
        found = [self._status(table, columns) for table, columns in self.config.tables.items()]
        for status in found:
            metrics.count_status(status)
        return found

    def _build(self, name: str, columns: tuple[str, ...], lease: Lease) -> BuildResult:
        began = time.monotonic()
        source, index = self.lake.table(name), self.lake.table(SEARCH_INDEX.name)
        _check(source, columns)
        live = live_files(source)
        planned = plan_build(live, held_files(index, name), columns)
        lease.check()
        done = self._computed(Target.of(source), Target.of(index), name, planned)
        change = _change(index, planned, done)
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
            data_bytes=sum(sizes[path] for path in planned.indexed),
            index_bytes=sum(int(file["file-size-in-bytes"]) for one in done if one.files for file in one.added),
            index_files_added=len(change.added),
            index_files_removed=len(change.removed),
            snapshot=str(snapshot or ""),
            seconds=time.monotonic() - began,
        )

    def _computed(self, source: Target, index: Target, name: str, planned: Planned) -> list[Done]:
        if not planned.tasks:
            return []
        spark = self.lake.spark
        assignment = Assignment(
            source, index, name, self.config.false_positive_rate, self.range_rows, built_at=self.clock()
        )
        tell = partial(self.progress, name)
        return run_tasks(spark, assignment, planned.tasks, tell, slices=TASKS_EACH * parallelism(spark))

    def _status(self, name: str, columns: tuple[str, ...]) -> IndexStatus:
        live, held = live_files(self.lake.table(name)), held_files(self.lake.table(SEARCH_INDEX.name), name)
        there = {text for one in held for text in one.texts}
        indexed = [file for file in live if all((file.path, column) in there for column in columns)]
        return IndexStatus(
            table=name,
            columns=columns,
            files=len(live),
            files_indexed=len(indexed),
            files_missing=len(live) - len(indexed),
            files_gone=len({path for path, _column in there} - {file.path for file in live}),
            bytes=sum(file.bytes for file in live),
            bytes_indexed=sum(file.bytes for file in indexed),
            index_bytes=sum(one.file.file.file_size_in_bytes for one in held),
        )


def _change(index: Table, planned: Planned, done: Sequence[Done]) -> RowChange:
    thinned = [task.file for task in planned.tasks if isinstance(task, Thinning)]
    return RowChange(
        added=tuple(file for one in done for file in one.added),
        removed=tuple(content_to_remove(index, file) for file in (*planned.removed, *thinned)),
        from_snapshot=index.metadata.current_snapshot_id,
    )


def _check(table: Table, columns: Sequence[str]) -> None:
    """Refuse columns that have no texts."""
    texts = [one.name for one in table.schema().fields if isinstance(one.field_type, StringType)]
    wrong = [name for name in columns if name not in texts]
    if wrong:
        raise ConfigError(
            f"{'.'.join(table.name())} has no column of text {wrong[0]!r}, expected one of: {', '.join(texts)}",
            hint="correct search.tables",
        )
