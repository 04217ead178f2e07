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
EXPLAIN = re.compile(r"^\s*explain\s+(analyze\s+)?", re.IGNORECASE)
# Functions that make rows of their arguments alone.
HARMLESS = {"range", "generate_series", "unnest", "repeat_row", "duckdb_functions", "pragma_version"}


def check_statement(connection: DuckDBPyConnection, sql: str) -> None:
    """Raise `QueryError` for anything but one statement that reads the lake's views."""
    statements = connection.extract_statements(sql)
    one_as_written = ";" not in sql.strip().rstrip(";")  # DuckDB makes several statements of one PIVOT
    if not statements or (len(statements) != 1 and not one_as_written):
        raise QueryError(f"got {len(statements)} statements, expected one")
    kind = statements[-1].type
    if kind not in READS:
        raise QueryError(f"got a statement of type {kind.name}, expected one that only reads")
    inner = EXPLAIN.sub("", sql) if kind == StatementType.EXPLAIN else sql
    if inner != sql:
        check_statement(connection, inner)
        return
    for node in _nodes(_tree(connection, inner)):
        _check_node(node)


def _tree(connection: DuckDBPyConnection, sql: str) -> Any:
    """The statement as DuckDB parsed it; what it can't write down (a PIVOT, a SHOW) names no file by a function."""
    row = connection.execute("SELECT json_serialize_sql(?::VARCHAR)", [sql]).fetchone()
    return json.loads(row[0]) if row else {}


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
    if node.get("type") == "BASE_TABLE" and re.search(r"[./\\:*]", node["table_name"]):
        raise QueryError(f"{node['table_name']!r} is not a table", hint="`neve tables` lists the tables")
