"""Source files: find them by path, folder or glob, on disk or in object storage, and hash their content."""

from __future__ import annotations

import glob
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.fs as pafs
import xxhash

from neve.errors import InputError
from neve.ingest.files.formats import EXTENSIONS, Format, read_name
from neve.lake.storage.filesystem import resolve_filesystem
from neve.lake.storage.paths import OwnFolders

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from neve.lake.config import S3Config


NONE_OWN = OwnFolders()
LEFTOVERS = ("_temporary", "_spark_metadata", "_delta_log")
HINT = f"known suffixes are {', '.join(EXTENSIONS)}, each also with .gz or .zst; or pass --format"


@dataclass(frozen=True)
class SourceFile:
    """One file with its properties at the time of the listing."""

    path: str
    size: int
    modified_us: int

    @property
    def seen_as(self) -> tuple[str, int, int]:
        """Properties that identify a known file without reading it."""
        return self.path, self.size, self.modified_us


@dataclass(frozen=True)
class FoundFiles:
    """The files to read, and the files in the named folders that have no known format or belong to the lake itself."""

    files: tuple[SourceFile, ...]
    ignored: tuple[str, ...]
    own: tuple[str, ...] = ()


def find_files(
    paths: Sequence[str], s3: S3Config, form: Format | None = None, *, own: OwnFolders = NONE_OWN
) -> FoundFiles:
    """Find every file that the paths name. A named file must be readable, but others in a folder are skipped.

    Files in the lake's own folders are never sources, even below a named folder.
    """
    files: dict[str, SourceFile] = {}
    ignored: list[str] = []
    own_files: list[str] = []
    for path in paths:
        for file, named in _expand(path, s3):
            if own.holds(file.path):
                own_files.append(file.path)
            elif form is None and read_name(file.path).format is None:
                if named:
                    raise InputError(f"{file.path} has no known suffix", hint=HINT)
                ignored.append(file.path)
            else:
                files[file.path] = file
    ordered = sorted(files.values(), key=lambda file: file.path)
    return FoundFiles(tuple(ordered), tuple(sorted(ignored)), tuple(sorted(own_files)))


def stat_file(path: str, s3: S3Config) -> SourceFile | str:
    """Return a file by its exact path, or why it is not one. Raises `OSError` if this can't be determined now."""
    filesystem, inner = resolve_filesystem(path, s3)
    try:
        info = filesystem.get_file_info(inner)
    except (PermissionError, ValueError) as error:
        return f"can't read its metadata: {error}"
    except OSError as error:
        if "ACCESS_DENIED" in str(error):
            return f"can't read its metadata: {error}"
        raise
    if info.type == pafs.FileType.File:
        return _source_file(info, path)
    return "it does not exist" if info.type == pafs.FileType.NotFound else "it is not a regular file"


def _expand(path: str, s3: S3Config) -> Iterator[tuple[SourceFile, bool]]:
    """Yield the files under a path, each with whether the user named it explicitly."""
    if "://" not in path:
        path = str(Path(path).expanduser())
        is_pattern = glob.has_magic(path) and not Path(path).exists()
        matches = sorted(glob.glob(path, recursive=True)) if is_pattern else [path]
        if not matches:
            raise InputError(f"nothing matches {path}")
        for match in matches:
            yield from _walk(str(Path(match).resolve()), s3)
    elif path.startswith("s3://"):
        yield from _walk(path, s3)
    else:
        raise InputError(f"{path} is neither a local path nor an s3:// address")


def _walk(path: str, s3: S3Config) -> Iterator[tuple[SourceFile, bool]]:
    filesystem, inner = resolve_filesystem(path, s3)
    info = _get_info(filesystem, inner, path)
    if info.type == pafs.FileType.File:
        yield _source_file(info, path), True
    elif info.type == pafs.FileType.Directory:
        prefix = "s3://" if path.startswith("s3://") else ""
        for entry in filesystem.get_file_info(pafs.FileSelector(inner, recursive=True)):
            if entry.type == pafs.FileType.File and not _is_hidden(entry.path.removeprefix(inner)):
                yield _source_file(entry, prefix + entry.path), False
    else:
        raise InputError(f"{path} does not exist")


def _is_hidden(path: str) -> bool:
    """Return whether a path below the given folder is a leftover of tools.

    `_part_id=…` is a partition, not a leftover.
    """
    *folders, name = path.strip("/").split("/")
    return name.startswith((".", "_")) or any(folder.startswith(".") or folder in LEFTOVERS for folder in folders)


def _get_info(filesystem: pafs.FileSystem, inner: str, path: str) -> pafs.FileInfo:
    try:
        return filesystem.get_file_info(inner)
    except OSError as error:
        raise InputError(f"can't read {path}: {error}") from error


def _source_file(info: pafs.FileInfo, path: str) -> SourceFile:
    return SourceFile(path, info.size, (info.mtime_ns or 0) // 1000)


CHUNK_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True)
class HashedFile:
    """A file, the hash of its bytes as hex, and the properties that the user stated when it was planned."""

    source: SourceFile
    content_hash: str
    signal: str | None = None
    format: str | None = None


def hash_files(s3: S3Config, files: tuple[SourceFile, ...]) -> list[HashedFile | str]:
    """Hash files. A file that can't be read has the reason instead."""
    return [_hash_file(s3, file) for file in files]


def hash_bytes(data: bytes) -> str:
    """Return the hash of bytes in memory."""
    return xxhash.xxh3_128_hexdigest(data)


def _hash_file(s3: S3Config, file: SourceFile) -> HashedFile | str:
    digest = xxhash.xxh3_128()
    try:
        filesystem, path = resolve_filesystem(file.path, s3)
        with filesystem.open_input_stream(path, compression=None) as stream:
            while chunk := stream.read(CHUNK_BYTES):
                digest.update(chunk)
    except (OSError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    return HashedFile(file, digest.hexdigest())
