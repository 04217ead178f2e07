"""Local folders and object storage as one kind of file system, without a JVM."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neve.lake.store_files import CountedLocal, CountedS3

if TYPE_CHECKING:
    import pyarrow.fs as pafs

    from neve.lake.config import S3Config


S3_SCHEMES = ("s3", "s3a", "s3n")


def filesystem_of(path: str, s3: S3Config) -> tuple[pafs.FileSystem, str]:
    """The file system that a path is on, and the path inside it; schemes as Spark and Hadoop write them, too."""
    scheme, colon, rest = path.partition("://")
    if not colon or scheme not in S3_SCHEMES:
        return CountedLocal(), f"/{plain_path(path)}" if path.startswith("file:") else path
    options = {
        "endpoint_override": s3.endpoint,
        "region": s3.region,
        "access_key": s3.access_key,
        "secret_key": s3.secret_key.get_secret_value(),
        "force_virtual_addressing": not s3.path_style,
    }
    return CountedS3(**{key: value for key, value in options.items() if value}), rest


def plain_path(path: str) -> str:
    """A path without what differs between those who write it down: scheme, bucket's alias, empty authority.

    >>> {plain_path(path) for path in ("file:/a/b", "file:///a/b", "/a/b")}
    {'a/b'}
    >>> plain_path("s3a://bucket/a") == plain_path("s3://bucket/a") == plain_path("bucket/a")
    True
    """
    scheme, colon, rest = path.partition(":/")
    return (rest if colon and "/" not in scheme else path).lstrip("/")
