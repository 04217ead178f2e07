"""SQL over the lake: the organization's own rows, and words for what can't be answered."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from neve.errors import QueryError, TableMissing
from neve.lake.config import CatalogConfig, LakeConfig
from neve.lake.lake import Lake
from neve.query.config import QueryConfig
from neve.query.service import run_query
from tests.query.lakes import ACME, NOW, OTHER, TRACES

CONFIG = QueryConfig(threads=1)


def ask(lake: Lake, sql: str, organization: str = ACME) -> list[dict[str, Any]]:
    """The rows of an answer."""
    rows: list[dict[str, Any]] = run_query(lake, CONFIG, sql, organization).read_all().to_pylist()
    return rows


def refused(lake: Lake, sql: str) -> QueryError:
    """What is said of a statement that is not answered."""
    with pytest.raises(QueryError) as caught:
        run_query(lake, CONFIG, sql, ACME).read_all()
    return caught.value


def folder_of(lake: Lake, table: str) -> str:
    """Where a table's files are."""
    return lake.table(table).metadata.location.removeprefix("file://")


def test_a_trace_is_found_by_its_binary_id(lake: Lake) -> None:
    """Each id alone finds its one span: DuckDB 1.5 finds nothing through a bloom filter on binary (ADR 5)."""
    counts = ", ".join(
        f"(SELECT count(*) FROM spans WHERE trace_id = unhex('{trace.hex()}')) AS t{number}"
        for number, trace in enumerate(TRACES)
    )
    [row] = ask(lake, f"SELECT {counts}")
    assert list(row.values()) == [1] * len(TRACES)


def test_rows_come_back_as_they_were_written(lake: Lake) -> None:
    """Times, maps, bytes and numbers have the types of the table."""
    reader = run_query(lake, CONFIG, "SELECT * FROM logs WHERE message LIKE 'first%'", ACME)
    assert reader.schema.field("timestamp").type == pa.timestamp("us", tz="UTC")
    [row] = reader.read_all().to_pylist()
    assert (row["time_unix_nano"], row["severity_number"], row["service_name"]) == (NOW, 17, "cart")
    assert (row["attributes"], row["attribute_types"]) == ([("user", "7")], [("user", "int")])
    assert len(row["record_id"]) == 16


@pytest.mark.parametrize(
    ("organization", "counts"),
    [(ACME, [8, 2, 1]), (OTHER, [1, 1, 0]), (f"x' OR organization_id = '{OTHER}", [0, 0, 0])],
)
def test_an_organization_sees_its_own_rows(lake: Lake, organization: str, counts: list[int]) -> None:
    """Under both names of each table; a quote in the organization's name opens nothing."""
    tables = [f"{schema}{name}" for schema in ("", "telemetry.") for name in ("spans", "logs", "metrics")]
    selects = ", ".join(f"(SELECT count(*) FROM {table}) AS c{number}" for number, table in enumerate(tables))
    [row] = ask(lake, f"SELECT {selects}", organization)
    assert list(row.values()) == counts * 2


def test_a_condition_of_the_user_cannot_widen_the_view(lake: Lake) -> None:
    """An OR is inside the user's own statement."""
    found = ask(lake, f"SELECT message FROM logs WHERE true OR organization_id = '{OTHER}' ORDER BY 1")
    assert [row["message"] for row in found] == ["first, with a comma", "second"]


@pytest.mark.parametrize("function", ["iceberg_scan('{metadata}')", "read_parquet('{folder}/data/**/*.parquet')"])
def test_another_organizations_rows_cannot_be_reached_by_their_files(lake: Lake, function: str) -> None:
    """SQL can't reach another's rows (guarantee 5)."""
    source = function.format(folder=folder_of(lake, "logs"), metadata=lake.table("logs").metadata_location)
    try:
        found = ask(lake, f"SELECT message FROM {source}")
    except QueryError:
        found = []
    assert "secret" not in str(found)


