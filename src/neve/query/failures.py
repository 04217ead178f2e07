"""Errors of engines, told apart by what can be done about them."""

from __future__ import annotations

import re

import duckdb
import pyarrow as pa

from neve.errors import LimitExceeded, QueryError

GONE = ("No such file", "No files found", "404", "Not Found", "NoSuchKey", "Could not open file", "FileNotFound")
TOLD = re.compile(r"^([A-Z][A-Za-z ]*) Error: ")


class FilesGone(QueryError):
    """Raised when a file that was planned is no longer there: another snapshot has what took its place."""


class StoreAway(QueryError):
    """Raised when the store of the files does not answer."""


def said_of(error: Exception) -> Exception:
    """An engine's error in words, as a kind that callers can tell apart."""
    words = str(error).split("\n\nLINE ")[0].split("\n\nJVM stacktrace")[0].strip()
    kind = TOLD.match(words)
    if isinstance(error, duckdb.OutOfMemoryException) or (kind and kind[1] == "Out of Memory"):
        return LimitExceeded(
            f"the query needs more memory than it may have: {words.splitlines()[0]}",
            limit="memory",
            hint="ask for less time, fewer columns or fewer groups",
        )
    # An error behind the first rows comes through Arrow, as one of the system's with DuckDB's words.
    is_queries = kind is not None and kind[1] not in ("IO", "HTTP")
    if isinstance(error, duckdb.IOException) or (isinstance(error, OSError) and not is_queries):
        return _storage(words)
    if is_queries or isinstance(error, duckdb.Error | pa.ArrowException) or _is_sparks(error):
        return _storage(words) if any(word in words for word in GONE) else QueryError(words, hint=_hint(error))
    return error


def _is_sparks(error: Exception) -> bool:
    return type(error).__module__.partition(".")[0] in ("pyspark", "py4j")  # by name: most queries never load Spark


def _storage(words: str) -> QueryError:
    first = words.splitlines()[0] if words else "no reason given"
    if any(word in words for word in GONE):
        return FilesGone(f"files went away while they were read: {first}", hint="ask again")
    return StoreAway(
        f"the lake's storage does not answer: {first}", hint="ask again; `neve doctor` says what is reachable"
    )


def _hint(error: Exception) -> str | None:
    if isinstance(error, duckdb.CatalogException | duckdb.BinderException):
        return "`neve tables` lists the tables, `DESCRIBE spans` the columns of one"
    return None
