"""Traces known between cycles, in an in-memory DuckDB: summaries of open traces and recent decisions."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import duckdb

from neve.lake.config import S3Config
from neve.lake.duckdb import prepare
from neve.tail.span_aggregation import (
    DECISION_COLUMNS,
    KNOWN_TRACES,
    LATE_TRACES,
    MERGED_TRACES,
    NEW_TRACES,
    OPEN_BEFORE,
    CycleTables,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from neve.tail.config import TailConfig
    from neve.tail.span_source import SpanReader
    from neve.tail.trace_summary import SummaryQuery

OPEN_SUMMARIES, DECIDED_TRACES = "held_open", "remembered"
FED_ROWS = "fed_rows"
MIN_DELETED_ROWS = 20_000  # deleted rows before a table is rewritten: only then does DuckDB release their memory


class TraceStore:
    """Tables of a selector in memory, for use by one thread at a time."""

    def __init__(self, config: TailConfig, summary: SummaryQuery) -> None:
        # DuckDB creates the folder on demand, when its memory is full.
        self._folder = Path(tempfile.gettempdir()) / f"neve-tail-{uuid4().hex}"
        settings: dict[str, str | bool | int | float | list[str]] = {
            "memory_limit": f"{config.memory_mb}MB",
            "temp_directory": str(self._folder),
            "preserve_insertion_order": "false",
            **({"threads": config.threads} if config.threads else {}),
        }
        self.connection = duckdb.connect(config=settings)
        prepare(self.connection, S3Config(), on_s3=False, extensions=())
        self._cycle_tables = CycleTables(self.connection, summary)
        self._deleted_rows = 0
        self._cycle_tables.begin()
        self._run(f"CREATE TABLE {OPEN_SUMMARIES} AS FROM {OPEN_BEFORE} WITH NO DATA")
        self._run(
            f"CREATE TABLE {DECIDED_TRACES} AS SELECT *, 0::BIGINT AS decided_us FROM {KNOWN_TRACES} WITH NO DATA"
        )
        self.clear()

    @property
    def open_count(self) -> int:
        """Number of open traces."""
        return self._count(f"SELECT count(*) FROM {OPEN_SUMMARIES}")

    @property
    def remembered_count(self) -> int:
        """Number of traces with a known decision."""
        return self._count(f"SELECT count(*) FROM {DECIDED_TRACES}")

    def load(self, reader: SpanReader, rows: pa.Table, oldest_us: int) -> None:
        """Build the tables of a cycle from new rows and known traces, and forget decisions before `oldest_us`."""
        self._cycle_tables.begin()
        self.connection.register(FED_ROWS, rows)
        self._cycle_tables.add_relation(reader, FED_ROWS)
        self.connection.unregister(FED_ROWS)
        self._run(f"INSERT INTO {OPEN_BEFORE} BY NAME FROM {OPEN_SUMMARIES}")
        self._deleted_rows += self._delete(f"WHERE decided_us < {oldest_us}")
        self._run(
            f"INSERT INTO {KNOWN_TRACES} BY NAME SELECT * EXCLUDE (decided_us) FROM {DECIDED_TRACES} "
            f"WHERE trace_id IN (SELECT trace_id FROM {NEW_TRACES})"
        )
        self._cycle_tables.merge(whole=False)

    def remember(self, decisions: pa.Table, now_us: int) -> None:
        """Store decisions, which replace earlier ones about the same traces."""
        self.connection.register(FED_ROWS, decisions)
        self._deleted_rows += self._delete(
            "WHERE (organization_id, trace_id) IN "
            f"(SELECT (organization_id, trace_id) FROM {FED_ROWS} WHERE revision > 0)"
        )
        self._run(
            f"INSERT INTO {DECIDED_TRACES} BY NAME "
            f"SELECT {self._cycle_tables.select_stored()}, {', '.join(DECISION_COLUMNS)}, {now_us} AS decided_us "
            f"FROM {FED_ROWS}"
        )
        self.connection.unregister(FED_ROWS)

    def forget(self, most: int) -> int:
        """Forget the oldest decisions beyond a maximum, and return how many were forgotten."""
        over = max(0, self.remembered_count - most)
        if over:
            oldest = f"SELECT rowid FROM {DECIDED_TRACES} ORDER BY decided_us, trace_id LIMIT {over}"
            self._deleted_rows += self._delete(f"WHERE rowid IN ({oldest})")
        if self._deleted_rows > max(MIN_DELETED_ROWS, self.remembered_count // 2):
            self._run(f"CREATE OR REPLACE TABLE {DECIDED_TRACES} AS FROM {DECIDED_TRACES}")
            self._deleted_rows = 0
        return over

    def store_open(self) -> None:
        """Store the remaining traces of the cycle as open."""
        self._run(f"CREATE OR REPLACE TABLE {OPEN_SUMMARIES} AS FROM {MERGED_TRACES}")

    def clear(self) -> None:
        """Drop the tables of the cycle."""
        for name in (NEW_TRACES, OPEN_BEFORE, KNOWN_TRACES, MERGED_TRACES, LATE_TRACES):
            self._run(f"DROP TABLE IF EXISTS {name}")

    def close(self) -> None:
        """Close the database, and delete its temporary files."""
        self.connection.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _delete(self, where: str) -> int:
        return self._count(f"DELETE FROM {DECIDED_TRACES} {where}")

    def _count(self, sql: str) -> int:
        row = self.connection.execute(sql).fetchone()
        return int(row[0]) if row else 0

    def _run(self, sql: str) -> None:
        self.connection.execute(sql)
