"""What is known of traces between cycles, in a DuckDB in memory: summaries of open ones, and what was decided."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import duckdb

from neve.lake.config import S3Config
from neve.lake.duck import prepare
from neve.tail.gather import DECIDED, KNOWN, LATE, MERGED, NEW, OPEN, Gathering

if TYPE_CHECKING:
    import pyarrow as pa

    from neve.tail.config import TailConfig
    from neve.tail.reading import SpanReader
    from neve.tail.summary import Summary

HELD_OPEN, REMEMBERED = "held_open", "remembered"
ROWS = "fed_rows"
LEAST_DEAD = 20_000  # rows that were deleted before a table is written anew: DuckDB gives their memory back only then


class Recall:
    """The tables of a selector in memory; used by one thread at a time."""

    def __init__(self, config: TailConfig, summary: Summary) -> None:
        # DuckDB makes it when it needs it: when its memory is full.
        self._folder = Path(tempfile.gettempdir()) / f"neve-tail-{uuid4().hex}"
        settings: dict[str, str | bool | int | float | list[str]] = {
            "memory_limit": f"{config.memory_mb}MB",
            "temp_directory": str(self._folder),
            "preserve_insertion_order": "false",
            **({"threads": config.threads} if config.threads else {}),
        }
        self.connection = duckdb.connect(config=settings)
        prepare(self.connection, S3Config(), on_s3=False, extensions=())
        self._gathering = Gathering(self.connection, summary)
        self._dead = 0
        self._gathering.begin()
        self._run(f"CREATE TABLE {HELD_OPEN} AS FROM {OPEN} WITH NO DATA")
        self._run(f"CREATE TABLE {REMEMBERED} AS SELECT *, 0::BIGINT AS decided_us FROM {KNOWN} WITH NO DATA")
        self.clear()

    @property
    def open_count(self) -> int:
        """How many traces are open."""
        return self._count(f"SELECT count(*) FROM {HELD_OPEN}")

    @property
    def remembered_count(self) -> int:
        """Of how many traces it is known what was decided."""
        return self._count(f"SELECT count(*) FROM {REMEMBERED}")

    def gather(self, reader: SpanReader, rows: pa.Table, oldest_us: int) -> None:
        """Make the tables of a cycle from new rows and what is known; older decisions are forgotten."""
        self._gathering.begin()
        self.connection.register(ROWS, rows)
        self._gathering.sum_up_rows(reader, ROWS)
        self.connection.unregister(ROWS)
        self._run(f"INSERT INTO {OPEN} BY NAME FROM {HELD_OPEN}")
        self._dead += self._deleted(f"WHERE decided_us < {oldest_us}")
        self._run(
            f"INSERT INTO {KNOWN} BY NAME SELECT * EXCLUDE (decided_us) FROM {REMEMBERED} "
            f"WHERE trace_id IN (SELECT trace_id FROM {NEW})"
        )
        self._gathering.merge(whole=False)

    def remember(self, decisions: pa.Table, now_us: int) -> None:
        """Know what was decided, in the place of what was decided before about the same traces."""
        self.connection.register(ROWS, decisions)
        self._dead += self._deleted(
            f"WHERE (organization_id, trace_id) IN (SELECT (organization_id, trace_id) FROM {ROWS} WHERE revision > 0)"
        )
        self._run(
            f"INSERT INTO {REMEMBERED} BY NAME "
            f"SELECT {self._gathering.stored()}, {', '.join(DECIDED)}, {now_us} AS decided_us FROM {ROWS}"
        )
        self.connection.unregister(ROWS)

    def forget(self, most: int) -> int:
        """Forget the oldest decisions over a number; how many those were."""
        over = max(0, self.remembered_count - most)
        if over:
            oldest = f"SELECT rowid FROM {REMEMBERED} ORDER BY decided_us, trace_id LIMIT {over}"
            self._dead += self._deleted(f"WHERE rowid IN ({oldest})")
        if self._dead > max(LEAST_DEAD, self.remembered_count // 2):
            self._run(f"CREATE OR REPLACE TABLE {REMEMBERED} AS FROM {REMEMBERED}")
            self._dead = 0
        return over

    def keep_open(self) -> None:
        """What is left of the cycle's traces is open."""
        self._run(f"CREATE OR REPLACE TABLE {HELD_OPEN} AS FROM {MERGED}")

    def clear(self) -> None:
        """Remove the tables of the cycle."""
        for name in (NEW, OPEN, KNOWN, MERGED, LATE):
            self._run(f"DROP TABLE IF EXISTS {name}")

    def close(self) -> None:
        """Let go of everything."""
        self.connection.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _deleted(self, where: str) -> int:
        return self._count(f"DELETE FROM {REMEMBERED} {where}")

    def _count(self, sql: str) -> int:
        row = self.connection.execute(sql).fetchone()
        return int(row[0]) if row else 0

    def _run(self, sql: str) -> None:
        self.connection.execute(sql)
