"""Attacks on the walls between organizations, made so that any language and any door can be pointed at them.

A door is one way to ask the lake as one organization. `tests/query/test_doors.py` runs everything here through DuckDB
in this process, and in workers over HTTP; a door to another language adds its own statements and calls `check_door`.
The lake has a canary of another organization in every table: a text that no statement holds and no answer may hold.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
from hypothesis import strategies as st

from neve.lake.commit.append import append_once
from neve.lake.config import CatalogConfig, LakeConfig
from neve.lake.lake import Lake
from neve.lake.write.table_writer import Target, write_files
from neve.model.tables import TABLES
from tests.empty_tables import create_empty_tables
from tests.query.lakes import ACME, OTHER

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

CANARY = "canary-9b1f0c"
OWN = "own-row-of-acme"
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


class Door(Protocol):
    """One way to ask as the organization ACME."""

    def ask(self, statement: str) -> str:
        """All that comes back, rows or errors, as text."""


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
    "SELECT * FROM (SHOW ALL TABLES)",
    "SELECT * FROM information_schema.schemata",
    "SELECT * FROM information_schema.views",
    'SELECT * FROM information_schema."x.parquet"',
    "SELECT * FROM memory.information_schema.tables",
    "SELECT * FROM information_schema.tables AT (VERSION => 1)",
    "SELECT * FROM information_schema.tables('/etc/passwd')",
    "SELECT * FROM information_schema.tables TABLESAMPLE 10%",
    "SELECT * FROM (DESCRIBE 'x.parquet')",
    "SELECT * FROM (DESCRIBE read_text('/etc/passwd'))",
    "SELECT * FROM (DESCRIBE SELECT * FROM read_text('/etc/passwd'))",
    "SELECT * FROM (DESCRIBE information_schema.tables)",
    "SELECT * FROM (DESCRIBE other.spans)",
    "SELECT * FROM (SUMMARIZE 'x.parquet')",
    "SUMMARIZE read_text('/etc/passwd')",
    "SUMMARIZE SELECT * FROM read_text('/etc/passwd')",
    "SUMMARIZE SELECT * FROM 'x.parquet'",
    "SUMMARIZE FROM 'x.parquet'",
    "SUMMARIZE (SELECT * FROM other.spans)",
    "SUMMARIZE SELECT (SELECT max(content) FROM read_text('/etc/passwd')) FROM spans",
    "SUMMARIZE SELECT * FROM (SUMMARIZE 'x.parquet')",
    "SUMMARIZE SELECT * FROM (DESCRIBE SELECT 1)",
    "SUMMARIZE SELECT 1; COPY spans TO '/tmp/x'",
    "SUMMARIZE WITH a AS (FROM read_text('/etc/passwd')) FROM a",
    "SUMMARIZE VALUES ((SELECT content FROM read_text('/etc/passwd')))",
    "SELECT * FROM (SUMMARIZE SELECT * FROM duckdb_settings())",
    "SUMMARIZE other.spans",
    "SUMMARIZE memory.main.spans",
    "PIVOT 'x.parquet' ON a IN (1) USING count(*) ORDER BY 1",
    "UNPIVOT 'x.parquet' ON a INTO NAME n VALUE v ORDER BY n",
    "PIVOT spans ON span_kind IN (1) USING count(*)), (FROM read_text('/etc/passwd') ORDER BY 1",
    "PIVOT spans ON span_kind IN (1) USING count(*) ORDER BY (SELECT max(content) FROM read_text('/etc/passwd'))",
    "PIVOT spans ON span_kind IN (1) USING count(*) LIMIT 1; COPY spans TO '/tmp/x'",
    "SELECT list(read_text('/etc/passwd'))[1]",
    "SELECT list((SELECT content FROM read_text('/etc/passwd')))[1]",
    "SELECT list(service_name)[(SELECT count(*) FROM read_text('/etc/passwd'))] FROM spans",
    "SELECT * FROM spans FETCH FIRST (SELECT count(*) FROM read_text('/etc/passwd')) ROWS ONLY",
    "SELECT * FROM spans FETCH FIRST 1 ROWS WITH TIES",
    "SHOW DATABASES FROM 'x.parquet'",
    "SHOW TABLES FROM other",
    "SHOW TABLES FROM read_text('/etc/passwd')",
    "SHOW COLUMNS FROM 'x.parquet'",
    "SHOW COLUMNS FROM read_text('/etc/passwd')",
    "SHOW COLUMNS FROM logs; COPY logs TO '/tmp/x'",
    "SHOW ALL TABLES; ATTACH 'x'",
    "SELECT version(current_setting('s3_secret_access_key'))",
    "SELECT current_schemas(true), current_user",
    "SELECT ARRAY(SELECT content FROM read_text('/etc/passwd'))",
    "SELECT ARRAY(FROM 'x.parquet')",
    "SELECT date_bin((SELECT content FROM read_text('/etc/passwd')), timestamp) FROM spans",
    "SELECT * FROM logs WHERE message RLIKE (SELECT content FROM read_text('/etc/passwd'))",
    "SELECT * FROM spans WHERE trace_id IN ('01', read_text('/etc/passwd'))",
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
    "PIVOT spans ON * USING count(*)",
    "PIVOT spans ON COLUMNS(*) USING count(*)",
    "PIVOT 'x.parquet' ON a USING count(*)",
    "PIVOT (FROM read_text('/etc/passwd')) ON content USING count(*)",
    "PIVOT spans ON (SELECT content FROM read_text('/etc/passwd')) USING count(*)",
    "PIVOT spans ON read_text('/etc/passwd') USING count(*)",
    "WITH a AS (FROM 'x.parquet') PIVOT a ON content USING count(*)",
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
    "SUMMARIZE logs",
    "SUMMARIZE SELECT * FROM logs",
    "SUMMARIZE SELECT message AS \"x' FROM y; --\", organization_id FROM logs UNION ALL FROM (SELECT 'it''s', 'x')",
    "SUMMARIZE SELECT * FROM (SUMMARIZE SELECT * FROM logs)",
    "WITH logs AS (SELECT message FROM logs) SELECT * FROM (SUMMARIZE SELECT * FROM logs)",
    "SELECT * FROM (SUMMARIZE telemetry.logs) WHERE column_name = 'message'",
    "SELECT * FROM (DESCRIBE logs) AS d WHERE d.column_name LIKE '%'",
    "SELECT * FROM information_schema.tables",
    "SELECT information_schema.columns.column_name FROM information_schema.columns",
    "SELECT * FROM INFORMATION_SCHEMA.Columns c JOIN information_schema.tables t USING (table_name)",
    "WITH tables AS (SELECT message AS table_name FROM logs) SELECT * FROM tables, information_schema.tables AS t",
    "SELECT list(message)[1], list(organization_id ORDER BY message)[1:2] FROM logs",
    "PIVOT logs ON severity_number IN (9, 17) USING count(*) GROUP BY organization_id ORDER BY organization_id LIMIT 9",
    "UNPIVOT (SELECT message, organization_id FROM logs) ON message, organization_id INTO NAME n VALUE v ORDER BY n",
    "SELECT message FROM logs ORDER BY message FETCH FIRST 5 ROWS ONLY",
    "SELECT list_zip([message], [organization_id])::VARCHAR, row(message)::VARCHAR FROM logs",
    "SHOW ALL TABLES",
    "SHOW DATABASES",
    "SELECT version(), current_database(), current_schema(), message FROM logs",
    "SELECT ARRAY(SELECT message || organization_id FROM logs ORDER BY ALL)",
    "SELECT date_bin('1 day', timestamp), current_date, localtimestamp, message FROM logs",
    "SELECT message FROM logs WHERE message RLIKE '.' AND message NOT REGEXP 'own$'",
    f"SELECT * FROM logs WHERE trace_id <> '{'ff' * 16}' OR organization_id = '{OTHER}'",
    f"SELECT * FROM spans WHERE trace_id IN ('{'ff' * 16}', '{(CANARY + '...').encode().hex()}')",
    f"SELECT * FROM logs WHERE trace_id = '{(CANARY + '...').encode().hex()}' OR message IS NOT NULL",
)
# PIVOT without values: the first of two statements reads the values, with the asker's own rows only.
TWO_STATEMENTS = (
    "PIVOT logs ON message USING count(*) GROUP BY organization_id",
    "PIVOT logs ON organization_id || message USING max(message) ORDER BY ALL LIMIT 5",
    f"PIVOT (SELECT * FROM logs WHERE true OR organization_id = '{OTHER}') ON message, organization_id USING count(*)",
    "WITH logs AS (SELECT message FROM logs) PIVOT logs ON message USING count(*)",
    "WITH x AS (FROM logs), p AS (PIVOT x ON message USING count(*) GROUP BY organization_id) SELECT * FROM p",
    "SELECT * FROM (PIVOT (PIVOT logs ON message USING count(*) GROUP BY organization_id) ON organization_id)",
    "PIVOT (SELECT message || ''' FROM x; --' AS m FROM logs) ON m USING count(*)",
    "PIVOT (SELECT message || chr(34) || chr(39) || chr(92) AS m FROM logs) ON m USING count(*)",
    "SELECT * FROM logs, (PIVOT spans ON operation_name USING count(*) GROUP BY service_name) AS p",
    "EXPLAIN ANALYZE PIVOT logs ON message USING count(*)",
    "SUMMARIZE FROM (PIVOT logs ON message USING count(*) GROUP BY organization_id)",
    "PIVOT logs ON (SELECT max(message) FROM logs) USING count(*)",
    "PIVOT logs ON message || (SELECT string_agg(message) FROM spans, logs) USING count(*)",
    "SELECT * FROM spans AS s WHERE EXISTS (FROM (PIVOT logs ON s.service_name USING count(*)))",
)


def canary_lake(folder: Path) -> Lake:
    """A lake in which every table has a row of the asker and a canary of another organization."""
    warehouse = LakeConfig(warehouse=str(folder / "lake" / "warehouse"))
    lake = Lake(warehouse, CatalogConfig(path=str(folder / "catalog.db")))
    create_empty_tables(lake)
    for table in TABLES:
        for owner, text in ((ACME, OWN), (OTHER, CANARY)):
            values = [pa.array([_value(field, owner, text)], field.type) for field in table.schema]
            written = write_files(Target.of(lake.table(table.name)), pa.table(values, schema=table.schema))
            append_once(lake.table(table.name), written, batch_id=f"{owner}-{table.name}", operation="test")
    return lake


def _value(field: pa.Field, owner: str, text: str) -> Any:
    if field.name == "organization_id":
        return owner
    if pa.types.is_string(field.type):
        return text
    if pa.types.is_binary(field.type) or pa.types.is_fixed_size_binary(field.type):
        return text.encode().ljust(16, b".")[:16]
    if pa.types.is_timestamp(field.type):
        return NOW
    if pa.types.is_integer(field.type) or pa.types.is_floating(field.type):
        return 1
    return None if field.nullable else [] if pa.types.is_list(field.type) or pa.types.is_map(field.type) else False


def paths_of(lake: Lake) -> list[str]:
    """Everything that a thief would name: files, globs, metadata, and places that only a server knows."""
    warehouse = lake.lake.location.removeprefix("file://")
    files = [task.file.file_path.removeprefix("file://") for task in lake.table("logs").scan().plan_files()]
    return [
        *[path for path in files if OTHER in path],
        f"{warehouse}/telemetry/logs/data/**/*.parquet",
        f"{warehouse}/telemetry/logs/data/*/*/*.parquet",
        f"{warehouse}/telemetry/*/metadata/*.metadata.json",
        f"{warehouse}/.query/**/*.parquet",
        "lake/warehouse/telemetry/logs/data/*/*/*.parquet",
        "../../../../../../etc/passwd",
        "/etc/passwd",
        "/proc/self/environ",
        f"{warehouse}/../catalog.db",
    ]


# Letters that Unicode folds and DuckDB does not, or that look alike: the Kelvin sign, a dotted I, a long s, others.
LOOKALIKES = {
    "k": "\u212a",
    "i": "\u0130",
    "s": "\u017f",
    "a": "\uff41",
    "e": "\u0435",
    "o": "\u043e",
    "/": "\u2215",
}


def lookalikes(path: str) -> list[str]:
    """Names that some fold takes for another."""
    return [path.replace(letter, other) for letter, other in LOOKALIKES.items() if letter in path] + [
        path.upper(),
        path.title(),
        path + " ",
        path + "\u200b",
        path.replace("/", "//"),
    ]


# Every place in which a table may stand: {t} is what stands there, {n} a name that looks like it.
POSITIONS = (
    'SELECT * FROM "{t}"',
    "SELECT * FROM '{t}'",
    'FROM "{t}"',
    'TABLE "{t}"',
    'SUMMARIZE "{t}"',
    'SELECT * FROM (SUMMARIZE "{t}")',
    'SUMMARIZE SELECT * FROM "{t}"',
    'WITH "{n}" AS (SELECT 1 AS x) SELECT * FROM (SUMMARIZE SELECT * FROM "{t}")',
    'SELECT * FROM (DESCRIBE "{t}")',
    'SELECT * FROM information_schema."{t}"',
    'PIVOT "{t}" ON x IN (1) USING count(*) ORDER BY 1',
    'PIVOT "{t}" ON x USING count(*) ORDER BY 1',
    'WITH "{n}" AS (SELECT 1 AS x) PIVOT "{t}" ON x USING count(*)',
    'WITH "{n}" AS (SELECT 1 AS x), p AS (PIVOT "{n}" ON x) SELECT * FROM p, "{t}"',
    'SELECT * FROM (PIVOT logs ON (SELECT max(q::VARCHAR) FROM "{t}" AS q) USING count(*))',
    'SELECT ARRAY(SELECT q::VARCHAR FROM "{t}" AS q)',
    'SHOW COLUMNS FROM "{t}"',
    'SHOW TABLES FROM "{t}"',
    'WITH "{n}" AS (SELECT 1 AS x) UNPIVOT "{t}" ON x INTO NAME n VALUE v LIMIT 1',
    'WITH "{n}" AS (SELECT 1 AS x) SELECT * FROM "{t}"',
    'WITH "{n}" AS (SELECT 1 AS x), b AS (SELECT * FROM "{t}") SELECT * FROM b',
    'WITH "{n}" AS MATERIALIZED (SELECT 1 AS x) SELECT * FROM "{t}"',
    'WITH RECURSIVE "{n}" AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM "{t}" WHERE x < 3) SELECT * FROM "{t}"',
    'WITH RECURSIVE "{n}" AS (SELECT 1 AS x UNION ALL SELECT 2 FROM "{n}" WHERE x < 1) SELECT * FROM "{t}"',
    'WITH "{n}"(x) AS (VALUES (1)) SELECT * FROM "{t}" AS q',
    'SELECT * FROM (WITH "{n}" AS (SELECT 1) SELECT * FROM "{n}") AS q, "{t}"',
    'SELECT (WITH "{n}" AS (SELECT 1 AS x) SELECT string_agg(q::VARCHAR, chr(10)) FROM "{t}" AS q)',
    'WITH "{n}" AS (SELECT 1) SELECT * FROM logs WHERE EXISTS (FROM "{t}")',
    'WITH "{n}" AS (SELECT 1) SELECT * FROM logs WHERE message IN (SELECT message FROM "{t}")',
    'WITH "{n}" AS (SELECT 1) SELECT * FROM logs JOIN "{t}" ON true',
    'WITH "{n}" AS (SELECT 1) SELECT * FROM logs, "{t}"',
    'WITH "{n}" AS (SELECT 1) SELECT * FROM logs LEFT JOIN LATERAL (SELECT * FROM "{t}") AS q ON true',
    'WITH "{n}" AS (SELECT 1) SELECT * FROM logs SEMI JOIN "{t}" USING (organization_id)',
    'WITH "{n}" AS (SELECT 1) SELECT * FROM logs ASOF JOIN "{t}" USING (organization_id, timestamp)',
    'WITH "{n}" AS (SELECT 1) (SELECT 1) UNION ALL BY NAME (SELECT * FROM "{t}")',
    'WITH "{n}" AS (SELECT 1) SELECT 1 ORDER BY (SELECT max(q::VARCHAR) FROM "{t}" AS q)',
    'WITH "{n}" AS (SELECT 1) SELECT 1 LIMIT (SELECT count(*) FROM "{t}")',
    'WITH "{n}" AS (SELECT 1) SELECT count(*) FILTER (WHERE EXISTS (FROM "{t}")) FROM logs',
    'WITH "{n}" AS (SELECT 1) SELECT list_transform([1], x -> (SELECT max(q::VARCHAR) FROM "{t}" AS q))',
    'WITH "{n}" AS (SELECT 1) PIVOT "{t}" ON severity_number IN (1) USING max(message)',
    'WITH "{n}" AS (SELECT 1) FROM (UNPIVOT "{t}" ON message INTO NAME a VALUE b)',
    'WITH "{n}" AS (SELECT 1) SELECT * FROM "{t}" TABLESAMPLE 100%',
    'WITH "{n}" AS (SELECT 1) SELECT * FROM main."{t}"',
    'WITH "{n}" AS (SELECT 1) SELECT "{t}".* FROM "{t}"',
    'SELECT * FROM logs AS "{n}", "{t}"',
    'SELECT * FROM logs AS "{t}", LATERAL (SELECT * FROM "{t}") AS q',
    'EXPLAIN ANALYZE WITH "{n}" AS (SELECT 1) SELECT * FROM "{t}"',
    'DESCRIBE "{t}"',
    'SUMMARIZE "{t}"',
    "SELECT * FROM read_parquet('{t}')",
    "SELECT * FROM \"read_parquet\"(['{t}'])",
    "SELECT * FROM unnest((SELECT list(q) FROM read_parquet('{t}') AS q))",
    "SELECT * FROM range(1), glob('{t}')",
    "SELECT * FROM query('FROM ''{t}'' ')",
    "SELECT content FROM read_text('{t}')",
    "WITH RECURSIVE t AS (SELECT 1 AS x UNION ALL SELECT 2 FROM '{t}') SELECT * FROM t",
)
HIDDEN = 'WITH "{n}" AS (SELECT 1 AS x) SELECT * FROM "{t}"'
AROUND = (
    "SELECT * FROM ({s}) AS q",
    'WITH "{n}" AS ({s}) SELECT * FROM "{n}"',
    "SELECT * FROM logs WHERE EXISTS ({s})",
    "SELECT (SELECT string_agg(q::VARCHAR, chr(10)) FROM ({s}) AS q) AS x",
    "{s} UNION ALL {s}",
    "/* {n} */ {s} -- {n}",
)


def named_attacks(lake: Lake) -> list[str]:
    """Every position with everything that must not be read there."""
    found = []
    for path in paths_of(lake):
        names = [path, *lookalikes(path)]
        for place, position in enumerate(POSITIONS):
            found.append(position.format(t=path.replace("'", "''"), n=names[place % len(names)]))
        found += [HIDDEN.format(t=path, n=name) for name in names]
    return found


def fixed_attacks() -> list[str]:
    """Statements that name no place of the lake."""
    return [*FILES, *CATALOG, *(sql for sql, _ in CHANGES), *TRICKS, *ANSWERED, *TWO_STATEMENTS]


@st.composite
def generated_attacks(draw: st.DrawFn, paths: Iterable[str]) -> str:
    """Statements of any position, nesting, quoting and spelling."""
    path = draw(st.sampled_from([*paths, "logs", "spans", "queries", "neve_with_0", "neve_source_0", "x"]))
    name = draw(st.sampled_from([path, *lookalikes(path)]) | st.text(min_size=1, max_size=12))
    name = name.replace('"', '""').replace("*/", "").replace("\n", "")
    position = draw(st.sampled_from(POSITIONS))
    if draw(st.integers(0, 9)) == 0:
        position = position.replace('"', draw(st.sampled_from(("'", "", "$$"))))
    statement = position.format(t=path, n=name)
    for _ in range(draw(st.integers(0, 3))):
        statement = draw(st.sampled_from(AROUND)).replace("{s}", statement).replace("{n}", name)
    return statement


def check_answer(answer: str) -> None:
    """Raise `AssertionError` for an answer that holds what its asker may not see."""
    assert CANARY not in answer
    assert "root:x:" not in answer
    assert "SQLite format" not in answer


def check_door(door: Door, statements: Iterable[str]) -> int:
    """Ask everything through a door; returns how many answers held rows of the asker's own."""
    own = 0
    for statement in statements:
        answer = door.ask(statement)
        try:
            check_answer(answer)
        except AssertionError as error:
            raise AssertionError(f"{statement!r} was answered with {answer[:500]}") from error
        own += OWN in answer
    return own
