"""Call Iceberg's procedures through Spark SQL, which also works on Spark Connect."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from neve.lake.lake import Lake


def call_procedure(
    lake: Lake, procedure: str, table: str, arguments: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Call a procedure for a table and return the first row of its result. Arguments are SQL expressions."""
    given = {"table": quote_text(lake.spark_name(table)), **(arguments or {})}
    listed = ", ".join(f"{name} => {value}" for name, value in given.items())
    rows = lake.spark.sql(f"CALL {lake.catalog_config.name}.system.{procedure}({listed})").collect()
    return rows[0].asDict() if rows else {}


def quote_text(value: str) -> str:
    r"""Quote a string for Spark SQL.

    >>> print(quote_text("it's a \\"))
    'it\'s a \\'
    """
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def quote_name(name: str) -> str:
    """Quote the name of a column, branch or tag.

    >>> quote_name("a`b")
    '`a``b`'
    """
    return "`" + name.replace("`", "``") + "`"


def format_longs(values: Iterable[int]) -> str:
    """Format an array of 64-bit numbers.

    Without the suffix Spark parses small ones as 32 bits and rejects the array.
    """
    return f"array({', '.join(f'{value}L' for value in values)})"


def format_texts(values: Iterable[str]) -> str:
    """Format an array of strings."""
    return f"array({', '.join(map(quote_text, values))})"


def format_options(values: Mapping[str, str]) -> str:
    """Format a map of strings."""
    return f"map({', '.join(quote_text(part) for pair in values.items() for part in pair)})"


def format_timestamp(value: datetime, *, zoned: bool = True) -> str:
    """Format a moment in microseconds. Neve's sessions are in UTC."""
    kind = "TIMESTAMP" if zoned else "TIMESTAMP_NTZ"
    return f"{kind} '{value.astimezone(UTC).strftime('%Y-%m-%d %H:%M:%S.%f')}'"
