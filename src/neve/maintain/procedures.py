"""Iceberg's procedures, called through Spark SQL: they run the same on Spark Connect."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from neve.lake.lake import Lake


def call(lake: Lake, procedure: str, table: str, arguments: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Call a procedure for a table; the first row that it answers with. Arguments are written in SQL."""
    given = {"table": text(lake.spark_name(table)), **(arguments or {})}
    listed = ", ".join(f"{name} => {value}" for name, value in given.items())
    rows = lake.spark.sql(f"CALL {lake.catalog_config.name}.system.{procedure}({listed})").collect()
    return rows[0].asDict() if rows else {}


def text(value: str) -> str:
    r"""A string in Spark's SQL.

    >>> print(text("it's a \\"))
    'it\'s a \\'
    """
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def quoted(name: str) -> str:
    """The name of a column, branch or tag.

    >>> quoted("a`b")
    '`a``b`'
    """
    return "`" + name.replace("`", "``") + "`"


def longs(values: Iterable[int]) -> str:
    """An array of 64-bit numbers; without the mark Spark would take small ones for 32 bits and refuse the array."""
    return f"array({', '.join(f'{value}L' for value in values)})"


def texts(values: Iterable[str]) -> str:
    """An array of strings."""
    return f"array({', '.join(map(text, values))})"


def options(values: Mapping[str, str]) -> str:
    """A map of strings."""
    return f"map({', '.join(text(part) for pair in values.items() for part in pair)})"


def moment(value: datetime, *, zoned: bool = True) -> str:
    """A moment to the microsecond; sessions of Neve are in UTC."""
    kind = "TIMESTAMP" if zoned else "TIMESTAMP_NTZ"
    return f"{kind} '{value.astimezone(UTC).strftime('%Y-%m-%d %H:%M:%S.%f')}'"
