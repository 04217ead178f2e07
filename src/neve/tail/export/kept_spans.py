"""Read the spans of kept traces with all their columns, once for each cycle, for all destinations.

They stream past DuckDB, which knows the kept traces, into files of whole traces. A trace that is too large for a
batch has a file of its own. Each destination gets the files in the order of the traces, so that it resumes at its
cursor. Memory holds one file at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import And, EqualTo, GreaterThan, GreaterThanOrEqual, IsNull, LessThanOrEqual, Or, Reference
from pyiceberg.types import TimestamptzType

from neve.lake.calendar import EPOCH
from neve.lake.duckdb import open_scratch_database, quote_literal
from neve.lake.duckdb_sql import format_file_list, quote_name
from neve.lake.read.snapshot_files import EVERY_ROW, scan_paths
from neve.logger import get_logger
from neve.model.tables import SPANS
from neve.tail.decisions import LATE, SAMPLED
from neve.tail.export.cursor import Position
from neve.tail.new_files import find_all_repeats, find_new_files, list_all_files, split_into_chunks
from neve.tail.policy.evaluate.thresholds import read_threshold, stamp_adjusted_count, write_thresholds
from neve.tail.policy.evaluate.traces import MAX_THRESHOLD
from neve.tail.span_repeats import find_repeats
from neve.tail.span_source import OWN_COLUMNS, ROW_TYPES

if TYPE_CHECKING:
    from collections.abc import Sequence

    import duckdb
    import numpy.typing as npt
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table

    from neve.lake.lake import Lake
    from neve.tail.config import TailConfig
    from neve.tail.new_files import SpanFile
    from neve.tail.span_source import SpanSource

    Places = npt.NDArray[np.int64]

TIME_COLUMN = "timestamp"  # of the lake's own tables: the start time, truncated to microseconds
MARGIN_BEFORE = timedelta(milliseconds=1)
# Clocks differ, and a span may begin after the latest end of its trace. No span begins long after it arrived.
MARGIN_AFTER = timedelta(days=1)


@dataclass(frozen=True)
class SpanTimeRange:
    """Time range of spans, from the earliest start to the last arrival, if that is known."""

    first_ns: int
    last_us: int | None

    def filter(self, schema: Schema, start: str) -> BooleanExpression | None:
        """Return a row filter for the range on a table, or `None` if its columns don't support one."""
        named = {field.name: field.field_type for field in schema.fields}
        column = TIME_COLUMN if named.keys() >= OWN_COLUMNS else start
        if not isinstance(named.get(column), TimestamptzType):
            return None
        term = Reference(column)
        first = EPOCH + timedelta(microseconds=self.first_ns // 1000) - MARGIN_BEFORE
        found: BooleanExpression = GreaterThanOrEqual(term=term, value=first.isoformat())
        if self.last_us is not None:
            last = EPOCH + timedelta(microseconds=self.last_us) + MARGIN_AFTER
            found = And(found, LessThanOrEqual(term=term, value=last.isoformat()))
        return Or(found, IsNull(term=term))


class SortedFile:
    """Memory-mapped file of rows, so that only requested rows are read."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._path = path
        self._writer = pa.ipc.new_file(str(path), schema)
        self.rows = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows."""
        self._writer.write_batch(batch)
        self.rows += batch.num_rows

    def close(self) -> None:
        """Finish writing, after which the file can be read."""
        self._writer.close()

    def sort(self, keys: Sequence[str]) -> OrderedRows:
        """Return the rows, sorted by some columns."""
        reader = pa.ipc.open_file(pa.memory_map(str(self._path)))
        batches = [reader.get_batch(number) for number in range(reader.num_record_batches)]
        keyed = pa.Table.from_batches(
            [batch.select(list(keys)) for batch in batches], _select_fields(reader.schema, keys)
        )
        order = np.asarray(pc.sort_indices(keyed, [(key, "ascending") for key in keys]), dtype=np.int64)
        return OrderedRows(batches, order)


class OrderedRows:
    """Rows of several batches in a given order."""

    def __init__(self, batches: Sequence[pa.RecordBatch], order: Places) -> None:
        self._batches, self._order = batches, order
        self._starts = np.cumsum([0, *(batch.num_rows for batch in batches)])

    def __len__(self) -> int:
        return len(self._order)

    def column(self, name: str) -> pa.Array:
        """Return one column of all rows, which should be a narrow one."""
        whole = pa.chunked_array([batch.column(name) for batch in self._batches])
        return whole.combine_chunks().take(pa.array(self._order))

    def slice(self, first: int, end: int) -> pa.Table:
        """Return a range of rows.

        Rows are taken batch by batch, as Arrow would first concatenate all chunks of a chunked column.
        """
        places = self._order[first:end]
        homes = np.searchsorted(self._starts, places, side="right") - 1
        together = np.argsort(homes, kind="stable")
        parts = [
            self._batches[home].take(pa.array(places[homes == home] - self._starts[home])) for home in np.unique(homes)
        ]
        return pa.Table.from_batches(parts).combine_chunks().take(pa.array(np.argsort(together, kind="stable")))


def _select_fields(schema: pa.Schema, names: Sequence[str]) -> pa.Schema:
    return pa.schema([schema.field(name) for name in names])


BATCH_SPANS = 20_000
SORT_COLUMNS = ("trace_id", "organization_id", "start_time_unix_nano", "span_id")
Batches = Iterator[tuple[Position, pa.RecordBatch]]


@dataclass(frozen=True)
class TraceFile:
    """Spans of whole traces, or of a single huge trace."""

    file: SortedFile
    huge: bool


@dataclass(frozen=True)
class CycleSpans:
    """Spans that a cycle kept: all of them, or those of some traces if there are many.

    `missing` is the number of spans that existed when the traces were decided and were not found.
    """

    number: int
    shards: Sequence[TraceFile]
    missing: int = 0

    def batches(self, after: Position | None = None) -> Batches:
        """Yield stamped spans of whole traces, each batch with the position after it.

        A trace that is too large for a batch is yielded alone and in parts. Parts before the cursor are yielded again,
        and skipped by the export.
        """
        begin = after.trace_id if after is not None and after.sequence == self.number else ""
        for shard in self.shards:
            if shard.file.rows:
                rows = shard.file.sort(SORT_COLUMNS)
                yield from self._parts(rows) if shard.huge else self._whole_traces(rows, bytes.fromhex(begin))

    def _parts(self, rows: OrderedRows) -> Batches:
        """Yield the parts of a huge trace."""
        for part, first in enumerate(range(0, len(rows), BATCH_SPANS)):
            found = rows.slice(first, first + BATCH_SPANS)
            yield Position(self.number, found.column("trace_id")[0].as_py().hex(), part), _stamp_rows(found)

    def _whole_traces(self, rows: OrderedRows, begin: bytes) -> Batches:
        """Yield batches of the traces after a given one."""
        traces = rows.column("trace_id")
        first = pc.sum(pc.less_equal(traces, pa.scalar(begin, traces.type))).as_py()
        for end in _find_batch_ends(traces, first, BATCH_SPANS):
            yield Position(self.number, traces[end - 1].as_py().hex()), _stamp_rows(rows.slice(first, end))
            first = end


def _find_batch_ends(traces: pa.Array, first: int, size: int) -> Iterator[int]:
    """Yield the ends of batches: each is at the end of a trace, and after at least `size` rows.

    >>> list(_find_batch_ends(pa.array([b"a", b"b", b"b", b"b", b"c"]), 0, 2))
    [4, 5]
    """
    ends = pc.run_end_encode(traces).run_ends.to_numpy()
    while first < len(traces):
        place = min(int(np.searchsorted(ends, first + size)), len(ends) - 1)
        first = int(ends[place])
        yield first


def _stamp_rows(rows: pa.Table) -> pa.RecordBatch:
    """Return rows of the table `spans` with the number of traces that each one represents."""
    batch = rows.select(SPANS.schema.names).cast(SPANS.schema).combine_chunks().to_batches()[0]
    texts = rows.column("threshold").combine_chunks().dictionary_encode()
    known = [read_threshold(text) if text is not None else None for text in texts.dictionary.to_pylist()]
    values = np.array([MAX_THRESHOLD if value is None else value for value in [*known, None]], dtype=np.uint64)
    places = np.asarray(texts.indices.fill_null(len(known)))
    states = write_thresholds(batch.column("trace_state"), values[places])
    return stamp_adjusted_count(batch, rows.column("adjusted_count").combine_chunks(), states)


CHOSEN_TRACES = "chosen"
MIN_MEMORY_MB = 256  # whole rows are wider than the columns for decisions
READ_SPANS = 10_000  # wide rows that are sorted into their shards at once
SHARDS_AT_ONCE = 64  # open files; spans are read again for each further group of shards

log = get_logger(__name__)


@dataclass(frozen=True)
class KeptSpans:
    """Reader of the spans that a selector kept."""

    lake: Lake
    source: SpanSource
    config: TailConfig
    decisions: Table

    def cycles(self, after: int) -> list[int]:
        """List the cycles after a given one that kept traces, in order."""
        files = self._files(GreaterThan(term=Reference("cycle"), value=after))
        if not files:
            return []
        with self._scratch() as connection:
            rows = connection.execute(
                f"SELECT DISTINCT cycle FROM read_parquet({format_file_list(files)}) "
                f"WHERE cycle > {after} AND {self._own_decisions_sql} ORDER BY cycle"
            ).fetchall()
        return [int(row[0]) for row in rows]

    def cycle(self, number: int, begin: str = "") -> Iterator[CycleSpans]:
        """Yield the spans that one cycle kept, from a trace on, in groups of shards that are deleted one by one."""
        files = self._files(EqualTo(term=Reference("cycle"), value=number))
        with self._scratch() as connection:
            connection.execute(
                f"CREATE TABLE {CHOSEN_TRACES} AS "
                f"{_number_shards_sql(self._select_traces_sql(files, number, begin), BATCH_SPANS)}"
            )
            (shards,) = connection.execute(f"SELECT coalesce(max(shard) + 1, 0) FROM {CHOSEN_TRACES}").fetchone() or (
                0,
            )
            for first in range(0, shards, SHARDS_AT_ONCE):
                with TemporaryDirectory(prefix="neve-tail-export-") as folder:
                    yield self._write_shards(
                        connection, number, range(first, min(first + SHARDS_AT_ONCE, shards)), folder
                    )

    def _select_traces_sql(self, files: list[str], number: int, begin: str) -> str:
        return (
            f"SELECT organization_id, trace_id, kind = {quote_literal(LATE)} AS late, adjusted_count, threshold, "
            f"CASE WHEN kind = {quote_literal(LATE)} THEN late_spans ELSE span_count END AS spans, "
            "epoch_us(last_seen) AS last_us, start_time_unix_nano AS first_ns, source_snapshot_id, "
            f"previous_snapshot_id FROM read_parquet({format_file_list(files)}) "
            f"WHERE cycle = {number} AND {self._own_decisions_sql} AND trace_id >= unhex({quote_literal(begin)})"
        )

    @property
    def _own_decisions_sql(self) -> str:
        return (
            f"selector = {quote_literal(self.config.name)} AND decision = {quote_literal(SAMPLED)} AND taken_by IS NULL"
        )

    def _write_shards(
        self, connection: duckdb.DuckDBPyConnection, number: int, numbers: range, folder: str
    ) -> CycleSpans:
        """Write the spans of some shards to their files."""
        within = f"shard BETWEEN {numbers[0]} AND {numbers[-1]}"
        huge = connection.execute(f"SELECT DISTINCT shard FROM {CHOSEN_TRACES} WHERE {within} AND huge").fetchnumpy()[
            "shard"
        ]
        schema = _read_schema(connection)
        shards = {one: TraceFile(SortedFile(Path(folder) / str(one), schema), one in huge) for one in numbers}
        groups = connection.execute(
            "SELECT late, source_snapshot_id, previous_snapshot_id, min(first_ns), max(last_us), sum(spans)::BIGINT "
            f"FROM {CHOSEN_TRACES} WHERE {within} GROUP BY ALL"
        ).fetchall()
        missing = 0
        for late, snapshot, previous, first_ns, last_us, expected in groups:
            table = self.source.now(snapshot) if self._has_snapshot(snapshot) else self.source.now()
            period = SpanTimeRange(first_ns, last_us if self.config.clock == "arrival" else None)
            files = list(
                find_new_files(table, previous, known=True).files if late else self._files_in_period(table, period)
            )
            seen = "NULL" if snapshot is None else snapshot
            mine = f"{within} AND late = {late} AND source_snapshot_id IS NOT DISTINCT FROM {seen}"
            chosen = f"(SELECT * FROM {CHOSEN_TRACES} WHERE {mine})"
            found = sum(self._distribute(connection, some, chosen, shards) for some in self._split_files(files))
            if not late and expected > found:
                missing += max(0, expected - found - self._count_repeats(connection, table, chosen))
        for shard in shards.values():
            shard.file.close()
        if missing:
            log.warning(
                "sampled spans are missing in the source table", selector=self.config.name, cycle=number, spans=missing
            )
        return CycleSpans(number, list(shards.values()), missing)

    def _distribute(
        self, connection: duckdb.DuckDBPyConnection, files: list[SpanFile], chosen: str, shards: dict[int, TraceFile]
    ) -> int:
        """Read the spans of the chosen traces from some files into the shards, and return their counted number."""
        listed = ", ".join(f"s.{quote_name(name)}::{kind} AS {quote_name(name)}" for name, kind in ROW_TYPES)
        reader = connection.execute(
            f"SELECT {listed}, c.adjusted_count, c.threshold, c.shard "
            f"FROM {self.source.reader.table_rows(files)} AS s "
            f"JOIN {chosen} AS c ON s.organization_id = c.organization_id AND s.trace_id = c.trace_id"
        ).to_arrow_reader(READ_SPANS)
        found = 0
        for batch in reader:
            found += batch.num_rows
            if self.source.summary.counts_repeats:
                found += pc.sum(batch.column("dropped_repeats")).as_py() or 0
            for shard, rows in _split_by_shard(batch):
                shards[shard].file.write(rows)
        return found

    def _count_repeats(self, connection: duckdb.DuckDBPyConnection, table: Table, chosen: str) -> int:
        """Return the number of repeats of the chosen traces, which were counted and are no rows of the table."""
        repeats = find_repeats(self.source, find_all_repeats(table))
        if not repeats:
            return 0
        mine = f"FROM {repeats} SEMI JOIN {chosen} USING (organization_id, trace_id)"
        found = connection.execute(f"SELECT count(*) {mine}").fetchone()
        return int(found[0]) if found else 0

    def _has_snapshot(self, snapshot_id: int | None) -> bool:
        return snapshot_id is not None and self.source.now().snapshot_by_id(snapshot_id) is not None

    def _files_in_period(self, table: Table, period: SpanTimeRange) -> Iterator[SpanFile]:
        """Return the files that may contain spans of a time range, or all files if the table has no bounds for it."""
        row_filter = period.filter(table.schema(), self.source.reader.columns.names["start"]) or EVERY_ROW
        return iter(list_all_files(table, None, "to look for kept traces", row_filter).files)

    def _split_files(self, files: list[SpanFile]) -> Iterator[list[SpanFile]]:
        return (list(chunk.files) for chunk in split_into_chunks(files, self.config.chunk_rows))

    def _files(self, row_filter: BooleanExpression) -> list[str]:
        """List the current files of decisions, as cycles continue while an exporter waits for its next run."""
        return scan_paths(self.decisions.refresh(), row_filter)

    @contextmanager
    def _scratch(self) -> Iterator[duckdb.DuckDBPyConnection]:
        on_s3 = self.source.on_s3 or self.lake.lake.on_s3
        memory_mb = max(MIN_MEMORY_MB, self.config.memory_mb)
        with open_scratch_database(self.source.lake.s3, on_s3=on_s3, memory_mb=memory_mb, threads=1) as connection:
            # The chosen traces are the build side and the wide rows stream past them, never the reverse.
            connection.execute("SET disabled_optimizers = 'join_order,build_side_probe_side'")
            yield connection


def _number_shards_sql(chosen: str, size: int) -> str:
    """Build SQL that assigns traces in order to shards: each of about `size` spans, or of one huge trace.

    Traces of several organizations with the same id share a shard, as the position of a destination has only the id.
    """
    return (
        "SELECT * EXCLUDE (place), dense_rank() OVER (ORDER BY place) - 1 AS shard FROM ("
        f"SELECT * EXCLUDE (total), total > {size} AS huge, "
        f"2 * ((sum(spans) OVER (ORDER BY trace_id) - total) // {size}) + (total > {size})::INTEGER AS place "
        f"FROM (SELECT *, sum(spans) OVER (PARTITION BY trace_id) AS total FROM ({chosen})))"
    )


def _read_schema(connection: duckdb.DuckDBPyConnection) -> pa.Schema:
    """Return the schema of a shard's file."""
    listed = ", ".join(f"NULL::{kind} AS {quote_name(name)}" for name, kind in ROW_TYPES)
    made = f"SELECT {listed}, NULL::DOUBLE AS adjusted_count, NULL::VARCHAR AS threshold"
    return connection.execute(made).to_arrow_reader(1).schema


def _split_by_shard(batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Split rows by shard."""
    if not batch.num_rows:
        return
    numbers = batch.column("shard").to_numpy()
    order = np.argsort(numbers, kind="stable")
    rows = batch.drop_columns(["shard"]).take(pa.array(order))
    edges = np.flatnonzero(np.diff(numbers[order])) + 1
    for first, end in zip([0, *edges], [*edges, batch.num_rows], strict=True):
        yield int(numbers[order[first]]), rows.slice(first, end - first)
