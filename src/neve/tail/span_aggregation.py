"""First half of a cycle: aggregate new spans by trace and merge them with open and decided traces.

The tables of a cycle are in a scratch DuckDB that works through a file, so that memory does not grow with the
number of traces. Spans are aggregated in this process, or by the same statement in Spark tasks.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING
from uuid import uuid4

import pyarrow.parquet as pq

from neve.lake.duckdb import connect, quote_literal
from neve.lake.duckdb_sql import format_file_list
from neve.lake.spark.tasks import count_slices, run_tasks
from neve.lake.storage.filesystem import resolve_filesystem
from neve.tail.span_order import stored_extents_sql

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import duckdb

    from neve.lake.config import S3Config
    from neve.lake.lake import Lake
    from neve.tail.config import TailConfig
    from neve.tail.new_files import FileChunk, NewFiles
    from neve.tail.span_source import SpanReader
    from neve.tail.trace_summary import SummaryQuery


NEW_TRACES, OPEN_BEFORE, KNOWN_TRACES = "new_traces", "open_before", "known"
MERGED_TRACES, LATE_TRACES = "merged", "late"
# Columns of a decision that are needed when late spans of its trace arrive.
DECISION_COLUMNS = {
    "decision": "VARCHAR",
    "policy": "VARCHAR",
    "revision": "INTEGER",
    "adjusted_count": "DOUBLE",
    "threshold": "VARCHAR",
    "taken_by": "VARCHAR",
    "policies_hash": "VARCHAR",
}
SLICE_ROWS = 150_000  # summaries that are merged at once, as a merge needs memory for each trace
_TRACE_KEY = "(organization_id, trace_id)"  # two organizations may have traces of the same id


@dataclass(frozen=True)
class CycleTables:
    """Tables of one cycle: `new_traces`, then `merged` (undecided) and `late` (decided before)."""

    connection: duckdb.DuckDBPyConnection
    summary: SummaryQuery

    def begin(self) -> None:
        """Create the empty tables."""
        kinds = self._kinds()
        for name in (NEW_TRACES, OPEN_BEFORE):
            self.connection.execute(f"CREATE TABLE {name} ({', '.join(kinds)})")
        decided = [f"{name} {kind}" for name, kind in DECISION_COLUMNS.items()]
        self.connection.execute(f"CREATE TABLE {KNOWN_TRACES} ({', '.join([*kinds, *decided])})")

    def add_files(self, reader: SpanReader, chunk: FileChunk) -> None:
        """Add the summaries of a chunk of files."""
        spans = reader.spans(chunk.files, self.summary.span_columns)
        self.connection.execute(f"INSERT INTO {NEW_TRACES} BY NAME {self.summary.of_spans(spans)}")

    def add_relation(self, reader: SpanReader, relation: str) -> None:
        """Add the summaries of rows of a relation in this DuckDB."""
        spans = reader.spans_of(relation, self.summary.span_columns)
        self.connection.execute(f"INSERT INTO {NEW_TRACES} BY NAME {self.summary.of_spans(spans)}")

    def add_repeats(self, repeats: str) -> None:
        """Add the summaries of repeats of stored spans, a subquery. Nothing is added if it is empty."""
        if repeats:
            self.connection.execute(f"INSERT INTO {NEW_TRACES} BY NAME {self.summary.of_repeats(repeats)}")

    def add_summaries(self, paths: Sequence[str]) -> None:
        """Add summaries from files that tasks wrote."""
        if paths:
            self.connection.execute(
                f"INSERT INTO {NEW_TRACES} BY NAME SELECT * FROM read_parquet({format_file_list(paths)})"
            )

    def add_open_traces(self, paths: Sequence[str]) -> None:
        """Add the traces that were open after the last cycle."""
        if paths:
            self.connection.execute(
                f"INSERT INTO {OPEN_BEFORE} BY NAME "
                f"SELECT {self.select_stored()} FROM read_parquet({format_file_list(paths)})"
            )

    def add_decisions(self, paths: Sequence[str], selector: str, before_cycle: int, since_us: int | None) -> None:
        """Add the newest earlier decision of each trace with new spans.

        Decisions before `since_us` are forgotten. A trace that is open again stays open.
        """
        if not paths:
            return
        since = "" if since_us is None else f"AND epoch_us(decided_at) >= {since_us} "
        rows = (
            f"SELECT {self.select_stored()}, {', '.join(DECISION_COLUMNS)} "
            f"FROM read_parquet({format_file_list(paths)}) "
            f"WHERE selector = {quote_literal(selector)} AND cycle < {before_cycle} "
            f"{since}AND {_TRACE_KEY} IN (SELECT {_TRACE_KEY} FROM {NEW_TRACES}) "
            f"AND {_TRACE_KEY} NOT IN (SELECT {_TRACE_KEY} FROM {OPEN_BEFORE})"
        )
        newest = "row_number() OVER (PARTITION BY organization_id, trace_id ORDER BY cycle DESC, revision DESC) = 1"
        self.connection.execute(f"INSERT INTO {KNOWN_TRACES} BY NAME {rows} QUALIFY {newest}")

    @property
    def new_spans(self) -> int:
        """Number of aggregated spans."""
        return self._fetch_number(f"SELECT coalesce(sum(span_count), 0)::BIGINT FROM {NEW_TRACES}")

    def merge(self, *, whole: bool) -> None:
        """Merge new and known summaries: undecided traces into `merged`, the others into `late`.

        With `whole`, the new summaries are of all spans, including those that were seen before.
        """
        self._remove_lone_repeats()
        count = self._fetch_number(f"SELECT (SELECT count(*) FROM {NEW_TRACES}) + (SELECT count(*) FROM {OPEN_BEFORE})")
        slices = max(1, -(-count // SLICE_ROWS))
        for place in range(slices):
            mine = f"hash(trace_id) % {slices} = {place}"
            every = f"(SELECT * FROM {NEW_TRACES} WHERE {mine} UNION ALL SELECT * FROM {OPEN_BEFORE} WHERE {mine})"
            undecided = f"FROM {every} AS t ANTI JOIN {KNOWN_TRACES} USING (organization_id, trace_id)"
            make = f"CREATE TABLE {MERGED_TRACES} AS" if place == 0 else f"INSERT INTO {MERGED_TRACES}"
            self.connection.execute(f"{make} {self.summary.of_summaries(f'(SELECT t.* {undecided})')}")
            self._merge_late(mine, whole=whole, first=place == 0)
        for name in (NEW_TRACES, OPEN_BEFORE):
            self.connection.execute(f"DROP TABLE {name}")

    def _remove_lone_repeats(self) -> None:
        """Remove repeats of traces that are neither new nor open, and whose decision is forgotten.

        Only the spans that they repeat would tell what such a trace is.
        """
        known = " UNION ALL ".join(
            f"SELECT {_TRACE_KEY} FROM {name}{where}"
            for name, where in ((NEW_TRACES, " WHERE root IS NOT NULL"), (OPEN_BEFORE, ""), (KNOWN_TRACES, ""))
        )
        if self._fetch_number(f"SELECT count(*) FROM {NEW_TRACES} WHERE root IS NULL"):
            self.connection.execute(f"DELETE FROM {NEW_TRACES} WHERE root IS NULL AND {_TRACE_KEY} NOT IN ({known})")

    def _merge_late(self, mine: str, *, whole: bool, first: bool) -> None:
        known = f"{KNOWN_TRACES}.organization_id = n.organization_id AND {KNOWN_TRACES}.trace_id = n.trace_id"
        new = f"(SELECT n.* FROM (SELECT * FROM {NEW_TRACES} WHERE {mine}) AS n SEMI JOIN {KNOWN_TRACES} ON {known})"
        kept = ", ".join(self.summary.columns)
        both = new if whole else f"({new[1:-1]} UNION ALL SELECT {kept} FROM {KNOWN_TRACES} WHERE {mine})"
        make = f"CREATE TABLE {LATE_TRACES} AS" if first else f"INSERT INTO {LATE_TRACES}"
        self.connection.execute(
            f"{make} SELECT n.*, {', '.join(f'k.{name}' for name in DECISION_COLUMNS)}, "
            f"n.span_count - k.span_count AS late_spans FROM ({self.summary.of_summaries(both)}) AS n "
            f"JOIN {KNOWN_TRACES} AS k USING (organization_id, trace_id) WHERE n.span_count > k.span_count"
        )

    def _kinds(self) -> Iterable[str]:
        numbers = dict.fromkeys(self.summary.columns, "BIGINT")
        others = {
            "organization_id": "VARCHAR",
            "trace_id": "BLOB",
            "has_error": "BOOLEAN",
            "root": "STRUCT(place BIGINT, service VARCHAR, operation VARCHAR)",
        }
        lists = {name: "VARCHAR[]" for name in self.summary.columns if name.startswith("key_")}
        lists |= {"extents": "BIGINT[]"} if self.summary.latencies else {}
        return [f"{name} {kind}" for name, kind in {**numbers, **others, **lists}.items()]

    def select_stored(self) -> str:
        """Return the SELECT list of a summary over the columns of the lake's own tables."""
        columns = {
            "start_ns": "start_time_unix_nano",
            "end_ns": "end_time_unix_nano",
            "first_us": "epoch_us(first_seen)",
            "last_us": "epoch_us(last_seen)",
            "root_us": "epoch_us(root_seen)",
            "root": "{place: root_order, service: service_name, operation: operation_name}",
            **{f"facts_{word}": f"facts[{word + 1}]" for word in range(self.summary.words)},
            **{f"key_{place}": f"sampling_keys[{place + 1}]" for place in range(len(self.summary.policies.keys))},
            "extents": stored_extents_sql(self.summary.words),
        }
        return ", ".join(f"{columns[name]} AS {name}" if name in columns else name for name in self.summary.columns)

    def _fetch_number(self, sql: str) -> int:
        row = self.connection.execute(sql).fetchone()
        return int(row[0]) if row else 0


