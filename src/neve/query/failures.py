"""Errors of engines, told apart by what can be done about them."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa
from sqlalchemy.exc import InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as NoConnection

from neve.errors import LakeError, LimitExceeded, QueryError

if TYPE_CHECKING:
    from collections.abc import Iterator

GONE = ("No such file", "No files found", "404", "Not Found", "NoSuchKey", "Could not open file", "FileNotFound")
CLIENTS = ("botocore", "requests", "urllib3")  # what pyiceberg reaches catalogs and stores with
UNAVAILABLE = "the lake does not answer now"
FAILED = "the server failed; its log says why"
# Addresses of stores, and paths and addresses of files that engines and catalogs keep; not any text with slashes, which
# may be the user's own.
PLACES = re.compile(
    r"""(?:\b(?:s3[an]?|gs|abfss?|wasbs?|hdfs|file|memory|jdbc:\w+|postgres(?:ql)?|rediss?)://?[^\s'"`,;)\]}]+"""
    r"""|(?:\bhttps?:/|(?<![\w./-]))/(?:[^\s'"`,;()/]+/)++[^\s'"`,;()/]*\.(?:parquet|json|avro|puffin|arrow|tmp|db|jar|py|so|\w+_extension))"""
)
TOLD = re.compile(r"^([A-Z][A-Za-z ]*) Error: ")


class FilesGone(QueryError):
    """Raised when a file that was planned is no longer there: another snapshot has what took its place."""


class StoreAway(QueryError):
    """Raised when the store of the files does not answer."""


def public_words(error: Exception) -> str:
    """An error as whoever asked may read it: nothing of where the lake is. Its own words belong into the log."""
    if isinstance(error, FilesGone | StoreAway | LakeError):
        return UNAVAILABLE
    return hide_places(error.message) if isinstance(error, QueryError) else FAILED


def hide_places(words: str) -> str:
    """Words without addresses of stores and paths of the lake's files.

    >>> hide_places("can't read '/srv/lake/warehouse/telemetry/logs/data/x.parquet': 3 bytes, in s3://b/k")
    "can't read '…': 3 bytes, in …"
    >>> hide_places("can't convert '/api/v1/cart' to INT32")
    "can't convert '/api/v1/cart' to INT32"
    """
    return PLACES.sub("…", words)


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


@contextmanager
def planning() -> Iterator[None]:
    """Turn what planning meets, of catalogs, of stores and of statements that are too deep, into a kind of its own."""
    try:
        yield
    except Exception as error:
        told = planning_words(error)
        if told is error:
            raise
        raise told from error


def planning_words(error: Exception) -> Exception:
    """An error from before anything runs, as a kind that callers can tell apart; others are given back."""
    first = (str(error).splitlines() or [type(error).__name__])[0]
    match error:
        case QueryError():
            return error
        case FileNotFoundError():
            return FilesGone(f"files of the table's metadata went away: {first}", hint="ask again")
        case RecursionError():
            return QueryError("the statement is nested too deeply", hint="name its parts with WITH")
        case OperationalError() | InterfaceError() | NoConnection():
            return _away("catalog", first)
        case OSError():
            return _away("storage", first)
    return _away("catalog or storage", first) if type(error).__module__.partition(".")[0] in CLIENTS else error


def _is_sparks(error: Exception) -> bool:
    return type(error).__module__.partition(".")[0] in ("pyspark", "py4j")  # by name: most queries never load Spark


def _storage(words: str) -> QueryError:
    first = words.splitlines()[0] if words else "no reason given"
    if any(word in words for word in GONE):
        return FilesGone(f"files went away while they were read: {first}", hint="ask again")
    return _away("storage", first)


def _away(what: str, words: str) -> StoreAway:
    hint = "ask again; `neve doctor` says what is reachable"
    return StoreAway(f"the lake's {what} does not answer: {words}", hint=hint)


def _hint(error: Exception) -> str | None:
    if isinstance(error, duckdb.CatalogException | duckdb.BinderException):
        return "`neve tables` lists the tables, `DESCRIBE spans` the columns of one"
    return None
