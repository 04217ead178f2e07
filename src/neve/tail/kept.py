"""The spans of kept traces, with all their columns: read once for each cycle, for all destinations.

What a cycle kept is gathered into a DuckDB that works through a file; from there every destination gets it in the order
of the traces, so that each can go on where it was.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import And, EqualTo, GreaterThan, GreaterThanOrEqual, LessThanOrEqual, Reference
from pyiceberg.types import TimestamptzType

from neve.lake.calendar import EPOCH
from neve.lake.duck import literal
from neve.lake.manifest_sources import readable
from neve.model.tables import SPANS
from neve.tail.decisions import LATE, SAMPLED
from neve.tail.export.position import Position
from neve.tail.export.stamp import stamp
from neve.tail.news import SpanFile, chunks_of, everything, news_since
from neve.tail.policy.thresholds import read_threshold
from neve.tail.policy.traces import MAX_THRESHOLD
from neve.tail.policy.tracestate import with_thresholds
from neve.tail.rows import ROW_KINDS
from neve.tail.scratch import scratch

if TYPE_CHECKING:
    import duckdb
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.table import Table

    from neve.lake.lake import Lake
    from neve.tail.config import TailConfig
    from neve.tail.source import Source

BATCH_SPANS = 20_000
CHOSEN, FOUND = "chosen", "found"
TIME = "timestamp"
Batches = Iterator[tuple[Position, pa.RecordBatch]]


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
                f"SELECT DISTINCT cycle FROM read_parquet({_list(files)}) "
                f"WHERE cycle > {after} AND {self._mine} ORDER BY cycle"
            ).fetchall()
        return [int(row[0]) for row in rows]

    @contextmanager
    def cycle(self, number: int) -> Iterator[CycleSpans]:
        """The spans that one cycle kept."""
        files = self._files(EqualTo(term=Reference("cycle"), value=number))
        with self._scratch() as connection:
            connection.execute(
                f"CREATE TABLE {CHOSEN} AS SELECT organization_id, trace_id, kind, adjusted_count, threshold, "
                "source_snapshot_id, previous_snapshot_id, start_time_unix_nano AS first_ns, "
                f"end_time_unix_nano AS last_ns FROM read_parquet({_list(files)}) "
                f"WHERE cycle = {number} AND {self._mine}"
            )
            self._find(connection)
            yield CycleSpans(connection, number)

    @property
    def _mine(self) -> str:
        return f"selector = {literal(self.config.name)} AND decision = {literal(SAMPLED)} AND taken_by IS NULL"

    def _find(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Put the spans of the chosen traces into a table; each read takes only files that may hold some."""
        connection.execute(f"CREATE TABLE {FOUND} ({', '.join(f'{name} {kind}' for name, kind in self._kinds())})")
        groups = connection.execute(
            f"SELECT kind = {literal(LATE)}, source_snapshot_id, previous_snapshot_id, min(first_ns), max(last_ns) "
            f"FROM {CHOSEN} GROUP BY ALL"
        ).fetchall()
        for late, snapshot, previous, first, last in groups:
            table = self.source.now(snapshot) if self._knows(snapshot) else self.source.now()
            files = list(news_since(table, previous, known=True).files if late else _between(table, first, last))
            if not files:
                continue
            reader = self.source.reader_of(files)
            chosen = f"(SELECT * FROM {CHOSEN} WHERE (kind = {literal(LATE)}) = {bool(late)})"
            for some in _portions(files, self.config.chunk_rows):
                connection.execute(
                    f"INSERT INTO {FOUND} BY NAME SELECT s.*, c.adjusted_count, c.threshold "
                    f"FROM {reader.table_rows(some)} AS s JOIN {chosen} AS c USING (organization_id, trace_id)"
                )

    def _kinds(self) -> list[tuple[str, str]]:
        return [*((name, kind) for name, kind in ROW_KINDS), ("adjusted_count", "DOUBLE"), ("threshold", "VARCHAR")]

    def _knows(self, snapshot_id: int | None) -> bool:
        return snapshot_id is not None and self.source.now().snapshot_by_id(snapshot_id) is not None

    def _files(self, row_filter: BooleanExpression) -> list[str]:
        return [task.file.file_path for task in self.decisions.scan(row_filter=row_filter).plan_files()]

    @contextmanager
    def _scratch(self) -> Iterator[duckdb.DuckDBPyConnection]:
        on_s3 = self.source.on_s3 or self.lake.lake.location.startswith("s3")
        config = self.config
        with scratch(
            self.source.lake.s3, on_s3=on_s3, memory_mb=config.memory_mb, threads=config.threads
        ) as connection:
            yield connection


