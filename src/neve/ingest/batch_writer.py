"""Write the rows of a batch: data files on the workers, without duplicates, then one commit per table on the driver."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from neve.errors import TableMissing
from neve.ingest.arrival import ARRIVAL_ORDER, INGESTED_AT
from neve.ingest.assignment import TABLES, Assignment, Tally
from neve.ingest.decoder import REPORT, TALLY
from neve.ingest.deduplication import DuplicateFilter
from neve.lake.calendar import EPOCH
from neve.lake.commit.append import append_once, find_batch
from neve.lake.config import S3Config
from neve.lake.duckdb import connect
from neve.lake.read.snapshot_files import RecentFiles
from neve.lake.span_size import OWN_COLUMNS, span_size_sql
from neve.lake.write.table_writer import Target, write_files
from neve.model.commits import DUPLICATES, RECORDS, REJECTED, REPEATS, STREAM
from neve.model.tables import BY_SIGNAL, QUARANTINE, SPAN_REPEATS, SPANS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table

    from neve.ingest.config import IngestConfig
    from neve.lake.commit.append import Guard
    from neve.lake.lake import Lake
    from neve.lake.spark.exchange import ExchangeBlock


# Columns of a repeat that are those of the dropped span.
REPEAT_COLUMNS = ("organization_id", "trace_id", "span_id", "start_time_unix_nano", "end_time_unix_nano", INGESTED_AT)
SIGNAL_OF = {table.name: signal.value for signal, table in BY_SIGNAL.items()}


@dataclass
class Written:
    """The data files of a batch by table, its counts, and the reports of the decoding tasks as JSON values."""

    files: dict[str, list[DataFile]] = field(default_factory=dict)
    tally: Tally = field(default_factory=Tally)
    reports: list[Any] = field(default_factory=list)

    def add(self, other: Written) -> None:
        """Add the result of another writer."""
        for table, files in other.files.items():
            self.files.setdefault(table, []).extend(files)
        self.tally.add(other.tally)
        self.reports += other.reports


def gather(assignment: Assignment, parcels: Iterable[ExchangeBlock]) -> Written:
    """Write the rows of all parcels. The rows of each table are buffered until files have a good size."""
    writer = _Writer(assignment)
    for parcel in parcels:
        writer.add(parcel)
    writer.flush()
    return writer.written


class _Writer:
    def __init__(self, assignment: Assignment) -> None:
        self.written = Written()
        self._assignment = assignment
        self._sieves: dict[str, DuplicateFilter] = {}
        self._held: dict[str, list[pa.Table]] = {}
        self._held_bytes = 0

    def add(self, parcel: ExchangeBlock) -> None:
        if parcel.label == REPORT:
            message = json.loads(parcel.rows.column(0)[0].as_py())
            self.written.tally.add(Tally.from_json(message[TALLY]))
            self.written.reports.append(message[REPORT])
            return
        self._held.setdefault(parcel.label, []).append(parcel.rows)
        self._held_bytes += parcel.rows.nbytes
        if self._held_bytes >= self._assignment.config.flush_bytes:
            self.flush()

    def flush(self) -> None:
        """Write the buffered rows."""
        for name, tables in self._held.items():
            target = self._assignment.targets[name]
            sieve = self._sieve(name)
            before = sieve.dropped if sieve else 0
            files = write_files(target, pa.concat_tables(tables), sieve)
            self.written.files.setdefault(name, []).extend(files)
            if sieve and sieve.dropped > before:
                self.written.tally.duplicates[SIGNAL_OF[name]] += sieve.dropped - before
                self._write_repeats(sieve.take_repeats())
        self._held, self._held_bytes = {}, 0

    def _write_repeats(self, spans: pa.Table | None) -> None:
        if spans is not None:
            rows = build_repeat_rows(spans, self._assignment.batch_id, self._assignment.started_unix_nano)
            files = write_files(self._assignment.targets[SPAN_REPEATS.name], rows)
            self.written.files.setdefault(SPAN_REPEATS.name, []).extend(files)

    def _sieve(self, name: str) -> DuplicateFilter | None:
        """Return the duplicate filter of a table of records. All writes of this task share it."""
        if name not in SIGNAL_OF or not self._assignment.config.deduplicate_seconds:
            return None
        if name not in self._sieves:
            io, recent = self._assignment.targets[name].io, self._assignment.recent.get(name, {})
            keeps_repeats = name == SPANS.name and SPAN_REPEATS.name in self._assignment.targets
            self._sieves[name] = DuplicateFilter(io, recent, keeps_repeats)
        return self._sieves[name]


ProgressCallback = Callable[[int, int], None]


@dataclass
class Publisher:
    """Publishes batches of one kind. It keeps its knowledge of recent files from batch to batch."""

    lake: Lake
    config: IngestConfig
    operation: str
    _recent: dict[str, RecentFiles] = field(default_factory=dict)

    def tables(self) -> dict[str, Table]:
        """Load the current state of every table that a batch may be written to."""
        return {name: self.lake.table(name) for name in TABLES}

    def assign(self, batch_id: str, tables: Mapping[str, Table], writers: int) -> Assignment:
        """Return the assignment for the tasks of a batch. Tables that have the batch already are not targets."""
        now = time.time_ns()
        lacking = {name: table for name, table in tables.items() if find_batch(table, batch_id) is None}
        further = self._load_repeats() if SPANS.name in lacking else {}
        return Assignment(
            batch_id=batch_id,
            started_unix_nano=now,
            config=self.config,
            s3=self.lake.s3,
            targets={name: Target.of(table) for name, table in {**lacking, **further}.items()},
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
        report: ProgressCallback = lambda _done, _total: None,
    ) -> list[DataFile]:
        """Commit a batch table by table. Return the added files.

        For each table, `describe` returns further summary properties of the commit, and `guard` its precondition.
        """
        added: list[DataFile] = []
        for done, name in enumerate(TABLES):
            report(done, len(TABLES))
            files = written.files.get(name, [])
            repeats = written.files.get(SPAN_REPEATS.name, []) if name == SPANS.name else []
            if files or repeats:
                table, summary = self.lake.table(name), {**_summary_counts(written.tally, name), **describe(name)}
                if repeats:
                    self._commit_repeats(batch_id, repeats, remember_batch=STREAM not in summary)
                    summary[REPEATS] = str(sum(file.record_count for file in repeats))
                append_once(
                    table,
                    files,
                    batch_id=batch_id,
                    operation=self.operation,
                    summary=summary,
                    guard=guard(name),
                    remember_batch=STREAM not in summary,  # positions identify the part of a stream that a table has
                )
            added += files
        report(len(TABLES), len(TABLES))
        return added

    def _load_repeats(self) -> dict[str, Table]:
        """Load the table of repeats. An older lake lacks it until `neve init` creates it."""
        try:
            return {SPAN_REPEATS.name: self.lake.table(SPAN_REPEATS.name)}
        except TableMissing:
            return {}

    def _commit_repeats(self, batch_id: str, files: list[DataFile], *, remember_batch: bool) -> None:
        """Commit repeats of stored spans before the spans of their batch, whose commit makes them count."""
        table = self.lake.table(SPAN_REPEATS.name)
        append_once(table, files, batch_id=batch_id, operation=self.operation, remember_batch=remember_batch)

    def _files(self, name: str) -> RecentFiles:
        return self._recent.setdefault(name, RecentFiles(self.config.deduplicate_seconds))


def sum_written(results: Iterable[Written]) -> Written:
    """Return the sum of the results of all writers of a batch."""
    whole = Written()
    for result in results:
        whole.add(result)
    return whole


def _summary_counts(tally: Tally, table: str) -> dict[str, str]:
    """Return the summary counts of a commit: written, rejected and duplicate records."""
    if table == QUARANTINE.name:
        return {REJECTED: str(sum(tally.rejected.values()))}
    signal = SIGNAL_OF[table]
    return {RECORDS: str(tally.written_records[signal]), DUPLICATES: str(tally.duplicates[signal])}


def build_repeat_rows(spans: pa.Table, batch_id: str, started_unix_nano: int) -> pa.Table:
    """Return spans that an earlier write has stored as rows of `span_repeats`.

    The collector counts each span that arrives, and tail sampling does so with these rows. They are committed before
    the spans of their batch, and count when a commit of `spans` has their batch id. So a batch that was killed between
    the two commits counts once. `started_unix_nano` is the start of the batch that dropped the spans.
    """
    count = spans.num_rows
    started = EPOCH + timedelta(microseconds=started_unix_nano // 1000)
    is_ordered = ARRIVAL_ORDER in spans.column_names  # an older lake lacks the column until `neve init` adds it
    columns = {
        **{name: spans.column(name) for name in REPEAT_COLUMNS},
        "recorded_at": pa.array([started] * count),
        "span_bytes": _measure_spans(spans),
        ARRIVAL_ORDER: spans.column(ARRIVAL_ORDER) if is_ordered else pa.nulls(count),
        "batch_id": pa.array([batch_id] * count),
    }
    return pa.table([columns[name] for name in SPAN_REPEATS.schema.names], SPAN_REPEATS.schema.names).cast(
        SPAN_REPEATS.schema
    )


def _measure_spans(spans: pa.Table) -> pa.ChunkedArray:
    with connect(S3Config(), on_s3=False, threads=1, extensions=()) as connection:
        relation = connection.from_arrow(spans)
        return relation.project(f"{span_size_sql(OWN_COLUMNS)}::BIGINT AS size").to_arrow_table().column("size")
