"""What a statement may do: read the views, and nothing else.

DuckDB's own parser says what a statement is. A statement that reads may still name files: by a function such as
`read_parquet`, or by a path where a table is expected. Both would go past the views that keep organizations apart.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from duckdb import StatementType

from neve.errors import QueryError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duckdb import DuckDBPyConnection

READS = (StatementType.SELECT, StatementType.EXPLAIN)
EXPLAIN = re.compile(r"^(\s|--[^\n]*\n|/\*.*?\*/)*explain\s+(analyze\s+)?", re.IGNORECASE | re.DOTALL)
# Functions that make rows of their arguments alone.
HARMLESS = {"range", "generate_series", "unnest", "repeat_row"}
# Names of DuckDB's own catalog, which tells where the files of the views are; two of them tell only names and types.
CATALOG = re.compile(r"^(duckdb_|pg_|sqlite_)", re.IGNORECASE)
CATALOG_SCHEMAS = {"pg_catalog", "information_schema"}
TELLING_NAMES = {"tables", "columns"}
PATH = re.compile(r"[./\\:*]")


def check_statement(connection: DuckDBPyConnection, sql: str) -> None:
    """Raise `QueryError` for anything but one statement that reads the lake's views; in doubt it is refused."""
    statements = connection.extract_statements(sql)
    one_as_written = ";" not in sql.strip().rstrip(";")  # DuckDB makes several statements of one PIVOT
    if not statements or (len(statements) != 1 and not one_as_written):
        raise QueryError(f"got {len(statements)} statements, expected one")
    kind = statements[-1].type
    if kind not in READS:
        raise QueryError(f"got a statement of type {kind.name}, expected one that only reads")
    if kind == StatementType.EXPLAIN:
        inner = EXPLAIN.sub("", sql, count=1)
        if inner == sql:
            raise QueryError("can't tell what is to be explained", hint="begin with EXPLAIN")
        check_statement(connection, inner)
        return
    for node in _nodes(_tree(connection, sql)):
        _check_node(node)


def _tree(connection: DuckDBPyConnection, sql: str) -> Any:
    """The statement as DuckDB parsed it; what DuckDB can't write down can't be checked, and is refused."""
    row = connection.execute("SELECT json_serialize_sql(?::VARCHAR)", [sql]).fetchone()
    tree = json.loads(row[0]) if row else {"error": True}
    if tree.get("error"):
        hint = "write a PIVOT as SELECT * FROM (PIVOT … ON column IN (…) USING …)"
        raise QueryError("this kind of statement can't be checked", hint=hint)
    return tree


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    if isinstance(tree, dict):
        yield tree
        for value in tree.values():
            yield from _nodes(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from _nodes(value)


def _check_node(node: dict[str, Any]) -> None:
    if node.get("type") == "TABLE_FUNCTION":
        name = node["function"]["function_name"]
        if name not in HARMLESS:
            raise QueryError(f"the function {name} can't be used in a query", hint="ask the tables by their names")
    if node.get("type") == "BASE_TABLE":
        _check_table(node["table_name"], node.get("schema_name") or "")


def _check_table(name: str, schema: str) -> None:
    of_catalog = schema.lower() in CATALOG_SCHEMAS and name.lower() not in TELLING_NAMES
    if PATH.search(name) or CATALOG.search(name) or of_catalog:
        raise QueryError(f"{name!r} is not a table of the lake", hint="`neve tables` lists the tables")
