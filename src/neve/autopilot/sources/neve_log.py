"""Neve's own table of queries: every row is one organization's question, with what it read of each table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from neve.autopilot.sources.record import LoggedQuery, TableRead
from neve.autopilot.workload import Test

if TYPE_CHECKING:
    import pyarrow as pa

    from neve.autopilot.sources.record import Record

ENGINE = "neve"
DIALECT = "duckdb"
OWNER = "organization_id"
COLUMNS = (
    *("organization_id", "timestamp", "query_id", "sql", "scans", "bytes", "seconds", "cache", "rollup", "state"),
)

Reader = Callable[[datetime], "Iterator[pa.RecordBatch]"]  # rows of the table with these columns, not older than that


@dataclass(frozen=True)
class NeveLog:
    """The table `queries`, read by whoever knows the catalog; `namespace` is where its tables are."""

    reader: Reader
    namespace: str

    @property
    def name(self) -> str:
        """For reports."""
        return f"neve {self.namespace}.queries"

    def queries(self, since: datetime) -> Iterator[Record]:
        """The queries since a moment."""
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
            implied=(Test(OWNER, "eq", (str(row[OWNER]),)),),
            left_out=_left_out(row),
        )


def _left_out(row: dict[str, Any]) -> str:
    if row["cache"] == "hit":
        return "answered from the cache"
    return "answered from a rollup" if row["rollup"] else ""
