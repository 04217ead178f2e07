"""Paths that mean the same file, however they are written."""

from __future__ import annotations

import re

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


def _split(path: str) -> tuple[str, str]:
    match = re.match(r"([A-Za-z][A-Za-z0-9+.-]*):(?=/)", path)
    return (match[1].lower(), path[match.end() :]) if match else ("", path)


def _single(path: str) -> str:
    return re.sub(r"/{2,}", "/", path)
