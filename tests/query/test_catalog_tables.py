"""What BI tools and people ask first: the catalog, summaries, and syntax of the standard."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from neve.errors import QueryError
from neve.model.signals import NAMESPACE
from neve.model.tables import LOGS, TABLES
from neve.query.config import QueryConfig
from neve.query.output import write_result
from neve.query.request import Request
from neve.query.service import QueryService
from neve.query.sql.statement import parse
from tests.query.lakes import ACME, OTHER, TRACES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from neve.lake.lake import Lake

SCHEMAS = {table.name: table.schema for table in TABLES}


@pytest.fixture(scope="module")
def service(lake: Lake) -> Iterator[QueryService]:
    """A service that answers in this process."""
    made = QueryService(lake, QueryConfig(threads=1))
    yield made
    made.close()


def ask(service: QueryService, sql: str, organization: str = ACME) -> list[dict[str, Any]]:
    """The rows of an answer as JSON lines have them."""
    sink = io.BytesIO()
    running = service.start(Request(sql, organization))
    write_result(pa.RecordBatchReader.from_batches(running.schema, running.batches()), "jsonl", sink)
    return [json.loads(line) for line in sink.getvalue().splitlines()]


def test_tables_are_those_of_the_lake(service: QueryService) -> None:
    """With the namespace as their schema, and nothing of an engine's own."""
    rows = ask(service, "SELECT * FROM information_schema.tables ORDER BY table_name")
    assert [row["table_name"] for row in rows] == sorted(table.name for table in TABLES)
    assert {(row["table_schema"], row["table_type"]) for row in rows} == {(NAMESPACE, "BASE TABLE")}


@pytest.mark.slow
def test_columns_are_those_of_the_tables(service: QueryService) -> None:
    """In their order, with types as the engine has them."""
    rows = ask(
        service,
        "SELECT c.column_name, data_type, ordinal_position, is_nullable FROM information_schema.columns AS c "
        "WHERE c.table_name = 'logs' ORDER BY ordinal_position",
    )
    assert [row["column_name"] for row in rows] == LOGS.schema.names
    assert [row["ordinal_position"] for row in rows] == list(range(1, len(rows) + 1))
    types = {row["column_name"]: row["data_type"] for row in rows}
    assert (types["attributes"], types["timestamp"], types["trace_id"]) == (
        "MAP(VARCHAR, VARCHAR)",
        "TIMESTAMP WITH TIME ZONE",
        "BLOB",
    )
    assert {row["is_nullable"] for row in rows if row["column_name"] in ("organization_id", "message")} == {"NO", "YES"}


def test_a_table_without_an_organization_is_not_listed() -> None:
    """It can't be queried, so it is not shown."""
    bare = {**SCHEMAS, "secrets": LOGS.schema.remove(LOGS.schema.get_field_index("organization_id"))}
    assert "secrets" not in parse("SELECT * FROM information_schema.tables", bare).normalised_sql
    with pytest.raises(QueryError):
        parse("SELECT * FROM (DESCRIBE secrets)", bare)


def test_describe_is_a_table_of_a_query(service: QueryService) -> None:
    """With the columns of the statement DESCRIBE."""
    rows = ask(service, "SELECT column_name, column_type FROM (DESCRIBE logs) WHERE \"null\" = 'NO'")
    assert {"column_name": "organization_id", "column_type": "VARCHAR"} in rows


@pytest.mark.slow
def test_a_summary_is_of_the_askers_rows(service: QueryService) -> None:
    """A row for each column, counted over the rows of the organization."""
    for organization in (ACME, OTHER):
        [counted] = ask(service, "SELECT count(*) AS n, min(service_name) AS low FROM logs", organization)
        rows = {row["column_name"]: row for row in ask(service, "SUMMARIZE logs", organization)}
        assert list(rows) == LOGS.schema.names
        assert rows["organization_id"]["min"] == rows["organization_id"]["max"] == organization
        assert {row["count"] for row in rows.values()} == {counted["n"]}
        assert rows["service_name"]["min"] == counted["low"]
        assert rows["attributes"]["min"] is None
        assert rows["organization_id"]["null_percentage"] == 0
    assert ask(service, "SELECT count(*) AS n FROM (SUMMARIZE spans)")[0]["n"] == len(SCHEMAS["spans"].names)
    [ids] = ask(service, "SELECT min, max FROM (SUMMARIZE spans) WHERE column_name = 'trace_id'")
    assert ids == {"min": TRACES[0].hex(), "max": TRACES[-1].hex()}  # as results show ids


