"""Statements that try to reach more than the asker's own rows."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import duckdb
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from sqlglot import exp

from neve.errors import QueryError
from neve.query.sql.functions import KNOWN, TABLE_FUNCTIONS
from neve.query.sql.nodes import ALLOWED
from neve.query.sql.references import SCAN
from neve.query.sql.statement import marked, parse
from neve.query.sql.translate import for_duckdb, for_spark
from tests.query.engines import SCHEMAS, duckdb_sources, open_duckdb
from tests.query.lakes import ACME, OTHER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duckdb import DuckDBPyConnection

    from neve.lake.lake import Lake

FILES = (
    "SELECT * FROM read_parquet('/etc/passwd')",
    "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT * FROM read_csv_auto('/etc/passwd')",
    "SELECT * FROM read_json('/etc/passwd')",
    "SELECT * FROM read_json_objects('/etc/passwd')",
    "SELECT * FROM read_ndjson('/etc/passwd')",
    "SELECT * FROM read_text('/etc/passwd')",
    "SELECT * FROM read_blob('/etc/passwd')",
    "SELECT * FROM read_duckdb('/tmp/x.db')",
    "SELECT * FROM parquet_scan('x')",
    "SELECT * FROM parquet_metadata('x')",
    "SELECT * FROM parquet_schema('x')",
    "SELECT * FROM parquet_kv_metadata('x')",
    "SELECT * FROM parquet_bloom_probe('x', 'a', 1)",
    "SELECT * FROM iceberg_scan('x')",
    "SELECT * FROM iceberg_metadata('x')",
    "SELECT * FROM glob('/etc/*')",
    "SELECT * FROM sniff_csv('/etc/passwd')",
    "SELECT * FROM arrow_scan(1, 2, 3)",
    "SELECT * FROM pandas_scan(1)",
    "SELECT * FROM '/etc/passwd'",
    "SELECT * FROM 'x.parquet'",
    'SELECT * FROM "x.parquet"',
    "SELECT * FROM 's3://bucket/key.parquet'",
    "SELECT * FROM spans, 'x.parquet'",
    "SELECT * FROM spans JOIN 'x.csv' ON true",
    "SELECT read_text('/etc/passwd')",
    "SELECT (SELECT content FROM read_text('/etc/passwd'))",
    "WITH x AS (SELECT * FROM read_text('/etc/passwd')) SELECT * FROM x",
    "SELECT * FROM spans WHERE EXISTS (FROM read_text('/etc/passwd'))",
    "SELECT * FROM spans ORDER BY (SELECT max(content) FROM read_text('/etc/passwd'))",
    "PIVOT 'x.parquet' ON a IN (1) USING count(*)",
    "PIVOT (FROM read_text('/etc/passwd')) ON filename IN ('a') USING max(content)",
    "SELECT * FROM (UNPIVOT 'x.parquet' ON a INTO NAME n VALUE v)",
    "SELECT * FROM main.read_text('/etc/passwd')",
    "SELECT * FROM system.main.read_text('/etc/passwd')",
    "SELECT * FROM \"read_text\"('/etc/passwd')",
    "SELECT * FROM READ_TEXT /* x */ ('/etc/passwd')",
    "SELECT * FROM LATERAL read_text('/etc/passwd')",
    "SELECT * FROM spans, LATERAL (SELECT * FROM read_text(spans.service_name)) t",
    "SELECT '/etc/passwd'.read_text()",
    "TABLE 'x.parquet'",
    "DESCRIBE 'x.parquet'",
    "DESCRIBE read_text('/etc/passwd')",
    "SUMMARIZE 'x.parquet'",
)
CATALOG = (
    "SELECT * FROM duckdb_settings()",
    "SELECT * FROM duckdb_secrets()",
    "SELECT * FROM duckdb_views",
    "SELECT * FROM duckdb_variables()",
    "SELECT * FROM duckdb_logs",
    "SELECT * FROM which_secret('s3://x', 's3')",
    "SELECT * FROM pragma_table_info('spans')",
    "SELECT * FROM pg_catalog.pg_views",
    "SELECT * FROM pg_tables",
    "SELECT * FROM sqlite_master",
    "SELECT * FROM information_schema.tables",
    "SELECT * FROM system.information_schema.columns",
    "SELECT * FROM memory.main.spans",
    "SELECT * FROM temp.spans",
    "SELECT * FROM other.spans",
    "SELECT * FROM spans AT (VERSION => 1)",
    "SELECT current_setting('s3_secret_access_key')",
    "SELECT getvariable('x')",
    "SELECT getenv('HOME')",
    "SELECT current_user, current_database(), version()",
    "SELECT nextval('x')",
    "SELECT * FROM query('SELECT 1')",
    "SELECT * FROM query_table('spans')",
    "SELECT * FROM json_execute_serialized_sql('{}')",
    "SELECT json_serialize_sql('SELECT 1')",
    "SELECT * FROM python_map_function(1)",
    "SELECT * FROM test_all_types()",
    "SELECT * FROM repeat_row(1, num_rows=5)",
    "SELECT * FROM (DESCRIBE spans)",
    "SELECT * FROM (SHOW ALL TABLES)",
    "SELECT * FROM (SUMMARIZE spans)",
    "SELECT write_log('x')",
    "SELECT sleep_ms(10000), pg_sleep(100)",
)
CHANGES = (
    ("COPY spans TO '/tmp/x'", "COPY"),
    ("COPY (SELECT * FROM spans) TO '/tmp/x'", "COPY"),
    ("EXPORT DATABASE '/tmp/x'", "EXPORT"),
    ("IMPORT DATABASE '/tmp/x'", "IMPORT"),
    ("ATTACH '/tmp/x.db' AS x", "ATTACH"),
    ("DETACH x", "DETACH"),
    ("USE memory", "USE"),
    ("SET memory_limit = '1TB'", "SET"),
    ("SET VARIABLE x = 1", "SET"),
    ("RESET memory_limit", "RESET"),
    ("PRAGMA database_list", "PRAGMA"),
    ("INSTALL httpfs", "INSTALL"),
    ("LOAD httpfs", "LOAD"),
    ("FORCE INSTALL httpfs", "FORCE"),
    ("CALL duckdb_settings()", "CALL"),
    ("CHECKPOINT", "CHECKPOINT"),
    ("VACUUM", "VACUUM"),
    ("ANALYZE", ""),
    ("CREATE TABLE x AS SELECT 1", "CREATE"),
    ("CREATE MACRO f() AS TABLE SELECT 1", "CREATE"),
    ("CREATE SECRET s (TYPE s3)", "CREATE"),
    ("DROP TABLE spans", "DROP"),
    ("ALTER TABLE spans ADD COLUMN x INT", "ALTER"),
    ("INSERT INTO spans SELECT * FROM spans", "INSERT"),
    ("UPDATE spans SET flags = 1", "UPDATE"),
    ("DELETE FROM spans", "DELETE"),
    ("TRUNCATE spans", "TRUNCATE"),
    ("MERGE INTO spans USING logs ON true WHEN MATCHED THEN DELETE", "MERGE"),
    ("WITH x AS (SELECT 1) DELETE FROM spans", "DELETE"),
    ("WITH x AS (DELETE FROM spans RETURNING *) SELECT * FROM x", ""),
    ("PREPARE x AS SELECT 1", "PREPARE"),
    ("EXECUTE x", "EXECUTE"),
    ("DEALLOCATE x", ""),
    ("BEGIN", ""),
    ("COMMENT ON TABLE spans IS 'x'", "COMMENT"),
    ("EXPLAIN ANALYZE COPY (SELECT 1) TO '/tmp/x'", "COPY"),
    ("EXPLAIN EXPLAIN SELECT 1", "EXPLAIN"),
    ("EXPLAIN ANALYZE INSERT INTO spans SELECT 1", "INSERT"),
)
TRICKS = (
    "SELECT 1; SELECT 2",
    "SELECT 1; DROP TABLE spans",
    "SELECT 1;\n-- x\nCOPY spans TO '/tmp/x'",
    "/* SELECT 1 */ COPY spans TO 'x'",
    "SELECT 1 /* ; */ ; /* */ ATTACH 'x'",
    "SHOW TABLES; DROP TABLE spans",
    "DESCRIBE spans; ATTACH 'x'",
    "SELECT '\0'; COPY spans TO 'x'",
    "SELECT 'x\0' FROM spans",
    "SELECT '\ud800'",
    "",
    " -- nothing",
    ";",
    "SELECT * INTO x FROM spans",
    "SELECT * FROM spans FOR UPDATE",
    "SELECT * FROM a POSITIONAL JOIN b",
    "SELECT * FROM spans POSITIONAL JOIN logs",
    "SELECT CAST(1 AS my_type)",
    "SELECT CAST('a' AS ENUM('a'))",
    "SELECT 'a' COLLATE nocase",
    "PIVOT spans ON service_name USING count(*)",
    "PIVOT spans ON service_name IN (SELECT 'a') USING count(*)",
    "SELECT * FROM (WITH a AS (SELECT 1 AS x) SELECT * FROM a) t, a",
    "WITH a AS (SELECT * FROM b), b AS (SELECT 1) SELECT * FROM a",
    "WITH a AS (SELECT * FROM a) SELECT * FROM a",
    "WITH RECURSIVE a AS (SELECT * FROM a) SELECT * FROM a",
    "WITH RECURSIVE a AS (SELECT * FROM a UNION ALL SELECT * FROM a) SELECT * FROM a",
    "WITH RECURSIVE spans AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM spans WHERE x < 5) SELECT * FROM spans",
    "WITH a AS (SELECT 1) SELECT * FROM main.a",
    "SELECT * FROM \u202espans",
    "\uff33\uff25\uff2c\uff25\uff23\uff34 * FROM 'x'",
    "SELECT * FROM spans\u200b",
    "SELECT 0x1F",
    "SELECT " + "(" * 300 + "1" + ")" * 300,
    "SELECT " + "NOT " * 5000 + "true",
    "SELECT " + "- " * 5000 + "1",
    "SELECT a" + "[1]" * 3000,
    "SELECT " + "abs(" * 250 + "1" + ")" * 250,
    "SELECT * FROM " + "(SELECT * FROM " * 250 + "spans" + ")" * 250,
    "SELECT " + "CASE WHEN true THEN " * 500 + "1" + " END" * 500,
    "SELECT '" + "x" * 100_001 + "'",
    "SELECT",
    "SELECT * FROM",
    "SELECT ((1)",
)
# What may be answered, with the asker's own rows only.
ANSWERED = (
    "SELECT * FROM logs",
    f"SELECT * FROM logs WHERE organization_id = '{OTHER}'",
    f"SELECT * FROM logs WHERE true OR organization_id = '{OTHER}'",
    f"SELECT * FROM logs HAVING true OR organization_id = '{OTHER}'",
    "SELECT * FROM telemetry.logs UNION ALL SELECT * FROM main.logs",
    "SELECT * FROM LOGS AS l, Logs AS m",
    "WITH logs AS (SELECT * FROM logs) SELECT * FROM logs",
    "WITH spans AS (SELECT message FROM logs) SELECT * FROM spans",
    "WITH x AS (SELECT * FROM logs) SELECT * FROM x AS logs, logs AS x",
    "SELECT (SELECT string_agg(message, ',') FROM logs) FROM spans",
    "SELECT * FROM logs l WHERE EXISTS (SELECT 1 FROM logs m WHERE m.organization_id <> l.organization_id)",
    'SELECT message AS "x\' OR 1=1 --" FROM logs',
    'SELECT message AS "a""b" FROM logs',
    "SELECT message || ''' FROM x; --' AS m FROM logs",
    "SELECT * FROM logs WHERE message <> '/* ''\" */' -- '",
    "SELECT * FROM logs /* \n */ WHERE 1 = 1 /* nested /* */ x */",
    "SELECT * FROM logs AS \"read_text('/etc/passwd')\"",
    "SELECT logs FROM logs",
    "SELECT COLUMNS(*) FROM logs",
    "SELECT COLUMNS(c -> c LIKE 'm%') FROM logs",
    "FROM logs",
    "TABLE logs",
    "SELECT * FROM (PIVOT logs ON severity_number IN (9, 17) USING count(*))",
    "SELECT $$' ; DROP$$ AS x, message FROM logs",
    "SELECT unnest([message]) FROM logs",
    "SELECT list_aggregate([1, 2], 'sum'), message FROM logs",
    "SELECT * FROM logs ANTI JOIN spans USING (organization_id)",
    "SELECT DISTINCT organization_id FROM logs FULL JOIN spans USING (organization_id)",
)


@pytest.fixture(scope="module")
def session(lake: Lake) -> Iterator[DuckDBPyConnection]:
    """A DuckDB that is confined to the lake's files, as in production."""
    with open_duckdb(lake) as connection:
        yield connection


