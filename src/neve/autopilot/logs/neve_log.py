"""Neve's own `queries` table as a query log: one row per query, with the bytes read of each table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pyiceberg.expressions import GreaterThanOrEqual, Reference

from neve.autopilot.logs.records import LoggedQuery, TableRead
from neve.errors import TableMissing
from neve.model.query_log import PAGE_NOTE, QUERIES
from neve.model.signals import NAMESPACE
from neve.predicate.filters import Test

if TYPE_CHECKING:
    import pyarrow as pa

    from neve.autopilot.logs.records import LogRecord
    from neve.lake.lake import Lake


ENGINE = "neve"
DIALECT = "duckdb"
TENANT_COLUMN = "organization_id"
COLUMNS = (
    *("organization_id", "timestamp", "query_id", "sql", "normalised", "scans", "bytes", "seconds"),
    *("cache", "rollup", "state", "notes"),
)

BatchReader = Callable[
    [datetime], "Iterator[pa.RecordBatch]"
]  # reads rows with these columns that are not older than the time


@dataclass(frozen=True)
class NeveLog:
    """The table `queries`, read through a function of the caller, which has the catalog.

    `namespace` contains the tables of the lake.
    """

    reader: BatchReader
    namespace: str

    @property
    def name(self) -> str:
        """The name for reports."""
        return f"neve {self.namespace}.queries"

    def queries(self, since: datetime) -> Iterator[LogRecord]:
        """Yield the queries since a time."""
        for batch in self.reader(since):
            for row in batch.to_pylist():
                record = self._record(row)
                if record.at >= since:
                    yield record

    def _record(self, row: dict[str, Any]) -> LoggedQuery:
        return LoggedQuery(
            query_id=str(row["query_id"]),
            engine=ENGINE,
            at=row["timestamp"].astimezone(UTC),
            text=_write_scans(row) if _is_program(row) else str(row["sql"] or ""),
            dialect=DIALECT,
            schema=self.namespace,
            finished=row["state"] == "done",
            seconds=row["seconds"],
            bytes_read=row["bytes"],
            reads=tuple(TableRead((self.namespace, table), size) for table, size in _sum_bytes(row).items()),
            implied=(Test(TENANT_COLUMN, "eq", (str(row[TENANT_COLUMN]),)),),
            left_out=_ignore_reason(row),
        )


def _is_program(row: dict[str, Any]) -> bool:
    """Return whether a query is in another language than SQL: it was answered by statements that the log has not."""
    return bool(row["normalised"] == "" and row["state"] == "done")


def _write_scans(row: dict[str, Any]) -> str:
    """Return a statement for each scan of a query, with the predicate that selected its files."""
    found = [(str(scan["table"]), scan["predicate"]) for scan in row["scans"] or () if scan["predicate"]]
    return "; ".join(f"SELECT count(*) FROM {table} WHERE {predicate}" for table, predicate in found)  # noqa: S608  # is parsed only


def _sum_bytes(row: dict[str, Any]) -> dict[str, int]:
    found: dict[str, int] = {}
    for scan in row["scans"] or ():
        found[str(scan["table"])] = found.get(str(scan["table"]), 0) + (scan["bytes"] or 0)
    return found


def _ignore_reason(row: dict[str, Any]) -> str:
    if PAGE_NOTE in (row["notes"] or ()):
        return PAGE_NOTE
    if row["cache"] == "hit":
        return "answered from the cache"
    if _is_program(row) and not _write_scans(row):
        return "in another language than SQL"
    return "answered from a rollup" if row["rollup"] else ""


def open_neve_log(lake: Lake) -> NeveLog | None:
    """Open the log of a lake, or return None if it has no such table."""
    try:
        table = lake.table(QUERIES.name)
    except TableMissing:
        return None

    def read(since: datetime) -> Iterator[pa.RecordBatch]:
        newer = GreaterThanOrEqual(term=Reference("timestamp"), value=since.isoformat())
        yield from table.scan(row_filter=newer, selected_fields=COLUMNS).to_arrow_batch_reader()

    return NeveLog(read, NAMESPACE)
