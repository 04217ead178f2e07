"""The spans of kept traces, with all their columns: read once for each cycle, for all destinations.

What a cycle kept is gathered into a DuckDB that works through a file; from there every destination gets it in the order
of the traces, so that each can go on where it was.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from pyiceberg.expressions import And, EqualTo, GreaterThan, GreaterThanOrEqual, LessThanOrEqual, Reference
from pyiceberg.types import TimestamptzType

from neve.lake.calendar import EPOCH
from neve.lake.duck import literal
from neve.lake.duck_files import file_list
from neve.tail.cycle_spans import FOUND, CycleSpans
from neve.tail.decisions import LATE, SAMPLED
from neve.tail.news import SpanFile, chunks_of, everything, news_since
from neve.tail.rows import ROW_KINDS
from neve.tail.scratch import scratch

if TYPE_CHECKING:
    from collections.abc import Iterator

    import duckdb
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.table import Table

    from neve.lake.lake import Lake
    from neve.tail.config import TailConfig
    from neve.tail.source import Source

CHOSEN = "chosen"
TIME = "timestamp"


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

    @contextmanager
    def cycle(self, number: int) -> Iterator[CycleSpans]:
        """The spans that one cycle kept."""
        files = self._files(EqualTo(term=Reference("cycle"), value=number))
        with self._scratch() as connection:
            connection.execute(
                f"CREATE TABLE {CHOSEN} AS SELECT organization_id, trace_id, kind, adjusted_count, threshold, "
                "source_snapshot_id, previous_snapshot_id, start_time_unix_nano AS first_ns, "
                f"end_time_unix_nano AS last_ns FROM read_parquet({file_list(files)}) "
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
