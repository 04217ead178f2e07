"""Both engines give the same answer to the same statement, or Spark is not asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa
import pytest

from neve.errors import QueryError
from neve.lake.config import CatalogConfig, LakeConfig, SparkConfig
from neve.lake.lake import Lake
from neve.query.sql.statement import parse, write_for_spark
from tests.each_time import each_time
from tests.empty_tables import create_empty_tables
from tests.query.dialect_queries import ALL, FAILING, NOT_PORTABLE
from tests.query.engines import SCHEMAS, ask_duckdb, ask_spark, cache_for_spark, differences, fill, open_duckdb

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duckdb import DuckDBPyConnection
    from pyspark.sql import SparkSession

CHANGED = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.adaptive.enabled": "false",
}


@pytest.fixture(scope="module")
def rich_lake(tmp_path_factory: pytest.TempPathFactory, iceberg: None) -> Lake:
    """A lake of two organizations with all that is hard."""
    folder = tmp_path_factory.mktemp("dialects")
    lake = Lake(
        LakeConfig(warehouse=str(folder / "warehouse")),
        CatalogConfig(name="dialects", path=str(folder / "catalog.db")),
        spark_config=SparkConfig(master="local[2]", log_file=str(folder / "spark.log")),
    )
    create_empty_tables(lake)
    return fill(lake)


@pytest.fixture(scope="module")
def duckdb_session(rich_lake: Lake) -> Iterator[DuckDBPyConnection]:
    """One DuckDB for all statements."""
    with open_duckdb(rich_lake) as connection:
        yield connection


@pytest.fixture(scope="module")
def spark_session(spark: SparkSession, rich_lake: Lake) -> Iterator[SparkSession]:
    """The shared session, set up for many small queries and set back afterwards."""
    assert rich_lake.spark is spark
    before = {key: str(spark.conf.get(key)) for key in CHANGED}
    for key, value in CHANGED.items():
        spark.conf.set(key, value)
    cache_for_spark(spark, rich_lake)
    yield spark
    spark.catalog.clearCache()
    for key, value in before.items():
        spark.conf.set(key, value)


def is_ordered(sql: str) -> bool:
    """Whether the rows of the answer have an order: the last ORDER BY is not within parentheses."""
    return "ORDER BY" in sql.upper().rsplit(")", 1)[-1]


@pytest.mark.parametrize("sql", each_time(ALL, one_in=4))
def test_both_engines_answer_alike(
    sql: str, rich_lake: Lake, duckdb_session: DuckDBPyConnection, spark_session: SparkSession
) -> None:
    """Names, kinds, rows, and their order where there is one."""
    expected = ask_duckdb(duckdb_session, rich_lake, sql)
    assert expected.num_rows
    assert differences(expected, ask_spark(spark_session, sql), ordered=is_ordered(sql)) == []


@pytest.mark.parametrize("sql", FAILING)
def test_both_engines_fail_alike(
    sql: str, rich_lake: Lake, duckdb_session: DuckDBPyConnection, spark_session: SparkSession
) -> None:
    """What is an error in one is no answer in the other."""
    with pytest.raises(duckdb.Error):
        ask_duckdb(duckdb_session, rich_lake, sql)
    with pytest.raises(Exception, match=r"SQLSTATE|convert|logarithm|square root"):
        ask_spark(spark_session, sql)


@pytest.mark.parametrize(
    ("sql", "wrong"),
    [
        ("SELECT flags / 7 AS a FROM spans", "SELECT flags DIV 7 AS a FROM cached_acme_spans"),
        ("SELECT flags % 7 AS a FROM spans", "SELECT flags % 8 AS a FROM cached_acme_spans"),
        (
            "SELECT DISTINCT service_name FROM spans ORDER BY service_name",
            "SELECT DISTINCT service_name FROM cached_acme_spans ORDER BY service_name",
        ),
        ("SELECT round(1.005::DOUBLE, 2) AS a", "SELECT round(1.005D, 2) AS a"),
        ("SELECT count(*) AS n FROM spans", "SELECT count(*) AS m FROM cached_acme_spans"),
        ("SELECT flags FROM spans", "SELECT flags FROM cached_acme_spans LIMIT 9"),
        ("SELECT floor(duration_ms) AS a FROM spans", "SELECT floor(duration_ms) AS a FROM cached_acme_spans"),
    ],
)
def test_a_wrong_translation_is_noticed(
    sql: str,
    wrong: str,
    rich_lake: Lake,
    duckdb_session: DuckDBPyConnection,
    spark_session: SparkSession,
) -> None:
    """The comparison can fail: these are what a careless translation gives."""
    expected = ask_duckdb(duckdb_session, rich_lake, sql)
    assert differences(expected, spark_session.sql(wrong).toArrow(), ordered=is_ordered(sql))


def test_differences_of_values_are_found() -> None:
    """In numbers, nulls, order, and kinds."""
    one = pa.table({"a": [1.0, 2.0, None]})
    assert differences(one, one, ordered=True) == []
    assert differences(one, pa.table({"a": [1.0 + 1e-12, 2.0, None]}), ordered=True) == []
    assert differences(one, pa.table({"a": [1.0 + 1e-6, 2.0, None]}), ordered=True)
    assert differences(one, pa.table({"a": [2.0, 1.0, None]}), ordered=True)
    assert differences(one, pa.table({"a": [2.0, 1.0, None]}), ordered=False) == []
    assert differences(one, pa.table({"a": [1.0, 2.0, 0.0]}), ordered=False)
    assert differences(one, pa.table({"a": ["1.0", "2.0", None]}), ordered=False)


@pytest.mark.slow
def test_there_are_enough_queries() -> None:
    """Each with a name of its own, and all of them portable."""
    assert len({name for name, _ in ALL}) == len(ALL) >= 170
    assert [(name, reason) for name, sql in ALL if (reason := parse(sql, SCHEMAS).not_portable)] == []


@pytest.mark.parametrize(("sql", "reason"), NOT_PORTABLE)
def test_what_spark_would_answer_differently_is_kept_from_it(sql: str, reason: str) -> None:
    """With the reason."""
    statement = parse(sql, SCHEMAS)
    assert reason in statement.not_portable
    with pytest.raises(QueryError, match="Spark can't answer this as DuckDB does"):
        write_for_spark(statement, {})