@pytest.fixture(scope="module")
def plain() -> Iterator[DuckDBPyConnection]:
    """A DuckDB with nothing in it."""
    with duckdb.connect(config={}) as connection:
        yield connection


@pytest.mark.parametrize("sql", [*FILES, *CATALOG, *TRICKS])
def test_a_hostile_statement_is_refused(sql: str) -> None:
    """Before any engine sees it."""
    with pytest.raises(QueryError):
        parse(sql, SCHEMAS)


@pytest.mark.parametrize(("sql", "kind"), CHANGES)
def test_a_statement_that_changes_something_is_refused(sql: str, kind: str) -> None:
    """With its kind, where it has one."""
    with pytest.raises(QueryError) as caught:
        parse(sql, SCHEMAS)
    if kind:
        assert caught.value.message == f"got a statement of type {kind}, expected one that only reads"


@pytest.mark.parametrize("sql", ANSWERED)
def test_an_answer_has_the_askers_rows_only(sql: str, lake: Lake, session: DuckDBPyConnection) -> None:
    """Whatever the statement says, no other organization's row and no file of the machine is in its answer."""
    statement = parse(sql, SCHEMAS)
    text = for_duckdb(statement, duckdb_sources(lake, statement, ACME))
    try:
        said = str(session.execute(text).to_arrow_table().to_pylist())
    except duckdb.Error:
        said = ""
    assert "secret" not in said
    assert OTHER not in said.replace(f"'{OTHER}'", "")
    assert "root:" not in said


