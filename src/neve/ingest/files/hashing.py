"""What a file is by content: the hash that the ledger remembers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import xxhash

from neve.lake.filesystem import filesystem_of

if TYPE_CHECKING:
    from neve.ingest.files.find import SourceFile
    from neve.lake.config import S3Config

CHUNK_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True)
class HashedFile:
    """A file, the hash of its bytes as hex, and what the user said of it when it was planned."""

    source: SourceFile
    content_hash: str
    signal: str | None = None
    format: str | None = None


def hash_files(s3: S3Config, files: tuple[SourceFile, ...]) -> list[HashedFile | str]:
    """Hash some files; for one that can't be read, why."""
    return [_hash_file(s3, file) for file in files]


def hash_bytes(data: bytes) -> str:
    """The hash of bytes that are in memory."""
    return xxhash.xxh3_128_hexdigest(data)


def _hash_file(s3: S3Config, file: SourceFile) -> HashedFile | str:
    digest = xxhash.xxh3_128()
    try:
        filesystem, path = filesystem_of(file.path, s3)
        with filesystem.open_input_stream(path, compression=None) as stream:
            while chunk := stream.read(CHUNK_BYTES):
                digest.update(chunk)
    except (OSError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    return HashedFile(file, digest.hexdigest())