@pytest.mark.slow
def test_a_summary_of_a_query_is_of_the_askers_rows(service: QueryService) -> None:
    """With the columns of a table's summary, a row for each column of the query, and the counts of its rows."""
    query = "SELECT service_name, severity_number * 1.5 AS score FROM logs WHERE severity_number > 0"
    for organization in (ACME, OTHER):
        [counted] = ask(
            service,
            "SELECT count(*) AS n, min(service_name) AS low, avg(severity_number * 1.5) AS mean FROM logs "
            "WHERE severity_number > 0",
            organization,
        )
        rows = {row["column_name"]: row for row in ask(service, f"SUMMARIZE {query}", organization)}
        assert list(rows) == ["service_name", "score"]
        assert list(rows["score"]) == list(ask(service, "SUMMARIZE logs", organization)[0])
        assert {row["count"] for row in rows.values()} == {counted["n"]}
        assert (rows["service_name"]["min"], rows["service_name"]["avg"]) == (counted["low"], None)
        assert rows["score"]["avg"] == pytest.approx(float(counted["mean"]))
    [owners] = ask(service, "SELECT min, max FROM (SUMMARIZE FROM logs) WHERE column_name = 'organization_id'")
    assert owners == {"min": ACME, "max": ACME}
    named = "SUMMARIZE WITH q AS (SELECT message FROM logs) SELECT message AS m FROM q UNION ALL SELECT 'x'"
    assert [row["column_name"] for row in ask(service, named)] == ["m"]


@pytest.mark.parametrize(
    ("sql", "same"),
    [
        ("SELECT list(message ORDER BY message)[1] AS x FROM logs", "SELECT min(message) AS x FROM logs"),
        (
            "SELECT message FROM logs ORDER BY message FETCH FIRST 2 ROWS ONLY",
            "SELECT message FROM logs ORDER BY message LIMIT 2",
        ),
        ("SELECT message FROM logs ORDER BY 1 FETCH NEXT ROW ONLY", "SELECT message FROM logs ORDER BY 1 LIMIT 1"),
        (
            "PIVOT logs ON severity_number IN (9, 17) USING count(*) GROUP BY service_name "
            "ORDER BY service_name LIMIT 3",
            "FROM (PIVOT logs ON severity_number IN (9, 17) USING count(*) GROUP BY service_name) "
            "ORDER BY service_name LIMIT 3",
        ),
        (
            "UNPIVOT (SELECT message, service_name FROM logs) ON message, service_name INTO NAME n VALUE v "
            "ORDER BY n, v",
            "FROM (UNPIVOT (SELECT message, service_name FROM logs) ON message, service_name INTO NAME n VALUE v) "
            "ORDER BY n, v",
        ),
    ],
)
def test_syntax_of_the_standard_gives_the_same_rows(service: QueryService, sql: str, same: str) -> None:
    """As the form that was known before."""
    assert ask(service, sql) == ask(service, same) != []


@pytest.mark.parametrize("columns", ["*", "COLUMNS('s.*')", "severity_number IN (SELECT 9)", "severity_number IN ()"])
def test_a_pivot_without_one_column_says_how_to_name_values(columns: str) -> None:
    """The values of one column can be read first, those of a list of columns or of a query can't."""
    with pytest.raises(QueryError, match="a PIVOT needs a column, or its values") as caught:
        parse(f"PIVOT logs ON {columns} USING count(*) ORDER BY 1", SCHEMAS)
    assert "IN ('a', 'b')" in (caught.value.hint or "")


def test_structs_without_names_are_lists(service: QueryService) -> None:
    """Within lists and maps too, and null stays null."""
    [row] = ask(
        service,
        "SELECT row(1, 'a', NULL) AS r, list_zip([1, 2], ['x', 'y']) AS z, map {'k': row(1, 2)} AS m, "
        "{'a': row(row(1, 2), 3)} AS s, CASE WHEN false THEN row(1, 2) END AS n, list_zip([], []) AS e",
    )
    assert row == {
        "r": [1, "a", None],
        "z": [[1, "x"], [2, "y"]],
        "m": {"k": [1, 2]},
        "s": {"a": [[1, 2], 3]},
        "n": None,
        "e": [],
    }
