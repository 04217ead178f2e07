"""ClickHouse's `system.query_log`, over HTTP or the native protocol.

Bytes are counted after decompression.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from neve.autopilot.logs.records import LoggedQuery, TableRead
from neve.errors import EnvironmentFault, InputError

if TYPE_CHECKING:
    from neve.autopilot.config import ClickHouseConfig
    from neve.autopilot.logs.records import LogRecord


ENGINE = "clickhouse"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Microseconds as a number: the text of a time depends on the server's time zone.
STATEMENT = """/* neve:autopilot */
SELECT query_id, toUnixTimestamp64Micro(query_start_time_microseconds) AS micros, query, current_database,
  query_duration_ms, read_bytes, read_rows, tables, columns
FROM {table}
WHERE event_date >= toDate('{day}') AND event_time >= toDateTime({since})
  AND type = 'QueryFinish' AND is_initial_query AND query_kind = 'Select'"""

RowReader = Callable[[str], Iterator[Sequence[Any]]]  # runs a statement and yields its rows


@dataclass(frozen=True)
class ClickHouseLog:
    """The query log of a server, or of all servers of a cluster; `rows` runs the statement."""

    rows: RowReader
    where: str
    cluster: str = ""

    @property
    def name(self) -> str:
        """The name for reports."""
        return f"clickhouse {self.where}"

    def queries(self, since: datetime) -> Iterator[LogRecord]:
        """Yield the finished queries since a time; failed queries have another type in the log."""
        for row in self.rows(build_statement(since, self.cluster)):
            yield _parse_row(row)


def build_statement(since: datetime, cluster: str = "") -> str:
    """Build the statement; only the day selects the parts of the log that are read."""
    quoted = cluster.replace("\\", "\\\\").replace("'", "\\'")
    table = f"clusterAllReplicas('{quoted}', system.query_log)" if cluster else "system.query_log"
    start = since.astimezone(UTC)
    return STATEMENT.format(table=table, day=start.date().isoformat(), since=int(start.timestamp()))


def _parse_row(row: Sequence[Any]) -> LoggedQuery:
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
                tuple(_split_name(name)),
                int(read_bytes) if alone else None,
                int(read_rows) if alone else None,
                tuple(_table_columns(name, columns)),
            )
            for name in names
        ),
    )


def _table_columns(table: str, columns: Sequence[str]) -> Iterator[str]:
    """Yield the columns of a table.

    Subcolumns, which ClickHouse quotes with backticks, are found in the query text instead.
    """
    for column in columns:
        before, name = str(column)[: len(table) + 1], str(column)[len(table) + 1 :]
        if before == f"{table}." and "`" not in name:
            yield name


def _split_name(name: str) -> list[str]:
    """Return the parts of a name: `lake.`shop.orders`` has the database and the rest."""
    return [part.strip("`") for part in name.split(".", 1)]


TIMEOUT_SECONDS = 60


def open_clickhouse_log(config: ClickHouseConfig) -> ClickHouseLog:
    """Open the query log of the configured server."""
    query = _query_http if config.interface == "http" else _query_native

    def rows(statement: str) -> Iterator[Sequence[Any]]:
        return query(config, statement)

    return ClickHouseLog(rows, f"{config.host}:{config.port}", config.cluster)


def _query_http(config: ClickHouseConfig, statement: str) -> Iterator[Sequence[Any]]:
    try:
        from clickhouse_connect import get_client  # noqa: PLC0415 - an extra
        from clickhouse_connect.driver.exceptions import ClickHouseError  # noqa: PLC0415
    except ImportError:
        raise _missing_package("clickhouse-connect") from None
    try:
        client = get_client(
            host=config.host,
            port=config.port,
            username=config.user,
            password=config.password.get_secret_value(),
            secure=config.tls,
            connect_timeout=TIMEOUT_SECONDS,
        )
        try:
            with client.query_rows_stream(statement) as stream:
                yield from stream
        finally:
            client.close()
    except (ClickHouseError, OSError) as error:
        raise _connection_error(config, error) from error


def _query_native(config: ClickHouseConfig, statement: str) -> Iterator[Sequence[Any]]:
    try:
        from clickhouse_driver import Client  # type: ignore[import-untyped]  # noqa: PLC0415 - an extra
        from clickhouse_driver.errors import Error  # type: ignore[import-untyped]  # noqa: PLC0415
    except ImportError:
        raise _missing_package("clickhouse-driver") from None
    client = Client(
        config.host,
        port=config.port,
        user=config.user,
        password=config.password.get_secret_value(),
        secure=config.tls,
        connect_timeout=TIMEOUT_SECONDS,
        client_name="neve-autopilot",
    )
    try:
        yield from client.execute_iter(statement)
    except (Error, OSError, EOFError) as error:
        raise _connection_error(config, error) from error
    finally:
        client.disconnect()


def _missing_package(package: str) -> EnvironmentFault:
    return EnvironmentFault(
        f"reading ClickHouse's query log needs the package {package}, which is not installed",
        hint="pip install 'neve[clickhouse]'",
    )


def _connection_error(config: ClickHouseConfig, error: Exception) -> InputError:
    words = (str(error).splitlines() or [""])[0][:200]
    return InputError(
        f"can't read system.query_log of {config.host}:{config.port} ({config.interface}): {words}",
        hint="check autopilot.logs.clickhouse, and that the server has a <query_log> section",
    )
