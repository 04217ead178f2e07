"""ClickHouse's query log: from ClickHouse itself, in-process, where chdb is installed."""

from __future__ import annotations

import socket
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from neve.autopilot.analyzer import QueryLogAnalyzer, analyze
from neve.autopilot.config import ClickHouseConfig
from neve.autopilot.logs.clickhouse_log import ClickHouseLog, build_statement, open_clickhouse_log
from neve.autopilot.workload.privacy import format_filter
from neve.autopilot.workload.tables import Tables
from neve.errors import ConfigError, InputError
from tests.autopilot.analyze.schemas import TABLES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

NOW = datetime.now(UTC)
CONFIG = """<clickhouse><query_log><database>system</database><table>query_log</table>
<flush_interval_milliseconds>100</flush_interval_milliseconds></query_log></clickhouse>"""
ASKED = [
    "SELECT count() FROM shop.orders WHERE customer = 'c1' AND placed >= toDateTime64('2026-01-05 00:00:00', 6, 'UTC')",
    "SELECT count() FROM shop.orders WHERE attributes['http.route'] = '/r1'",
    "SELECT id FROM shop.orders WHERE toDate(placed) = '2026-01-05' ORDER BY total LIMIT 3",
    "SELECT throwIf(id > 5) FROM shop.orders",
    "/* neve:autopilot */ SELECT count() FROM shop.orders",
    "SELECT count() FROM system.tables",
]


def test_the_real_log_of_clickhouse(tmp_path: Path) -> None:
    """What ClickHouse logs of itself is a workload: bytes of the only table, failures and metadata left out."""
    session_of = pytest.importorskip("chdb.session", reason="chdb (ClickHouse in-process) is not installed")
    (tmp_path / "ch.xml").write_text(CONFIG)
    session = session_of.Session(f"{tmp_path}/data?config-file={tmp_path}/ch.xml")
    session.query("CREATE DATABASE shop")
    session.query(
        "CREATE TABLE shop.orders (id Int64, customer String, placed DateTime64(6, 'UTC'), total Decimal(10, 2), "
        "attributes Map(String, String)) ENGINE = MergeTree ORDER BY id"
    )
    session.query(
        "INSERT INTO shop.orders SELECT number, 'c' || toString(number % 10), "
        "toDateTime64('2026-01-01 00:00:00', 6, 'UTC') + number * 3600, number, "
        "map('http.route', '/r' || toString(number % 3)) FROM numbers(1000)"
    )
    for sql in ASKED:
        try:
            session.query(sql)
        except RuntimeError:
            assert "throwIf" in sql
    session.query("SYSTEM FLUSH LOGS")

    def rows(sql: str) -> Iterator[Sequence[Any]]:
        table = session.query(sql, "ArrowTable")
        yield from zip(*(column.to_pylist() for column in table.columns), strict=True)

    found = analyze([ClickHouseLog(rows, "in-process")], TABLES, NOW - timedelta(days=1))
    session.close()
    day = "datetime.datetime(2026, 1, {}, 0, 0, tzinfo=datetime.timezone.utc)".format
    said = {format_filter(use.filter, allow_literals=True): use.bytes_read for one in found.queries for use in one.uses}
    assert list(said) == [
        f"customer = 'c1' AND placed >= {day(5)}",
        "attributes['http.route'] = '/r1'",
        f"todate(placed) >= {day(5)} AND todate(placed) < {day(6)}",
    ]
    assert all(said.values())
    assert found.queries[2].uses[0].order_by == ("total",)
    assert set(found.sources[0].left_out) == {
        "a canary of the autopilot",
        "only metadata, or tables of other catalogs",
    }


def test_a_row_of_the_log_becomes_a_record() -> None:
    """Names with dots, bytes of one table, and columns that are parts of columns; a row made to the documentation."""
    row = (
        *("q1", 1_767_225_600_000_000, "SELECT a FROM `shop.orders` WHERE id = 5", "lake", 1500, 4096, 10),
        *(["lake.`shop.orders`", "_table_function.numbers"], ["lake.`shop.orders`.id", "lake.`shop.orders`.`m.key_k`"]),
    )
    found = analyze([ClickHouseLog(lambda _: iter([row]), "there")], TABLES, NOW)
    [query] = found.queries
    assert (query.at, query.seconds) == (datetime(2026, 1, 1, tzinfo=UTC), 1.5)
    assert [(use.table, use.bytes_read) for use in query.uses] == [("shop.orders", 4096)]
    assert "id" in query.uses[0].columns


def test_the_statement_asks_all_servers_of_a_cluster() -> None:
    """A cluster's name is quoted; the day keeps old parts of the log unread."""
    sql = build_statement(datetime(2026, 1, 2, tzinfo=UTC), "it's")
    assert "clusterAllReplicas('it\\'s', system.query_log)" in sql
    assert "event_date >= toDate('2026-01-02')" in sql


@pytest.mark.parametrize("interface", ["http", "native"])
def test_a_server_that_is_away_is_said(interface: str) -> None:
    """Neither client's own words nor a trace reach the user."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    config = ClickHouseConfig(host="127.0.0.1", port=port, interface=interface)
    with pytest.raises(InputError, match=r"can't read system\.query_log of 127\.0\.0\.1"):
        list(open_clickhouse_log(config).queries(NOW))


def test_the_class_of_the_service_wants_a_server() -> None:
    """What is neither given nor in the environment is asked for by name, and a port must be a number."""
    with pytest.raises(ConfigError, match="CLICKHOUSE_HOST"):
        QueryLogAnalyzer(environment={}).extract_clickhouse_query_patterns()
    with pytest.raises(ConfigError, match="TRINO_HOST"):
        QueryLogAnalyzer(environment={}).extract_trino_query_patterns()
    with pytest.raises(ConfigError, match="CLICKHOUSE_PORT"):
        QueryLogAnalyzer(
            environment={"CLICKHOUSE_HOST": "h", "CLICKHOUSE_PORT": "x"}
        ).extract_clickhouse_query_patterns()
    with pytest.raises(ConfigError, match="recommend"):
        QueryLogAnalyzer(tables=Tables()).generate_recommendations({})