@dataclass(frozen=True)
class CycleSpans:
    """The spans that a cycle kept, gathered."""

    connection: duckdb.DuckDBPyConnection
    number: int

    def batches(self, after: Position | None = None) -> Batches:
        """Stamped spans, whole traces at a time, each with the position that is reached with it.

        A trace that is too large for a batch comes alone and in parts; those that a cursor has passed come again, and
        are passed over by it.
        """
        begin = after.trace_id if after is not None and after.sequence == self.number else ""
        for huge in [*self._huge(begin), None]:
            if begin != huge:
                yield from self._between(begin, huge)
            if huge is not None:
                rows = self._rows(f"trace_id = unhex({literal(huge)})")
                yield from ((Position(self.number, huge, part), _stamped(some)) for part, some in enumerate(rows))
                begin = huge

    def _between(self, begin: str, end: str | None) -> Batches:
        """Traces after one and before another."""
        upper = f" AND trace_id < unhex({literal(end)})" if end is not None else ""
        for rows in _whole_traces(self._rows(f"trace_id > unhex({literal(begin)}){upper}")):
            last = rows.column("trace_id")[rows.num_rows - 1].as_py().hex()
            yield Position(self.number, last), _stamped(rows)

    def _huge(self, begin: str) -> list[str]:
        rows = self.connection.execute(
            f"SELECT lower(hex(trace_id)) FROM {FOUND} WHERE trace_id >= unhex({literal(begin)}) "
            f"GROUP BY trace_id HAVING count(*) > {2 * BATCH_SPANS} ORDER BY trace_id"
        ).fetchall()
        return [row[0] for row in rows]

    def _rows(self, condition: str) -> Iterator[pa.Table]:
        order = "trace_id, organization_id, start_time_unix_nano, span_id"
        reader = self.connection.cursor().execute(f"SELECT * FROM {FOUND} WHERE {condition} ORDER BY {order}")
        batches = reader.to_arrow_reader(BATCH_SPANS)
        return (pa.Table.from_batches([batch]) for batch in batches if batch.num_rows)


def _stamped(rows: pa.Table) -> pa.RecordBatch:
    """Rows of the table `spans` that say how many traces theirs stands for."""
    batch = rows.select(SPANS.schema.names).cast(SPANS.schema).combine_chunks().to_batches()[0]
    texts = rows.column("threshold").combine_chunks().dictionary_encode()
    known = [read_threshold(text) if text is not None else None for text in texts.dictionary.to_pylist()]
    values = np.array([MAX_THRESHOLD if value is None else value for value in [*known, None]], dtype=np.uint64)
    places = np.asarray(texts.indices.fill_null(len(known)))
    states = with_thresholds(batch.column("trace_state"), values[places])
    return stamp(batch, rows.column("adjusted_count").combine_chunks(), states)


def _whole_traces(parts: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Rows cut between traces."""
    held: list[pa.Table] = []
    for part in parts:
        rows = pa.concat_tables([*held, part])
        last = pc.equal(rows.column("trace_id"), rows.column("trace_id")[rows.num_rows - 1])
        cut = rows.num_rows - pc.sum(last).as_py()
        if cut:
            yield rows.slice(0, cut)
        held = [rows.slice(cut)]
    yield from held


def _between(table: Table, first_ns: int, last_ns: int) -> Iterator[SpanFile]:
    """The files that may hold spans of some time; all of them where the table does not tell."""
    names = {field.name: field.field_type for field in table.schema().fields}
    whole = everything(table, None, "to look for kept traces").files
    if not isinstance(names.get(TIME), TimestamptzType):
        return iter(whole)
    moments = [EPOCH + timedelta(microseconds=nanos // 1000 + shift) for nanos, shift in ((first_ns, -1), (last_ns, 1))]
    row_filter = And(
        GreaterThanOrEqual(term=Reference(TIME), value=moments[0].isoformat()),
        LessThanOrEqual(term=Reference(TIME), value=max(moments).isoformat()),
    )
    paths = {task.file.file_path for task in table.scan(row_filter=row_filter).plan_files()}
    return (file for file in whole if file.path in paths)


def _portions(files: list[SpanFile], most_rows: int) -> Iterator[list[SpanFile]]:
    return (list(chunk.files) for chunk in chunks_of(files, most_rows))


def _list(paths: list[str]) -> str:
    return f"[{', '.join(literal(readable(path)) for path in paths)}]"