def test_answers_are_not_only_errors(lake: Lake, session: DuckDBPyConnection) -> None:
    """The test above proves something because most of its statements are answered with rows."""
    rows = 0
    for sql in ANSWERED:
        statement = parse(sql, SCHEMAS)
        try:
            text = for_duckdb(statement, duckdb_sources(lake, statement, ACME))
            rows += bool(session.execute(text).to_arrow_table().num_rows)
        except duckdb.Error:
            continue
    assert rows >= 20


@pytest.mark.parametrize("sql", FILES[:20])
def test_even_if_it_were_not_refused(sql: str, session: DuckDBPyConnection) -> None:
    """The engine itself is confined."""
    with pytest.raises(duckdb.Error):
        session.execute(sql).fetchall()


GOOD = (
    "spans",
    "logs",
    "a",
    "b",
    "main.spans",
    "telemetry.logs",
    "range(3) AS r",
    "unnest([1]) AS u(e)",
    "(FROM spans)",
)
BAD = ("'x.csv'", '"x.parquet"', "pg_views", "range", "read_text('x')", "glob('*')", "query('FROM spans')", "main.a")
CALLS = ("*", "1 AS x", "count(*)", "lower('X')", "range(3)", "read_text('x')", "getvariable('a')")
SOURCES = (*GOOD * 12, *BAD)


