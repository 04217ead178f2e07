"""The spans of kept traces, with all their columns: read once for each cycle, for all destinations.

They stream past DuckDB, which knows the kept traces, into files of some whole traces each; from there every destination
gets them in the order of the traces, so that each can go on where it was. Memory holds one such file at a time.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import structlog
from pyiceberg.expressions import EqualTo, GreaterThan, Reference

from neve.lake.duck import literal
from neve.lake.duck_files import file_list
from neve.lake.duckdb_types import quoted
from neve.tail import cycle_spans
from neve.tail.cycle_spans import CycleSpans, Lot
from neve.tail.decisions import LATE, SAMPLED
from neve.tail.export.period import Period
from neve.tail.export.sorted_file import SortedFile
from neve.tail.news import chunks_of, everything, news_since
from neve.tail.rows import ROW_KINDS
from neve.tail.scratch import scratch

if TYPE_CHECKING:
    from collections.abc import Iterator

    import duckdb
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.table import Table

    from neve.lake.lake import Lake
    from neve.tail.config import TailConfig
    from neve.tail.news import SpanFile
    from neve.tail.source import Source

CHOSEN = "chosen"
LEAST_MEMORY_MB = 256  # whole rows are wider than what decisions are made from
READ_SPANS = 10_000  # wide rows that are sorted into their lots at once
LOTS_AT_ONCE = 64  # open files; for more lots than these, spans are read once more

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Kept:
    """Reads what a selector kept."""

    lake: Lake
    source: Source
    config: TailConfig
    decisions: Table

    def cycles(self, after: int) -> list[int]:
        """The cycles after one that kept something, in order."""
        files = self._files(GreaterThan(term=Reference("cycle"), value=after))
        if not files:
            return []
        with self._scratch() as connection:
            rows = connection.execute(
                f"SELECT DISTINCT cycle FROM read_parquet({file_list(files)}) "
                f"WHERE cycle > {after} AND {self._mine} ORDER BY cycle"
            ).fetchall()
        return [int(row[0]) for row in rows]

    def cycle(self, number: int, begin: str = "") -> Iterator[CycleSpans]:
        """The spans that one cycle kept, from a trace on: some lots at a time, which are gone with the next."""
        files = self._files(EqualTo(term=Reference("cycle"), value=number))
        with self._scratch() as connection:
            connection.execute(
                f"CREATE TABLE {CHOSEN} AS {_in_lots(self._chosen(files, number, begin), cycle_spans.BATCH_SPANS)}"
            )
            (lots,) = connection.execute(f"SELECT coalesce(max(lot) + 1, 0) FROM {CHOSEN}").fetchone() or (0,)
            for first in range(0, lots, LOTS_AT_ONCE):
                with TemporaryDirectory(prefix="neve-tail-export-") as folder:
                    yield self._gathered(connection, number, range(first, min(first + LOTS_AT_ONCE, lots)), folder)

    def _chosen(self, files: list[str], number: int, begin: str) -> str:
        return (
            f"SELECT organization_id, trace_id, kind = {literal(LATE)} AS late, adjusted_count, threshold, "
            f"CASE WHEN kind = {literal(LATE)} THEN late_spans ELSE span_count END AS spans, "
            "epoch_us(last_seen) AS last_us, start_time_unix_nano AS first_ns, source_snapshot_id, "
            f"previous_snapshot_id FROM read_parquet({file_list(files)}) "
            f"WHERE cycle = {number} AND {self._mine} AND trace_id >= unhex({literal(begin)})"
        )

    @property
    def _mine(self) -> str:
        return f"selector = {literal(self.config.name)} AND decision = {literal(SAMPLED)} AND taken_by IS NULL"

    def _gathered(self, connection: duckdb.DuckDBPyConnection, number: int, numbers: range, folder: str) -> CycleSpans:
        """Put the spans of some lots into their files."""
        within = f"lot BETWEEN {numbers[0]} AND {numbers[-1]}"
        huge = connection.execute(f"SELECT DISTINCT lot FROM {CHOSEN} WHERE {within} AND huge").fetchnumpy()["lot"]
        schema = _schema(connection)
        lots = {one: Lot(SortedFile(Path(folder) / str(one), schema), one in huge) for one in numbers}
        groups = connection.execute(
            "SELECT late, source_snapshot_id, previous_snapshot_id, min(first_ns), max(last_us), sum(spans)::BIGINT "
            f"FROM {CHOSEN} WHERE {within} GROUP BY ALL"
        ).fetchall()
        missing = 0
        for late, snapshot, previous, first_ns, last_us, expected in groups:
            table = self.source.now(snapshot) if self._knows(snapshot) else self.source.now()
            period = Period(first_ns, last_us if self.config.clock == "arrival" else None)
            files = list(news_since(table, previous, known=True).files if late else self._within(table, period))
            seen = "NULL" if snapshot is None else snapshot
            mine = f"{within} AND late = {late} AND source_snapshot_id IS NOT DISTINCT FROM {seen}"
            chosen = f"(SELECT * FROM {CHOSEN} WHERE {mine})"
            found = sum(self._scatter(connection, some, chosen, lots) for some in self._portions(files))
            missing += 0 if late else max(0, expected - found)
        for lot in lots.values():
            lot.file.close()
        if missing:
            log.warning("kept spans not found", selector=self.config.name, cycle=number, spans=missing)
        return CycleSpans(number, list(lots.values()), missing)

    def _scatter(
        self, connection: duckdb.DuckDBPyConnection, files: list[SpanFile], chosen: str, lots: dict[int, Lot]
    ) -> int:
        """Read the spans of the chosen traces from some files; how many there are."""
        listed = ", ".join(f"s.{quoted(name)}::{kind} AS {quoted(name)}" for name, kind in ROW_KINDS)
        reader = connection.execute(
            f"SELECT {listed}, c.adjusted_count, c.threshold, c.lot "
            f"FROM {self.source.reader.table_rows(files)} AS s "
            f"JOIN {chosen} AS c ON s.organization_id = c.organization_id AND s.trace_id = c.trace_id"
        ).to_arrow_reader(READ_SPANS)
        found = 0
        for batch in reader:
            found += batch.num_rows
            for lot, rows in _by_lot(batch):
                lots[lot].file.write(rows)
        return found

    def _knows(self, snapshot_id: int | None) -> bool:
        return snapshot_id is not None and self.source.now().snapshot_by_id(snapshot_id) is not None

    def _within(self, table: Table, period: Period) -> Iterator[SpanFile]:
        """The files that may hold spans of some time; all of them where the table does not tell."""
        whole = everything(table, None, "to look for kept traces").files
        row_filter = period.filter(table.schema(), self.source.reader.columns.names["start"])
        if row_filter is None:
            return iter(whole)
        paths = {task.file.file_path for task in table.scan(row_filter=row_filter).plan_files()}
        return (file for file in whole if file.path in paths)

    def _portions(self, files: list[SpanFile]) -> Iterator[list[SpanFile]]:
        return (list(chunk.files) for chunk in chunks_of(files, self.config.chunk_rows))

    def _files(self, row_filter: BooleanExpression) -> list[str]:
        """The files of decisions as they are now: cycles go on while this waits for its next turn."""
        return [task.file.file_path for task in self.decisions.refresh().scan(row_filter=row_filter).plan_files()]

    @contextmanager
    def _scratch(self) -> Iterator[duckdb.DuckDBPyConnection]:
        on_s3 = self.source.on_s3 or self.lake.lake.on_s3
        memory_mb = max(LEAST_MEMORY_MB, self.config.memory_mb)
        with scratch(self.source.lake.s3, on_s3=on_s3, memory_mb=memory_mb, threads=1) as connection:
            # The chosen traces are held and the wide rows stream past them, never the other way round.
            connection.execute("SET disabled_optimizers = 'join_order,build_side_probe_side'")
            yield connection


def _in_lots(chosen: str, size: int) -> str:
    """Traces with the number of their lot, in their order: about so many spans, or one huge trace.

    A trace of more than one organization, by its id, is in one lot: how far a destination is, is told by ids alone.
    """
    return (
        "SELECT * EXCLUDE (place), dense_rank() OVER (ORDER BY place) - 1 AS lot FROM ("
        f"SELECT * EXCLUDE (total), total > {size} AS huge, "
        f"2 * ((sum(spans) OVER (ORDER BY trace_id) - total) // {size}) + (total > {size})::INTEGER AS place "
        f"FROM (SELECT *, sum(spans) OVER (PARTITION BY trace_id) AS total FROM ({chosen})))"
    )


def _schema(connection: duckdb.DuckDBPyConnection) -> pa.Schema:
    """The columns of a lot's file."""
    listed = ", ".join(f"NULL::{kind} AS {quoted(name)}" for name, kind in ROW_KINDS)
    made = f"SELECT {listed}, NULL::DOUBLE AS adjusted_count, NULL::VARCHAR AS threshold"
    return connection.execute(made).to_arrow_reader(1).schema


def _by_lot(batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Rows by the lot that they belong to."""
    if not batch.num_rows:
        return
    numbers = batch.column("lot").to_numpy()
    order = np.argsort(numbers, kind="stable")
    rows = batch.drop_columns(["lot"]).take(pa.array(order))
    edges = np.flatnonzero(np.diff(numbers[order])) + 1
    for first, end in zip([0, *edges], [*edges, batch.num_rows], strict=True):
        yield int(numbers[order[first]]), rows.slice(first, end - first)
