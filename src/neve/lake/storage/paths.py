"""Compare paths of the same file that are written differently, and recognise the folders of the lake itself."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import cached_property

S3_SCHEMES = ("s3", "s3a", "s3n")
# For these schemes the part after // is a host, not a part of the path. For object stores it is the bucket.
BY_PATH_ALONE = ("", "file", "hdfs", "viewfs")


def normalize_path(path: str) -> str:
    """Return the canonical form of a path: equivalent schemes are the same, and slashes are single.

    >>> [normalize_path(path) for path in ("file:/a/b", "file:///a/b", "/a//b", "hdfs://name:8020/a/b")]
    ['/a/b', '/a/b', '/a/b', '/a/b']
    >>> normalize_path("s3a://bucket/key") == normalize_path("s3://bucket/key") != normalize_path("s3://other/key")
    True
    """
    scheme, rest = _split_scheme(path)
    if scheme in BY_PATH_ALONE:
        if rest.startswith("//") and scheme:
            rest = "/" + rest[2:].partition("/")[2]
        return _collapse_slashes(rest)
    return f"{'s3' if scheme in S3_SCHEMES else scheme}:/{_collapse_slashes(rest)}"


def strip_scheme(path: str) -> str:
    """Return a path without the parts that differ between writers: scheme, alias of the bucket, empty authority.

    >>> {strip_scheme(path) for path in ("file:/a/b", "file:///a/b", "/a/b")}
    {'a/b'}
    >>> strip_scheme("s3a://bucket/a") == strip_scheme("s3://bucket/a") == strip_scheme("bucket/a")
    True
    """
    scheme, colon, rest = path.partition(":/")
    return (rest if colon and "/" not in scheme else path).lstrip("/")


def is_within(path: str, folder: str) -> bool:
    """Return whether a path is below a folder. Both must be normalized by `normalize_path`.

    >>> is_within("/a/b/c", "/a/b"), is_within("/a/bc", "/a/b")
    (True, False)
    """
    return path.startswith(folder.rstrip("/") + "/")


def resolve_real_path(path: str) -> str:
    """Return a path in the form of `normalize_path`; for local paths, with symbolic links resolved.

    >>> resolve_real_path("s3a://bucket/key")
    's3://bucket/key'
    """
    same = normalize_path(path)
    return os.path.realpath(same) if same.startswith("/") else same


@dataclass(frozen=True)
class OwnFolders:
    """Folders and files that only Neve reads: the warehouse, the raw zone, checkpoints and others. Can be pickled.

    They contain rows of every organization, so none of them is ever a source of telemetry.
    """

    folders: tuple[str, ...] = ()

    def holds(self, path: str) -> bool:
        """Return whether a path is in one of them, also through links and mounts of the same folder."""
        real = resolve_real_path(path)
        if real.startswith("/"):
            return any(_is_at(real, folder) for folder in self._local) or self._meets(real)
        return any(_is_at(_normalize_bucket(real), folder) for folder in self._elsewhere)

    def __getstate__(self) -> dict[str, object]:
        """Return the state for another machine, without inode numbers, which are local to this one."""
        return {"folders": self.folders}

    @cached_property
    def _local(self) -> tuple[str, ...]:
        real = (resolve_real_path(folder) for folder in self.folders if folder)
        return tuple(folder for folder in real if folder.startswith("/"))

    @cached_property
    def _elsewhere(self) -> tuple[str, ...]:
        real = (normalize_path(folder).rstrip("/") for folder in self.folders if folder)
        return tuple(_normalize_bucket(folder) for folder in real if not folder.startswith("/"))

    @cached_property
    def _numbers(self) -> frozenset[tuple[int, int]]:
        return frozenset(number for folder in self._local if (number := _number(folder)))

    def _meets(self, path: str) -> bool:
        """Return whether a parent folder of a file is one of these under another name.

        The other name may be a bind mount, or another spelling.
        """
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
    """Return the identity of a file on this machine, independent of its name."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino


def _normalize_bucket(path: str) -> str:
    """Return an address with a normalized bucket: in lower case and without a final dot, like host names."""
    scheme, _, rest = path.partition(":/")
    bucket, slash, key = rest.lstrip("/").partition("/")
    return f"{scheme}:/{bucket.lower().rstrip('.')}{slash}{key}"


def _split_scheme(path: str) -> tuple[str, str]:
    match = re.match(r"([A-Za-z][A-Za-z0-9+.-]*):(?=/)", path)
    return (match[1].lower(), path[match.end() :]) if match else ("", path)


def _collapse_slashes(path: str) -> str:
    return re.sub(r"/{2,}", "/", path)
