"""Classify errors of engines, catalogs and stores, and hide locations of the lake in messages to clients."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa

from neve.errors import LakeError, LimitExceeded, QueryError

if TYPE_CHECKING:
    from collections.abc import Iterator

MISSING_FILE_MESSAGES = (
    "No such file",
    "No files found",
    "404",
    "Not Found",
    "NoSuchKey",
    "Could not open file",
    "FileNotFound",
)
CLIENT_PACKAGES = ("botocore", "requests", "urllib3")  # libraries with which pyiceberg connects to catalogs and stores
# Errors of a catalog in a database that does not respond: by name, because few catalogs load SQLAlchemy.
DATABASE_ERRORS = ("InterfaceError", "OperationalError", "TimeoutError")
UNAVAILABLE = "the lake is not available now"
FAILED = "the server failed; see its log"
# Addresses of stores, and paths and addresses of files of engines and catalogs. Not every text with slashes, which may
# be the user's own.
LOCATIONS = re.compile(
    r"""(?:\b(?:s3[an]?|gs|abfss?|wasbs?|hdfs|file|memory|jdbc:\w+|postgres(?:ql)?|rediss?)://?[^\s'"`,;)\]}]+"""
    r"""|(?:\bhttps?:/|(?<![\w./-]))/(?:[^\s'"`,;()/]+/)++[^\s'"`,;()/]*\.(?:parquet|json|avro|puffin|arrow|tmp|db|jar|py|so|\w+_extension))"""
)
ERROR_PREFIX = re.compile(r"^([A-Z][A-Za-z ]*) Error: ")


class FilesMissing(QueryError):
    """Raised when a planned file no longer exists: a newer snapshot has its replacement."""


class StorageUnavailable(QueryError):
    """Raised when the file store does not respond."""


def public_message(error: Exception) -> str:
    """Return the message of an error for clients, without locations of the lake.

    The original message belongs in the log.
    """
    if isinstance(error, FilesMissing | StorageUnavailable | LakeError):
        return UNAVAILABLE
    return hide_locations(error.message) if isinstance(error, QueryError) else FAILED


def hide_locations(words: str) -> str:
    """Remove addresses of stores and paths of the lake's files from a message.

    >>> hide_locations("can't read '/srv/lake/warehouse/telemetry/logs/data/x.parquet': 3 bytes, in s3://b/k")
    "can't read '…': 3 bytes, in …"
    >>> hide_locations("can't convert '/api/v1/cart' to INT32")
    "can't convert '/api/v1/cart' to INT32"
    """
    return LOCATIONS.sub("…", words)


def classify_engine_error(error: Exception) -> Exception:
    """Return an engine's error as a readable error of a class that callers can distinguish."""
    words = str(error).split("\n\nLINE ")[0].split("\n\nJVM stacktrace")[0].strip()
    kind = ERROR_PREFIX.match(words)
    if isinstance(error, duckdb.OutOfMemoryException) or (kind and kind[1] == "Out of Memory"):
        return LimitExceeded(
            f"the query exceeds its memory limit: {words.splitlines()[0]}",
            limit="memory",
            hint="narrow the time range, or select fewer columns or groups",
        )
    # An error after the first rows comes through Arrow, as an `OSError` with DuckDB's message.
    is_queries = kind is not None and kind[1] not in ("IO", "HTTP")
    if isinstance(error, duckdb.IOException) or (isinstance(error, OSError) and not is_queries):
        return _storage_error(words)
    if is_queries or isinstance(error, duckdb.Error | pa.ArrowException) or _is_spark_error(error):
        return _storage_error(words) if any(word in words for word in MISSING_FILE_MESSAGES) else QueryError(words)
    return error


@contextmanager
def planning_errors() -> Iterator[None]:
    """Classify errors of planning: of catalogs, of stores, and of statements that are too deep."""
    try:
        yield
    except Exception as error:
        told = classify_planning_error(error)
        if told is error:
            raise
        raise told from error


def classify_planning_error(error: Exception) -> Exception:
    """Return a planning error as a class that callers can distinguish, or the error itself if it is unknown."""
    first = (str(error).splitlines() or [type(error).__name__])[0]
    match error:
        case QueryError():
            return error
        case FileNotFoundError():
            return FilesMissing(f"metadata files of the table were deleted: {first}", hint="run the query again")
        case RecursionError():
            return QueryError("the statement is nested too deeply", hint="name its parts with WITH")
        case OSError():
            return _unavailable("storage", first)
    package = type(error).__module__.partition(".")[0]
    if package in ("sqlite3", "sqlalchemy") and type(error).__name__ in DATABASE_ERRORS:
        return _unavailable("catalog", first)
    return _unavailable("catalog or storage", first) if package in CLIENT_PACKAGES else error


def _is_spark_error(error: Exception) -> bool:
    return type(error).__module__.partition(".")[0] in ("pyspark", "py4j")  # by name: most queries never load Spark


def _storage_error(words: str) -> QueryError:
    first = words.splitlines()[0] if words else "no reason given"
    if any(word in words for word in MISSING_FILE_MESSAGES):
        return FilesMissing(f"files were deleted while they were read: {first}", hint="run the query again")
    return _unavailable("storage", first)


def _unavailable(what: str, words: str) -> StorageUnavailable:
    hint = "retry; run `neve doctor` to see what is reachable"
    return StorageUnavailable(f"the lake's {what} is not available: {words}", hint=hint)