@st.composite
def selects(draw: st.DrawFn, depth: int = 2) -> str:
    """Statements of fragments, some of them hostile."""
    inner = [f"({draw(selects(depth=depth - 1))}) AS q"] if depth and draw(st.booleans()) else []
    source = draw(st.sampled_from((*SOURCES, *inner)))
    item = draw(st.sampled_from((*CALLS[:5] * 8, *CALLS[5:])))
    text = f"SELECT {item} FROM {source}"
    if draw(st.booleans()):
        text += f" {draw(st.sampled_from((',', 'CROSS JOIN', 'NATURAL JOIN')))} {draw(st.sampled_from(SOURCES))}"
    if draw(st.booleans()) and depth:
        text += f" WHERE EXISTS ({draw(selects(depth=depth - 1))})"
    if draw(st.booleans()) and depth:
        recursive = draw(st.sampled_from(("", "RECURSIVE ")))
        name = draw(st.sampled_from(("a", "b", "spans")))
        text = f"WITH {recursive}{name} AS ({draw(selects(depth=depth - 1))}) {text}"
    if draw(st.booleans()) and depth:
        text += f" UNION ALL ({draw(selects(depth=depth - 1))})"
    return text


@settings(max_examples=150, deadline=None)
@given(selects())
@example("WITH a AS (SELECT 1 AS x FROM spans) SELECT * FROM a UNION ALL SELECT 1 AS x FROM logs")
@example("SELECT 1 AS x FROM (WITH a AS (SELECT 1 AS x FROM range(3)) SELECT * FROM a) AS q")
def test_what_is_accepted_reads_nothing_else(plain: DuckDBPyConnection, sql: str) -> None:
    """By the tree that was checked, and by what DuckDB's own parser makes of the text that it would get."""
    try:
        statement = parse(sql, SCHEMAS)
    except QueryError:
        return
    tree = statement.tree
    defined = {node.alias.lower() for node in tree.find_all(exp.CTE)}
    for table in tree.find_all(exp.Table):
        function = table.this.name.lower() if isinstance(table.this, exp.Anonymous) else ""
        assert SCAN in table.meta or function in TABLE_FUNCTIONS or table.name.lower() in defined
    assert all(node.name.lower() in KNOWN for node in tree.find_all(exp.Anonymous))
    assert all(type(node) in ALLOWED for node in tree.walk())
    text = for_duckdb(statement, dict.fromkeys(marked(tree), "(SELECT 1 AS neve_source)"))
    tables, functions = read_by_duckdb(plain, text)
    assert functions <= TABLE_FUNCTIONS
    assert {name.lower() for name in tables} <= defined


