"""Lines of log files: plain, gzip or zstd, one file or a folder of them, as they are read."""

from __future__ import annotations

import gzip
import io
import json
import zlib
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import zstandard

from neve.autopilot.sources.record import Unreadable
from neve.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime
    from typing import IO

MAX_LINE_BYTES = 16 * 1024 * 1024  # an event with its plans can be megabytes
HIDDEN = (".", "_")
ZSTD = {".zst", ".zstd"}
PACKED = {".lz4", ".lzf", ".snappy"}


def files_of(place: str, since: datetime) -> list[Path]:
    """The files of a place that were written since, oldest first; a place that is not there is an error."""
    path = Path(place).expanduser()
    if not path.exists():
        raise InputError(f"query log {place} is not there", hint="name a file or a folder that can be read here")
    found = [path] if path.is_file() else [one for one in path.rglob("*") if one.is_file() and _counts(one, path)]
    written = [(one.stat().st_mtime, one) for one in found]
    return [one for moment, one in sorted(written) if moment >= since.timestamp()]


def documents(file: Path) -> Iterator[tuple[int, dict[str, Any] | Unreadable]]:
    """The JSON objects of a file with the numbers of their lines; what is none is told, and a cut end as well."""
    for number, line in _lines(file):
        where = f"{file.name}:{number}"
        if isinstance(line, str):
            yield number, Unreadable(line, where)
            continue
        if not line.strip():
            continue
        try:
            document = json.loads(line)
        except (ValueError, RecursionError):
            yield number, Unreadable("no JSON", where)
            continue
        yield number, document if isinstance(document, dict) else Unreadable("no JSON object", where)


def _lines(file: Path) -> Iterator[tuple[int, bytes | str]]:
    """Lines, or words that say why there are no more."""
    if file.suffix in PACKED:
        yield 0, f"{file.suffix[1:]} is not read, expected plain text, gzip or zstd"
        return
    number = 0
    try:
        with file.open("rb") as raw, closing(_opened(raw, file.suffix)) as stream:
            while line := stream.readline(MAX_LINE_BYTES + 1):
                number += 1
                if len(line) > MAX_LINE_BYTES:
                    yield number, "longer than 16 MB"
                    _skip(stream)
                else:
                    yield number, line
    except (OSError, EOFError, zlib.error, zstandard.ZstdError):
        yield number + 1, "the file can't be read to its end"


def _opened(raw: IO[bytes], suffix: str) -> IO[bytes]:
    if suffix == ".gz":
        return cast("IO[bytes]", gzip.GzipFile(fileobj=raw))
    if suffix in ZSTD:
        return io.BufferedReader(zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True))
    return raw


def _skip(stream: IO[bytes]) -> None:
    while (more := stream.readline(MAX_LINE_BYTES)) and not more.endswith(b"\n"):
        pass


def _counts(file: Path, folder: Path) -> bool:
    return not any(part.startswith(HIDDEN) for part in file.relative_to(folder).parts)
