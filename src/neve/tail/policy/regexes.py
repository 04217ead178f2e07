"""Regular expressions are RE2's, in the collector and in DuckDB alike; what DuckDB can't compile is refused."""

from __future__ import annotations

from functools import cache, lru_cache

import duckdb


def complaint_of(pattern: str) -> str | None:
    """What is wrong with a pattern, or nothing."""
    try:
        matches_empty(pattern)
    except duckdb.Error as error:
        return str(error).removeprefix("Invalid Input Error: ").splitlines()[0]
    return None


@lru_cache(1024)
def matches_empty(pattern: str) -> bool:
    """Whether a pattern finds itself in an empty text."""
    row = _connection().cursor().execute("SELECT regexp_matches('', ?)", [pattern]).fetchone()
    return bool(row and row[0])


@cache
def _connection() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(config={"threads": 1})
