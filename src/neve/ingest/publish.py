"""The driver's part of a batch: what its tasks need to know, and the commits when they are done."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from neve.ingest.assignment import TABLES, Assignment
from neve.ingest.gather import SIGNAL_OF, Written
from neve.lake.commits import append_once, find_batch
from neve.lake.recent import RecentFiles
from neve.lake.writer import Target
from neve.model.commits import DUPLICATES, RECORDS, REJECTED, STREAM
from neve.model.tables import QUARANTINE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table

    from neve.ingest.config import IngestConfig
    from neve.ingest.tally import Tally
    from neve.lake.commits import Guard
    from neve.lake.lake import Lake

Tell = Callable[[int, int], None]


@dataclass
class Publisher:
    """Publishes batches of one kind; keeps what it knows of recent files from batch to batch."""

    lake: Lake
    config: IngestConfig
    operation: str
    _recent: dict[str, RecentFiles] = field(default_factory=dict)

    def tables(self) -> dict[str, Table]:
        """Every table that a batch may go to, as it is now."""
        return {name: self.lake.table(name) for name in TABLES}

    def assign(self, batch_id: str, tables: Mapping[str, Table], writers: int) -> Assignment:
        """What the tasks of a batch need; tables that have the batch already are no targets."""
        now = time.time_ns()
        lacking = {name: table for name, table in tables.items() if find_batch(table, batch_id) is None}
        return Assignment(
            batch_id=batch_id,
            started_unix_nano=now,
            config=self.config,
            s3=self.lake.s3,
            targets={name: Target.of(table) for name, table in lacking.items()},
            writers=writers,
            recent={
                name: self._files(name).find(table, now // 1000) for name, table in lacking.items() if name in SIGNAL_OF
            },
        )

    def publish(
        self,
        batch_id: str,
        written: Written,
        describe: Callable[[str], Mapping[str, str]],
        guard: Callable[[str], Guard | None] = lambda _name: None,
        tell: Tell = lambda _done, _total: None,
    ) -> list[DataFile]:
        """Commit a batch table by table; the files that were added.

        For each table `describe` says what its commit is to say beside the counts, and `guard` what it must find.
        """
        added: list[DataFile] = []
        for done, name in enumerate(TABLES):
            tell(done, len(TABLES))
            files = written.files.get(name, [])
            if files:
                table, summary = self.lake.table(name), {**_counts(written.tally, name), **describe(name)}
                append_once(
                    table,
                    files,
                    batch_id=batch_id,
                    operation=self.operation,
                    summary=summary,
                    guard=guard(name),
                    remember_batch=STREAM not in summary,  # what a table has of a stream is told by positions
                )
            added += files
        tell(len(TABLES), len(TABLES))
        return added

    def _files(self, name: str) -> RecentFiles:
        return self._recent.setdefault(name, RecentFiles(self.config.deduplicate_seconds))


def total(results: Iterable[Written]) -> Written:
    """What all writers of a batch wrote."""
    whole = Written()
    for result in results:
        whole.add(result)
    return whole


def _counts(tally: Tally, table: str) -> dict[str, str]:
    """What a commit says of the records that it brings, and of those that it does not."""
    if table == QUARANTINE.name:
        return {REJECTED: str(sum(tally.rejected.values()))}
    signal = SIGNAL_OF[table]
    return {RECORDS: str(tally.written[signal]), DUPLICATES: str(tally.duplicates[signal])}