def test_explain_analyze_cannot_write(lake: Lake) -> None:
    """A statement that only reads leaves no file in the warehouse."""
    path = Path(folder_of(lake, "logs")) / "written.parquet"
    try:
        ask(lake, f"EXPLAIN ANALYZE COPY (SELECT 1) TO '{path}'")
    except QueryError:
        pass
    finally:
        written = path.exists()
        path.unlink(missing_ok=True)
    assert not written


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("SELECT * FROM read_text('/etc/hostname')", "the function read_text is not allowed in queries"),
        ("COPY (SELECT 1) TO '/tmp/neve-test.csv'", "got a statement of type COPY, expected one that only reads"),
        ("SELECT 1; DROP VIEW logs", "got 2 statements, expected one"),
        (" -- nothing", "got 0 statements, expected one"),
    ],
)
def test_a_query_reads_the_lake_and_nothing_else(lake: Lake, sql: str, words: str) -> None:
    """Neither the machine nor the session can be reached, and there is one statement at a time."""
    assert words in refused(lake, sql).message


def test_statements_that_ask_about_tables_are_answered(lake: Lake) -> None:
    """As the hint of an unknown table says."""
    columns = ask(lake, "DESCRIBE spans")
    assert [column["column_name"] for column in columns[:3]] == ["organization_id", "timestamp", "trace_id"]


def test_a_pivot_with_its_columns_named_is_answered(lake: Lake) -> None:
    """That DuckDB can write down what it parsed is what makes it checkable."""
    pivot = "PIVOT (SELECT severity_number FROM logs) ON severity_number IN (9, 17) USING count(*)"
    assert len(ask(lake, f"SELECT * FROM ({pivot})")) == 1


@pytest.mark.parametrize(
    "sql",
    [
        "PIVOT '{folder}/data/**/*.parquet' ON organization_id USING first(message) GROUP BY severity_number",
        "PIVOT (SELECT * FROM read_parquet('{folder}/data/**/*.parquet')) ON organization_id USING first(message)",
        "SELECT * FROM '{folder}/data/**/*.parquet'",
        "WITH x AS (SELECT * FROM iceberg_scan('{metadata}')) SELECT * FROM x",
        "SELECT (SELECT max(message) FROM read_parquet('{folder}/data/**/*.parquet'))",
        "/* x */ EXPLAIN ANALYZE SELECT * FROM read_parquet('{folder}/data/**/*.parquet')",
        "SELECT sql FROM duckdb_views",
        "SELECT * FROM duckdb_views()",
        "SELECT definition FROM pg_catalog.pg_views",
        "SELECT * FROM sqlite_master",
        "SELECT * FROM information_schema.views",
    ],
)
def test_ways_around_the_views_are_refused(lake: Lake, sql: str) -> None:
    """Neither another organization's rows nor the places of the files can be had."""
    statement = sql.format(folder=folder_of(lake, "logs"), metadata=lake.table("logs").metadata_location)
    with pytest.raises(QueryError):
        ask(lake, statement)


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("SELEKT 1", "syntax error near 'SELEKT' (line 1, column 1)\n  SELEKT 1\n  ^"),
        (
            "SELECT servce_name FROM spans",
            "unknown column 'servce_name' (line 1, column 8)\n  SELECT ",
        ),
    ],
)
def test_a_bad_statement_is_refused_in_words(lake: Lake, sql: str, words: str) -> None:
    """With the line and the place, and without the statement that the engine got."""
    error = refused(lake, sql)
    assert words in error.message
    assert "LINE 1" not in error.message


def test_an_unknown_table_has_a_hint(lake: Lake) -> None:
    """The nearest one that there is."""
    error = refused(lake, "SELECT * FROM sapns")
    assert error.message == "'sapns' is not a table of the lake"
    assert error.hint is not None
    assert error.hint == "did you mean spans? `SHOW TABLES` lists all"


def test_an_error_in_a_late_row_is_said_in_words_too(lake: Lake) -> None:
    """Results are streamed: the error comes when the reader is already in use."""
    sql = "SELECT CAST(CASE WHEN n < 3000000 THEN '1' ELSE 'x' END AS INT) FROM range(3000001) AS r(n)"
    assert "Could not convert" in refused(lake, sql).message


def test_a_lake_without_tables_is_said(tmp_path: Path) -> None:
    """With the command that makes them."""
    empty = Lake(LakeConfig(warehouse=str(tmp_path / "w")), CatalogConfig(path=str(tmp_path / "c.db")))
    with pytest.raises(TableMissing, match="the lake has no tables") as caught:
        run_query(empty, CONFIG, "SELECT 1", ACME)
    assert caught.value.hint == "run `neve init`"
