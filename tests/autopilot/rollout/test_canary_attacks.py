"""Text of strangers from query logs: what could do more than read tables is never run, and the report says why."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from neve.autopilot.rollout.canary_engine import SparkEngine
from neve.autopilot.rollout.canary_queries import CanaryQuery, PreparedQuery, UnsuitableQuery, prepare_query
from neve.autopilot.rollout.statement_allowlist import find_refusal
from tests.autopilot.rollout.test_canary import SIDES

if TYPE_CHECKING:
    from neve.lake.lake import Lake

FUNCTIONS = (
    "reflect('java.lang.System', 'getenv', 'HOME')",
    "java_method('java.lang.Runtime', 'getRuntime')",
    "try_reflect('java.lang.System', 'exit', 1)",
    "Reflect('java.lang.System', 'getenv')",
    "`reflect`('java.lang.System', 'getenv')",
    "system.reflect('java.lang.System', 'getenv')",
    "lake.system.count(id)",
    "input_file_name()",
    "input_file_block_start()",
    "current_user()",
    "session_user()",
    "current_database()",
    "version()",
    "spark_partition_id()",
    "monotonically_increasing_id()",
    "from_avro(payload, '{}')",
    "from_protobuf(payload, 'x', '/etc/passwd')",
    "from_csv(payload, 'a INT')",
    "from_xml(payload, 'a INT')",
    "xpath(payload, '/a')",
    "aes_decrypt(payload, 'k')",
    "assert_true(false)",
    "raise_error('x')",
    "sequence(1, 1000000000)",
    "repeat('x', 1000000000)",
    "space(1000000000)",
    "my_udf(id)",
    "identifier('id')",
    "IDENTIFIER('re' || 'flect')('a', 'b')",
    "ai_query('model', payload)",
    "http_get('http://169.254.169.254')",
    "getvariable('x')",
)
STATEMENTS = (
    "SELECT TRANSFORM(id) USING 'sh -c id' AS (x) FROM orders",
    "SELECT '${env:HOME}' FROM orders",
    "SELECT '${spark.hadoop.fs.s3a.secret.key}' FROM orders",
    "SELECT id AS `${system:user.home}` FROM orders",
    "SELECT * FROM orders, range(1000000000)",
    "SELECT * FROM orders, read_files('/etc')",
    "SELECT * FROM orders CROSS JOIN explode(sequence(1, 1000000))",
    "SELECT * FROM orders, IDENTIFIER('secrets')",
    "SELECT * FROM orders JOIN lake.shop.orders.snapshots",
    "SELECT * FROM orders JOIN `a`.`b`.`c`.`d`",
    "SELECT * FROM orders VERSION AS OF 3",
    "SELECT * FROM orders TIMESTAMP AS OF '2020-01-01'",
    "SELECT * FROM orders WHERE id = :parameter",
    "SELECT * FROM orders WHERE id = ?",
    "SELECT * FROM orders LATERAL VIEW java_method('a', 'b') t AS x",
    "SELECT * FROM orders LATERAL VIEW stack(1000000, id) t AS x",
    "WITH \u212aeys AS (SELECT 1) SELECT * FROM orders",
    "SELECT * FROM orders WHERE id IN (SELECT reflect('a', 'b'))",
    "SELECT * FROM orders ORDER BY reflect('a', 'b')",
    "SELECT sum(id) FILTER (WHERE reflect('a', 'b') = 'c') FROM orders",
    "SELECT count(*) OVER (PARTITION BY reflect('a', 'b')) FROM orders",
    "SELECT filter(tags, x -> reflect('a', 'b') = x) FROM orders",
)
HONEST = (
    "SELECT date_trunc('hour', at), count(*), avg(price), max(price) FROM orders WHERE tags['a'] = 'b' GROUP BY 1",
    "SELECT lower(name), coalesce(a, b), CASE WHEN x > 1 THEN 2 END FROM orders WHERE n LIKE 'a' AND x BETWEEN 1 AND 2",
    "SELECT count(DISTINCT id), approx_count_distinct(x), percentile(x, 0.9) FROM orders WHERE at > current_timestamp",
    "SELECT o.id, rank() OVER (PARTITION BY a ORDER BY b) FROM orders o LEFT JOIN shop.items i ON i.id = o.id",
    "SELECT * FROM orders LATERAL VIEW explode(tags) t AS k, v WHERE v RLIKE 'x'",
    "SELECT get_json_object(s, '$.a'), size(a), element_at(m, 'k'), array_contains(a, 1), 1.5 FROM orders",
    "SELECT at + INTERVAL 1 DAY, year(at), date_format(at, 'yyyy-MM'), unix_timestamp(at), datediff(a, b) FROM orders",
    "SELECT CAST(x AS DECIMAL(9, 2)) FROM orders UNION ALL SELECT b FROM orders EXCEPT SELECT c FROM orders",
    "WITH orders AS (SELECT * FROM orders WHERE id > 1), more AS (SELECT * FROM Orders) SELECT * FROM MORE",
    "SELECT transform(tags, x -> x || 'a'), exists(tags, x -> x = 1) FROM orders",
)


def refusal(text: str, dialect: str = "spark") -> str:
    """Return the reason why a query is not allowed in a canary."""
    found = prepare_query(CanaryQuery(text, dialect=dialect), SIDES)
    assert isinstance(found, UnsuitableQuery), found
    return found.reason


@pytest.mark.parametrize("call", FUNCTIONS)
@pytest.mark.parametrize("dialect", ["spark", "trino", "clickhouse", "duckdb"])
def test_functions_that_are_not_known_are_not_called(call: str, dialect: str) -> None:
    """Whatever log the text comes from; some are refused before, because another engine could not have parsed them."""
    reason = refusal(f"SELECT {call}, id FROM orders", dialect)
    assert any(words in reason for words in ("not allowed in a canary: ", "can't be parsed", "not deterministic"))
    assert "HOME" not in reason


@pytest.mark.parametrize("call", FUNCTIONS)
def test_functions_are_refused_as_spark_would_read_them(call: str) -> None:
    """Without the help of the other reasons."""
    assert find_refusal(f"SELECT {call} FROM `m`", {"m"}, "lake")


@pytest.mark.parametrize("text", STATEMENTS)
def test_statements_that_do_more_than_read_tables_are_refused(text: str) -> None:
    """Scripts, settings, functions for tables, other versions, parameters, in whatever place."""
    assert refusal(text).startswith("not allowed in a canary: ")


@pytest.mark.parametrize("text", HONEST)
def test_what_people_ask_is_still_asked(text: str) -> None:
    """The list is long enough for the queries that layouts are made for."""
    found = prepare_query(CanaryQuery(text), SIDES)
    assert isinstance(found, PreparedQuery), found
    assert not find_refusal(found.main, {"m"}, "lake")


def test_a_name_of_an_inner_with_hides_nothing_outside() -> None:
    """Else the name outside would be whatever the session knows by it."""
    found = prepare_query(
        CanaryQuery("SELECT * FROM orders JOIN (WITH items AS (SELECT 1) SELECT * FROM items) JOIN items"), SIDES
    )
    assert isinstance(found, PreparedQuery)
    assert "JOIN (SELECT * FROM items) ON TRUE JOIN `lake`.`shop`.items AS `items`" in found.main
    own = prepare_query(CanaryQuery("WITH orders AS (SELECT * FROM orders) SELECT * FROM orders"), SIDES)
    assert isinstance(own, PreparedQuery)
    assert own.main.endswith("WITH orders AS (SELECT * FROM `m` AS `orders`) SELECT * FROM orders")


def test_hints_are_left_out_and_said() -> None:
    """They change no answer, and may cost the driver its memory."""
    found = prepare_query(
        CanaryQuery("SELECT /*+ BROADCAST(items), REPARTITION(1000000) */ * FROM orders JOIN items"), SIDES
    )
    assert isinstance(found, PreparedQuery)
    assert "REPARTITION" not in found.main
    assert found.remarks == ("run without its hints, which do not change the result",)


def test_a_text_that_is_nested_without_end_is_refused() -> None:
    """It must not stop the canary of other queries."""
    assert refusal(f"SELECT {'(' * 5000}1{')' * 5000} FROM orders")


def test_spark_does_not_put_its_environment_into_a_text(spark_lake: Lake) -> None:
    """Also where the check had missed it: the session leaves the text as it is."""
    session = SparkEngine(spark_lake, "spans", 10).session
    assert session is not spark_lake.spark
    [row] = session.sql("SELECT '${env:HOME}' AS a, '${spark.app.name}' AS b").collect()
    assert (row.a, row.b) == ("${env:HOME}", "${spark.app.name}")
    assert spark_lake.spark.sql("SELECT '${spark.app.name}' AS b").collect()[0].b != row.b  # as it was before
