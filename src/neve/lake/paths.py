"""Paths that mean the same file, however they are written, and the folders that belong to the lake itself."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import cached_property

S3 = ("s3", "s3a", "s3n")
# Of these the part behind // is a machine and no part of the path; of object stores it is the bucket.
BY_PATH_ALONE = ("", "file", "hdfs", "viewfs")


def same_path(path: str) -> str:
    """One way to write a path: schemes that lead to the same place are one, and slashes are single.

    >>> [same_path(path) for path in ("file:/a/b", "file:///a/b", "/a//b", "hdfs://name:8020/a/b")]
    ['/a/b', '/a/b', '/a/b', '/a/b']
    >>> same_path("s3a://bucket/key") == same_path("s3://bucket/key") != same_path("s3://other/key")
    True
    """
    scheme, rest = _split(path)
    if scheme in BY_PATH_ALONE:
        if rest.startswith("//") and scheme:
            rest = "/" + rest[2:].partition("/")[2]
        return _single(rest)
    return f"{'s3' if scheme in S3 else scheme}:/{_single(rest)}"


def is_within(path: str, folder: str) -> bool:
    """Whether a path is below a folder; both as `same_path` writes them.

    >>> is_within("/a/b/c", "/a/b"), is_within("/a/bc", "/a/b")
    (True, False)
    """
    return path.startswith(folder.rstrip("/") + "/")


def real_path(path: str) -> str:
    """A path as `same_path` writes it, without symbolic links where it is on this machine.

    >>> real_path("s3a://bucket/key")
    's3://bucket/key'
    """
    same = same_path(path)
    return os.path.realpath(same) if same.startswith("/") else same


@dataclass(frozen=True)
class OwnFolders:
    """Folders and files that only Neve itself reads: the warehouse, the raw zone, checkpoints and the like. It pickles.

    They hold rows of every organization, so that none of them is ever a source of telemetry.
    """

    folders: tuple[str, ...] = ()

    def holds(self, path: str) -> bool:
        """Whether a path is one of them or leads into one, also through links and mounts of the same folder."""
        real = real_path(path)
        if real.startswith("/"):
            return any(_is_at(real, folder) for folder in self._local) or self._meets(real)
        return any(_is_at(_with_plain_bucket(real), folder) for folder in self._elsewhere)

    def __getstate__(self) -> dict[str, object]:
        """What another machine needs: numbers of files are this machine's own."""
        return {"folders": self.folders}

    @cached_property
    def _local(self) -> tuple[str, ...]:
        real = (real_path(folder) for folder in self.folders if folder)
        return tuple(folder for folder in real if folder.startswith("/"))

    @cached_property
    def _elsewhere(self) -> tuple[str, ...]:
        real = (same_path(folder).rstrip("/") for folder in self.folders if folder)
        return tuple(_with_plain_bucket(folder) for folder in real if not folder.startswith("/"))

    @cached_property
    def _numbers(self) -> frozenset[tuple[int, int]]:
        return frozenset(number for folder in self._local if (number := _number(folder)))

    def _meets(self, path: str) -> bool:
        """Whether a folder above a file is one of these under another name: a bind mount, or another spelling."""
        while self._numbers:
            if _number(path) in self._numbers:
                return True
            above = os.path.dirname(path)
            if above == path:
                break
            path = above
        return False


def _is_at(path: str, folder: str) -> bool:
    return path == folder or is_within(path, folder)


def _number(path: str) -> tuple[int, int] | None:
    """What tells a file from all others of this machine, whatever it is called."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino


def _with_plain_bucket(path: str) -> str:
    """An address with its bucket as hosts are named: capitals do not count, nor a dot at the end."""
    scheme, _, rest = path.partition(":/")
    bucket, slash, key = rest.lstrip("/").partition("/")
    return f"{scheme}:/{bucket.lower().rstrip('.')}{slash}{key}"


def _split(path: str) -> tuple[str, str]:
    match = re.match(r"([A-Za-z][A-Za-z0-9+.-]*):(?=/)", path)
    return (match[1].lower(), path[match.end() :]) if match else ("", path)


def _single(path: str) -> str:
    return re.sub(r"/{2,}", "/", path)
