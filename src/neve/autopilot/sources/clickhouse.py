"""ClickHouse's `system.query_log`: texts, and bytes after decompression."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from neve.autopilot.sources.record import LoggedQuery, TableRead

if TYPE_CHECKING:
    from neve.autopilot.sources.record import Record

ENGINE = "clickhouse"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Micros as a number: the text of a time depends on the server's zone.
STATEMENT = """/* neve:autopilot */
SELECT query_id, toUnixTimestamp64Micro(query_start_time_microseconds) AS micros, query, current_database,
  query_duration_ms, read_bytes, read_rows, tables, columns
FROM {table}
WHERE event_date >= toDate('{day}') AND event_time >= toDateTime({since})
  AND type = 'QueryFinish' AND is_initial_query AND query_kind = 'Select'"""

Rows = Callable[[str], Iterator[Sequence[Any]]]  # the rows of a statement, as they come


@dataclass(frozen=True)
class ClickHouseLog:
    """The log of a server, or of all servers of a cluster; `rows` asks it."""

    rows: Rows
    where: str
    cluster: str = ""

    @property
    def name(self) -> str:
        """For reports."""
        return f"clickhouse {self.where}"

    def queries(self, since: datetime) -> Iterator[Record]:
        """Finished queries since a moment; those that failed have another type in the log."""
        for row in self.rows(statement(since, self.cluster)):
            yield _record(row)


def statement(since: datetime, cluster: str = "") -> str:
    """What is asked; the day alone decides which parts of the log are read."""
    quoted = cluster.replace("\\", "\\\\").replace("'", "\\'")
    table = f"clusterAllReplicas('{quoted}', system.query_log)" if cluster else "system.query_log"
    start = since.astimezone(UTC)
    return STATEMENT.format(table=table, day=start.date().isoformat(), since=int(start.timestamp()))


def _record(row: Sequence[Any]) -> LoggedQuery:
    query_id, micros, text, database, milliseconds, read_bytes, read_rows, tables, columns = row
    names = [name for name in map(str, tables) if not name.startswith("_table_function.")]
    alone = len(names) == 1
    return LoggedQuery(
        query_id=str(query_id),
        engine=ENGINE,
        at=datetime.fromtimestamp(int(micros) / 1_000_000, UTC),
        text=str(text),
        dialect=ENGINE,
        schema=str(database),
        seconds=int(milliseconds) / 1000,
        bytes_read=int(read_bytes),
        reads=tuple(
            TableRead(
                tuple(_unquoted(name)),
                int(read_bytes) if alone else None,
                int(read_rows) if alone else None,
                tuple(_columns(name, columns)),
            )
            for name in names
        ),
    )


def _columns(table: str, columns: Sequence[str]) -> Iterator[str]:
    """The columns of a table; parts of a column, which ClickHouse names in backticks, are told by the text."""
    for column in columns:
        before, name = str(column)[: len(table) + 1], str(column)[len(table) + 1 :]
        if before == f"{table}." and "`" not in name:
            yield name


def _unquoted(name: str) -> list[str]:
    """The parts of a name: `lake.`shop.orders`` has the database and the rest."""
    return [part.strip("`") for part in name.split(".", 1)]