def read_by_duckdb(connection: DuckDBPyConnection, sql: str) -> tuple[set[str], set[str]]:
    """The tables and table functions that DuckDB sees in a text; in one that it can't read, none."""
    [row] = connection.execute("SELECT json_serialize_sql(?::VARCHAR)", [sql]).fetchall()
    tree = json.loads(row[0])
    assert not tree.get("error") or "syntax error" in tree["error_message"], f"{sql}: {tree}"
    tables: set[str] = set()
    functions: set[str] = set()
    todo: list[Any] = [tree]
    while todo:
        node = todo.pop()
        if isinstance(node, dict):
            if node.get("type") == "BASE_TABLE":
                tables.add(".".join(filter(None, (node["schema_name"], node["table_name"]))))
            if node.get("type") == "TABLE_FUNCTION":
                functions.add(node["function"]["function_name"].lower())
            todo += node.values()
        elif isinstance(node, list):
            todo += node
    return tables, functions


@settings(max_examples=120, deadline=None)
@given(st.text(max_size=60), st.text(max_size=60))
def test_texts_and_names_come_through_unchanged(plain: DuckDBPyConnection, value: str, name: str) -> None:
    """A text is one text for the engine, whatever is in it; so is a name."""
    assume(name and "\0" not in name and not any("\ud800" <= letter <= "\udfff" for letter in name))
    quoted = name.replace('"', '""')
    try:
        statement = parse(f'SELECT ? AS "{quoted}"', SCHEMAS, [value])
    except QueryError:
        assert "\0" in value or any("\ud800" <= letter <= "\udfff" for letter in value)
        return
    answer = plain.execute(for_duckdb(statement, {}))
    assert answer.description[0][0] == name
    assert answer.fetchall() == [(value,)]


@given(st.text(alphabet=st.sampled_from("ab'\\${}:env\n\"`"), max_size=20))
def test_spark_gets_no_variables(value: str) -> None:
    """Spark puts settings and the environment into `${…}`, also within texts."""
    statement = parse("SELECT ? AS a, ? || 'x'", SCHEMAS, [value, value])
    assert "${" not in for_spark(statement, {})


def test_a_name_with_a_variable_is_kept_from_spark() -> None:
    """As above."""
    assert parse('SELECT 1 AS "${env:PATH}"', SCHEMAS).not_portable == "a name with ${"


@settings(max_examples=80, deadline=None)
@given(st.text(max_size=200))
def test_noise_is_refused_in_words(noise: str) -> None:
    """No text makes the parser fail in another way than by saying so."""
    with suppress(QueryError):
        assert parse(noise, SCHEMAS).normalised
