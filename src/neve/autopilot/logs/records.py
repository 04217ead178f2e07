"""Records of query logs, and readers of the JSON-lines files that hold them (plain, gzip or zstd)."""

from __future__ import annotations

import gzip
import io
import json
import zlib
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

import zstandard

from neve.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime
    from typing import IO

    from neve.autopilot.workload.queries import TableUse
    from neve.predicate.filters import Test


@dataclass(frozen=True)
class TableRead:
    """Counts of an engine for one table, with the parts of the engine's name for it."""

    table: tuple[str, ...]
    bytes: int | None = None
    rows: int | None = None
    columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class LoggedQuery:
    """One query of a log, before it is parsed."""

    query_id: str
    engine: str  # trino, clickhouse, spark, iceberg or neve
    at: datetime
    text: str = ""
    dialect: str = ""
    catalog: str = ""  # catalog of unqualified names
    schema: str = ""
    only_catalog: str = ""  # the catalog whose tables belong to the lake; empty: any
    finished: bool = True
    seconds: float | None = None
    bytes_read: int | None = None  # of the whole query
    reads: tuple[TableRead, ...] = ()
    uses: tuple[TableUse, ...] = ()  # if the log has them without a query text
    implied: tuple[Test, ...] = ()  # conditions on every table that has the column
    left_out: str = ""  # why it is no evidence about a layout, if the log has the reason


@dataclass(frozen=True)
class UnreadableRecord:
    """A line, a file or a message of a log that is not a record."""

    reason: str
    where: str = ""


LogRecord = LoggedQuery | UnreadableRecord


class LogSource(Protocol):
    """A query log."""

    @property
    def name(self) -> str:
        """The name for reports."""

    def queries(self, since: datetime) -> Iterator[LogRecord]:
        """Yield the records since a time, as they are read."""


MAX_LINE_BYTES = 16 * 1024 * 1024  # an event with its plans can have several megabytes
HIDDEN_PREFIXES = (".", "_")
ZSTD_SUFFIXES = {".zst", ".zstd"}
UNSUPPORTED_SUFFIXES = {".lz4", ".lzf", ".snappy"}


def list_log_files(place: str, since: datetime) -> list[Path]:
    """Return the log files at a path that were written since a time, oldest first.

    The path is a file or a folder. A path that doesn't exist is an error.
    """
    path = Path(place).expanduser()
    if not path.exists():
        raise InputError(f"query log {place} does not exist", hint="name a readable file or folder")
    found = [path] if path.is_file() else [one for one in path.rglob("*") if one.is_file() and _is_log_file(one, path)]
    written = [(one.stat().st_mtime, one) for one in found]
    return [one for moment, one in sorted(written) if moment >= since.timestamp()]


def read_documents(file: Path) -> Iterator[tuple[int, dict[str, Any] | UnreadableRecord]]:
    """Yield the JSON objects of a file with their line numbers.

    Lines that are not objects, and a truncated end of the file, are yielded as `UnreadableRecord`.
    """
    for number, line in _read_lines(file):
        where = f"{file.name}:{number}"
        if isinstance(line, str):
            yield number, UnreadableRecord(line, where)
            continue
        if not line.strip():
            continue
        try:
            document = json.loads(line)
        except (ValueError, RecursionError):
            yield number, UnreadableRecord("not JSON", where)
            continue
        yield number, document if isinstance(document, dict) else UnreadableRecord("not a JSON object", where)


def _read_lines(file: Path) -> Iterator[tuple[int, bytes | str]]:
    """Yield lines, or the reason why the rest can't be read."""
    if file.suffix in UNSUPPORTED_SUFFIXES:
        yield 0, f"{file.suffix[1:]} is not supported, expected plain text, gzip or zstd"
        return
    number = 0
    try:
        with file.open("rb") as raw, closing(_open_stream(raw, file.suffix)) as stream:
            while line := stream.readline(MAX_LINE_BYTES + 1):
                number += 1
                if len(line) > MAX_LINE_BYTES:
                    yield number, "longer than 16 MB"
                    _skip_line(stream)
                else:
                    yield number, line
    except (OSError, EOFError, zlib.error, zstandard.ZstdError):
        yield number + 1, "the file is truncated or damaged"


def _open_stream(raw: IO[bytes], suffix: str) -> IO[bytes]:
    if suffix == ".gz":
        return cast("IO[bytes]", gzip.GzipFile(fileobj=raw))
    if suffix in ZSTD_SUFFIXES:
        return io.BufferedReader(zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True))
    return raw


def _skip_line(stream: IO[bytes]) -> None:
    while (more := stream.readline(MAX_LINE_BYTES)) and not more.endswith(b"\n"):
        pass


def _is_log_file(file: Path, folder: Path) -> bool:
    return not any(part.startswith(HIDDEN_PREFIXES) for part in file.relative_to(folder).parts)