DUCKDB, SPARK = "duckdb", "spark"


def choose_engine(config: TailConfig, new_files: NewFiles) -> str:
    """Return the engine for new files."""
    if config.engine != "auto":
        return config.engine
    return SPARK if new_files.bytes > config.spark_bytes else DUCKDB


def aggregate_locally(
    tables: CycleTables, reader: SpanReader, chunks: Sequence[FileChunk], report: Callable[[int, int], None]
) -> None:
    """Aggregate chunks of files one after the other, in this process."""
    for done, chunk in enumerate(chunks):
        report(done, len(chunks))
        tables.add_files(reader, chunk)
    report(len(chunks), len(chunks))


def aggregate_on_spark(
    lake: Lake,
    tables: CycleTables,
    reader: SpanReader,
    chunks: Sequence[FileChunk],
    report: Callable[[int, int], None],
) -> None:
    """Aggregate each chunk in a Spark task, and load the summaries from the files that the tasks write."""
    batch = lake.exchange.open_batch()
    on_s3 = chunks[0].files[0].path.startswith("s3") if chunks else False
    task = AggregateTask(tables.summary, reader, batch.folder, lake.s3, on_s3=on_s3)
    spark = lake.spark
    try:
        paths = run_tasks(spark, task, chunks, report, slices=count_slices(spark))
        tables.add_summaries([path for path in paths if path])
    finally:
        batch.remove()


@dataclass(frozen=True)
class AggregateTask:
    """Spark task that aggregates a chunk of files, and can be pickled."""

    summary: SummaryQuery
    reader: SpanReader
    folder: str
    s3: S3Config
    on_s3: bool

    def __call__(self, chunk: FileChunk) -> str:
        """Aggregate a chunk, write the summaries to a file, and return its path."""
        connection = connect(self.s3, on_s3=self.on_s3, threads=1, extensions=("httpfs",) if self.on_s3 else ())
        spans = self.reader.spans(chunk.files, self.summary.span_columns)
        rows = connection.execute(self.summary.of_spans(spans)).to_arrow_table()
        connection.close()
        path = f"{self.folder}/{uuid4()}.parquet"
        filesystem, inner = resolve_filesystem(path, self.s3)
        pq.write_table(rows, inner, filesystem=filesystem, compression="lz4")
        return path


def aggregate_spans(
    engine: str,
    lake: Lake,
    tables: CycleTables,
    reader: SpanReader,
    chunks: Sequence[FileChunk],
    report: Callable[[int, int], None],
) -> None:
    """Aggregate chunks with the given engine."""
    work = partial(aggregate_on_spark, lake) if engine == SPARK else aggregate_locally
    work(tables, reader, chunks, report)
