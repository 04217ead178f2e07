"""Answers about tables and plans, as small tables themselves."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pyarrow as pa

from neve.query.stored import Stored

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from neve.query.prepared import Prepared
    from neve.query.running import Run
    from neve.query.statistics import ScanStatistics
    from neve.query.tables import TableFacts


def listed(names: Iterable[str]) -> pa.Table:
    """SHOW TABLES."""
    return pa.table({"name": pa.array(list(names), pa.string())})


def described(table: TableFacts) -> pa.Table:
    """DESCRIBE."""
    columns = table.columns
    return pa.table(
        {
            "column_name": pa.array([column.name for column in columns], pa.string()),
            "column_type": pa.array([column.type for column in columns], pa.string()),
            "null": pa.array(["NO" if column.required else "YES" for column in columns], pa.string()),
            "comment": pa.array([column.comment for column in columns], pa.string()),
        }
    )


def explained(prepared: Prepared, measured: Sequence[str] = ()) -> pa.Table:
    """EXPLAIN: what would be read, by whom, and why; with ANALYZE, what it took."""
    statistics = prepared.statistics
    lines = [f"engine: {statistics.engine}", *(f"because: {note}" for note in statistics.notes)]
    for scan in statistics.scans:
        lines += _scan(scan)
    lines.append(
        f"in all: {statistics.files:,} files of {statistics.bytes:,} bytes are read, "
        f"{statistics.pruned_files:,} of {statistics.pruned_bytes:,} bytes are not"
    )
    if prepared.statement.not_portable:
        lines.append(f"not for Spark: {prepared.statement.not_portable}")
    if prepared.statement.volatile:
        lines.append(f"never from the cache: {prepared.statement.volatile} is another each time")
    lines.append(f"planned in {statistics.planning_seconds * 1000:.1f} ms")
    return pa.table({"plan": pa.array([*lines, *measured], pa.string())})


def _scan(scan: ScanStatistics) -> list[str]:
    return [
        f"{scan.table} at snapshot {scan.snapshot or 'none'}: {scan.files:,} files of {scan.bytes:,} bytes, "
        f"{scan.pruned_files:,} of {scan.pruned_bytes:,} bytes pruned",
        f"  by {scan.predicate}" if scan.predicate else "  no condition tells its files apart",
    ]


class Measured(Stored):
    """EXPLAIN ANALYZE: another run, whose rows are counted and not given; it can be ended as any other."""

    def __init__(self, prepared: Prepared, run: Run) -> None:
        super().__init__(explained(prepared))
        self._prepared = prepared
        self._run = run

    def begin(self) -> None:
        """Run it to its end."""
        began = time.monotonic()
        self._run.begin()
        rows = sum(batch.num_rows for batch in self._run.batches())
        took = f"ran in {(time.monotonic() - began) * 1000:.1f} ms, {rows:,} rows"
        self._table = explained(self._prepared, [took])

    def interrupt(self) -> None:
        """End it, from any thread."""
        self._run.interrupt()

    def close(self) -> None:
        """Give back what it holds."""
        self._run.close()
