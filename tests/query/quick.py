"""DuckDB without checking the signatures of its extensions, which is nine tenths of what a connection costs.

A check takes 0.4 CPU seconds. Query workers are processes of their own and check them in tests, too.
"""

from typing import Any

import duckdb

connect = duckdb.connect


def connect_quickly(
    database: str = ":memory:", *, config: dict[str, Any] | None = None, **more: Any
) -> duckdb.DuckDBPyConnection:
    """In place of `duckdb.connect`, as Neve and tests call it."""
    return connect(database, config={**(config or {}), "allow_unsigned_extensions": "true"}, **more)
