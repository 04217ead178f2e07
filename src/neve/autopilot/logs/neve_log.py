"""Neve's own `queries` table as a query log: one row per query, with the bytes read of each table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pyiceberg.expressions import GreaterThanOrEqual, Reference

from neve.autopilot.logs.records import LoggedQuery, TableRead
from neve.errors import TableMissing
from neve.model.signals import NAMESPACE
from neve.model.tables import QUERIES
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
    *("cache", "rollup", "state"),
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
            text=str(row["sql"] or ""),
            dialect=DIALECT,
            schema=self.namespace,
            finished=row["state"] == "done",
            seconds=row["seconds"],
            bytes_read=row["bytes"],
            reads=tuple(TableRead((self.namespace, str(scan["table"])), scan["bytes"]) for scan in row["scans"] or ()),
            implied=(Test(TENANT_COLUMN, "eq", (str(row[TENANT_COLUMN]),)),),
            left_out=_ignore_reason(row),
        )


def _ignore_reason(row: dict[str, Any]) -> str:
    if row["cache"] == "hit":
        return "answered from the cache"
    if row["normalised"] == "" and row["state"] == "done":
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
