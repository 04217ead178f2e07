"""Find the files that a user means: paths, folders and globs, on disk or in object storage."""

from __future__ import annotations

import glob
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.fs as pafs

from neve.errors import InputError
from neve.ingest.files.formats import EXTENSIONS, Format, read_name
from neve.lake.filesystem import filesystem_of
from neve.lake.paths import OwnFolders

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from neve.lake.config import S3Config

NONE_OWN = OwnFolders()
LEFTOVERS = ("_temporary", "_spark_metadata", "_delta_log")
HINT = f"known endings are {', '.join(EXTENSIONS)}, each also with .gz or .zst; or pass --format"


@dataclass(frozen=True)
class SourceFile:
    """One file as it was found."""

    path: str
    size: int
    modified_us: int

    @property
    def seen_as(self) -> tuple[str, int, int]:
        """What tells that a file was seen before without reading it."""
        return self.path, self.size, self.modified_us


@dataclass(frozen=True)
class Found:
    """The files to read, and those in the named folders that are not telemetry."""

    files: tuple[SourceFile, ...]
    ignored: tuple[str, ...]


def find_files(paths: Sequence[str], s3: S3Config, form: Format | None = None, *, own: OwnFolders = NONE_OWN) -> Found:
    """Every file that the paths name; one that is named itself must be readable, in a folder others are passed by.

    Files in the lake's own folders are never sources, whatever folder they were found in.
    """
    files: dict[str, SourceFile] = {}
    ignored: list[str] = []
    for path in paths:
        for file, named in _expand(path, s3):
            if own.holds(file.path):
                ignored.append(file.path)
            elif form is None and read_name(file.path).format is None:
                if named:
                    raise InputError(f"{file.path} has no ending that says its format", hint=HINT)
                ignored.append(file.path)
            else:
                files[file.path] = file
    return Found(tuple(sorted(files.values(), key=lambda file: file.path)), tuple(sorted(ignored)))


def look_at(path: str, s3: S3Config) -> SourceFile | str:
    """A file by its exact path, or why it is none; raises `OSError` when nobody can tell now."""
    filesystem, inner = filesystem_of(path, s3)
    try:
        info = filesystem.get_file_info(inner)
    except (PermissionError, ValueError) as error:
        return f"can't look at it: {error}"
    except OSError as error:
        if "ACCESS_DENIED" in str(error):
            return f"can't look at it: {error}"
        raise
    if info.type == pafs.FileType.File:
        return _source(info, path)
    return "it does not exist" if info.type == pafs.FileType.NotFound else "it is no regular file"


def _expand(path: str, s3: S3Config) -> Iterator[tuple[SourceFile, bool]]:
    """Files under a path, each with whether the user named it itself."""
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
    filesystem, inner = filesystem_of(path, s3)
    info = _info(filesystem, inner, path)
    if info.type == pafs.FileType.File:
        yield _source(info, path), True
    elif info.type == pafs.FileType.Directory:
        prefix = "s3://" if path.startswith("s3://") else ""
        for entry in filesystem.get_file_info(pafs.FileSelector(inner, recursive=True)):
            if entry.type == pafs.FileType.File and not _is_hidden(entry.path.removeprefix(inner)):
                yield _source(entry, prefix + entry.path), False
    else:
        raise InputError(f"{path} does not exist")


def _is_hidden(path: str) -> bool:
    """Whether a path below the given folder is what tools leave behind; `_part_id=…` is a partition, not that."""
    *folders, name = path.strip("/").split("/")
    return name.startswith((".", "_")) or any(folder.startswith(".") or folder in LEFTOVERS for folder in folders)


def _info(filesystem: pafs.FileSystem, inner: str, path: str) -> pafs.FileInfo:
    try:
        return filesystem.get_file_info(inner)
    except OSError as error:
        raise InputError(f"can't look at {path}: {error}") from error


def _source(info: pafs.FileInfo, path: str) -> SourceFile:
    return SourceFile(path, info.size, (info.mtime_ns or 0) // 1000)
