"""DuckDB gets what the user wrote: reading a statement and writing it anew changes nothing about its answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import duckdb
import pytest

from neve.errors import QueryError
from neve.query.sql.identifiers import KNOWN, VOLATILE
from neve.query.sql.statement import parse, write_for_duckdb

if TYPE_CHECKING:
    from collections.abc import Iterator

EXPRESSIONS = (
    "date_trunc('day', DATE '2024-01-05')",
    "date_trunc('week', TIMESTAMP '2024-01-05 10:00')",
    "date_trunc('hour', TIMESTAMPTZ '2024-01-05 10:20')",
    "time_bucket(INTERVAL '2 days', DATE '2024-01-05')",
    "time_bucket(INTERVAL '2 weeks', DATE '2024-01-05', INTERVAL '1 day')",
    "to_timestamp(1.5)",
    "starts_with('abc','a')",
    "trim('  a ')",
    "trim('xxaxx','x')",
    "substring('hello' FROM 2 FOR 2)",
    "substring('hello',2)",
    "position('l' in 'hello')",
    "extract('dow' from date '2024-01-01')",
    "extract(isodow from timestamp '2024-01-01')",
    "'abc' ^@ 'a'",
    "1::DECIMAL(5,2)",
    "'1'::DECIMAL",
    "'2024-01-01'::TIMESTAMP_MS",
    "'a'::CHAR(3)",
    "1::UTINYINT",
    "1::HUGEINT",
    "INTERVAL 5 DAYS",
    "INTERVAL '1' YEAR + INTERVAL '3 months'",
    "interval (1+1) day",
    "[1,2,3][1:2]",
    "[1,2,3][-1]",
    "'hello'[2:3]",
    "'hello'[2]",
    "{'a':1,'b':{'c':2}}.b.c",
    "MAP{'x':[1,2]}['x'][1]",
    "struct_pack(a:=1,b:=2)",
    "row(1,2)",
    "(1,2)",
    "[x+1 for x in [1,2,3] if x>1]",
    "list_transform([1,2],lambda x, i: x+i)",
    "list_reduce([1,2,3],(x,y)->x+y)",
    "case when 1=1 then 'a' end",
    "if(true,1,2)",
    "1 IS NOT NULL",
    "NULL IS NULL",
    "1 IN (1,2)",
    "1 NOT IN (2,3)",
    "NOT 1=2",
    "1 BETWEEN 0 AND 2",
    "'a' LIKE 'A'",
    "'a' ILIKE 'A'",
    "'a' NOT ILIKE 'A'",
    "'a%b' LIKE 'a!%b' ESCAPE '!'",
    "'a' SIMILAR TO 'a|b'",
    "'abc' ~ 'a.*'",
    "'abc' !~ 'b'",
    "-5 % 3",
    "5 // 2",
    "2^3^2",
    "2**3",
    "-2^2",
    "~5",
    "5 & 3",
    "5 | 3",
    "5 << 2",
    "xor(5,3)",
    "1 + NULL",
    "'a' || NULL",
    "true AND NULL",
    "DATE '2024-01-01' + 5",
    "TIMESTAMP '2024-01-01' - INTERVAL 1 MONTH",
    "TIMESTAMPTZ '2024-01-01 10:00:00+02' AT TIME ZONE 'Europe/Berlin'",
    "TIMESTAMP '2024-01-01 10:00' AT TIME ZONE 'UTC'",
    "CAST('x' AS BLOB)",
    "'\\xAB\\x01'::BLOB",
    "1e3",
    "1.0",
    "100000000000000000000",
    "-1.5e-3",
    "'it''s'",
    "'a\\nb'",
    "''",
    "'✓'",
    "coalesce(NULL,1,2)",
    "count(*)",
    "sum(x) from range(5) t(x)",
    "avg(x) from range(5) t(x)",
    "min(x), max(x) from range(5) t(x)",
    "max(x,2) from range(5) t(x)",
    "count(distinct x) from range(5) t(x)",
    "list(x order by x desc) from range(5) t(x)",
    "string_agg(x::varchar, '-' order by x) from range(5) t(x)",
    "quantile_cont(x,[0.1,0.5]) from range(5) t(x)",
    "percentile_cont(0.5) within group (order by x desc) from range(5) t(x)",
    "first(x order by x desc) from range(5) t(x)",
    "sum(x) filter (where x>2) from range(5) t(x)",
    "sum(x) over (order by x rows between 1 preceding and current row) from range(5) t(x)",
    "lag(x, 1, -1) over (order by x) from range(5) t(x)",
    "sum(x) over (order by x range between unbounded preceding and 1 following exclude current row) from range(5) t(x)",
    "x from range(5) t(x) order by x desc limit 2 offset 1",
    "distinct x%2 as k from range(5) t(x) order by 1",
    "x%2 as k, count(*) from range(5) t(x) group by all order by all",
    "unnest([1,2,3])",
    "unnest({'a':1,'b':2})",
    "a.x, b.x from range(3) a(x) join range(2) b(x) using (x) order by 1",
    "* from range(3) a(x) semi join range(2) b(x) using (x) order by 1",
    "* exclude (y) from (values (1,2)) t(x,y)",
    "* replace (x+1 as x) from (values (1,2)) t(x,y)",
    "columns('x|y') from (values (1,2,3)) t(x,y,z)",
    "columns(c -> c <> 'z') from (values (1,2,3)) t(x,y,z)",
    "min(columns(*)) from (values (1,2,3)) t(x,y,z)",
    "* rename (x as q) from (values (1,2)) t(x,y)",
    "distinct on (x%2) x from range(5) t(x) order by x%2, x desc",
    "x from range(9) t(x) qualify row_number() over (partition by x%3 order by x)=1 order by 1",
    "x, y from (values (1,'a'),(2,'b')) t(x,y) order by y desc",
    "* from (pivot (from (values (1,'a'),(2,'b'),(3,'a')) t(x,y)) on y in ('a','b') using sum(x))",
    "* from (values (1,'a'),(2,'b')) t(x,y) pivot (sum(x) for y in ('a','b'))",
    "* from (unpivot (select 1 as a, 2 as b) on a, b into name n value v)",
    "* from (select 1 as a, 2 as b) unpivot (v for n in (a,b))",
    "a.x, b.y from (values (1),(5)) a(x) asof join (values (0,'p'),(3,'q')) b(x,y) on a.x >= b.x order by 1",
    "x, grouping(x) from (values (1),(2)) t(x) group by rollup(x) order by all",
    "x, y, count(*) from (values (1,2)) t(x,y) group by cube(x,y) order by all",
    "x, y, count(*) from (values (1,2)) t(x,y) group by grouping sets ((x),(y),()) order by all",
    "x from (select 1 as x union all by name select 2 as x) order by 1",
    "* from (select 1 as x except select 2)",
    "* from (select 1 as x intersect all select 1)",
    "exists(select 1)",
    "1 = any(select 1)",
    "2 > all(select 1)",
    "1 = any([1,2])",
    "(select 5)",
    "x, l from range(3) t(x), lateral (select x*2 as l) order by 1",
    "t.x from unnest([3,4]) t(x)",
    "* from generate_series(1,3)",
    "* from range(1,10,4)",
    "u, o from unnest([3,4]) with ordinality t(u,o)",
    "regexp_extract('a-b','(a)-(b)',['x','y'])",
    "map_from_entries([(1,'a')])",
    "'{\"a\":{\"b\":5}}'->'a'->>'b'",
    "'{\"a\":5}'->>'$.a'",
    "json_extract('{\"a\":[1,2]}','$.a[0]')",
    "greatest(1,2,NULL)",
    "array[1,2]",
    "sum(x) as s from range(5) t(x) having s > 3",
    "x as a, a+1 as b from range(3) t(x) where a > 0 order by all",
    "nth_value(x,2) over (order by x) from range(4) t(x)",
    "sum(x) over w from range(3) t(x) window w as (order by x)",
    "last_value(x ignore nulls) over (order by x) from range(3) t(x)",
)
UNREAD = ("4!", "apply([1, 2, 3], lambda x : x + 1)")  # spellings of DuckDB that sqlglot does not know


@pytest.fixture(scope="module")
def plain() -> Iterator[duckdb.DuckDBPyConnection]:
    """A DuckDB with nothing in it."""
    with duckdb.connect(config={}) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        yield connection


def answer(connection: duckdb.DuckDBPyConnection, sql: str) -> tuple[list[str], str]:
    """The types and values of an answer."""
    result: Any = connection.execute(sql)
    types = [str(column[1]) for column in result.description]
    return types, "\n".join(column.to_string(window=1000) for column in result.to_arrow_table().columns)


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_an_expression_means_what_was_written(plain: duckdb.DuckDBPyConnection, expression: str) -> None:
    """Its type and its value are those of the text itself."""
    sql = f"SELECT {expression}"
    assert answer(plain, write_for_duckdb(parse(sql, {}), {})) == answer(plain, sql)


@pytest.mark.slow
def test_every_function_means_what_was_written(plain: duckdb.DuckDBPyConnection) -> None:
    """DuckDB has examples of its functions; nearly all of those that may be called are read."""
    examples = plain.execute("SELECT DISTINCT function_name, unnest(examples) FROM duckdb_functions()").fetchall()
    compared = 0
    for sql in [f"SELECT {example}" for name, example in examples if name in KNOWN - VOLATILE]:
        try:
            expected = answer(plain, sql)
        except duckdb.Error:
            continue  # some examples need tables
        try:
            statement = parse(sql, {})
        except QueryError:
            assert sql.removeprefix("SELECT ") in UNREAD
            continue
        assert answer(plain, write_for_duckdb(statement, {})) == expected, sql
        compared += 1
    assert compared > 300
