"""Bodies and files, packed as a destination wants them."""

from __future__ import annotations

import gzip
from enum import StrEnum

import zstandard


class Packing(StrEnum):
    """How bytes are packed; the values are those of HTTP's `Content-Encoding`."""

    NONE = "none"
    GZIP = "gzip"
    ZSTD = "zstd"

    @property
    def ending(self) -> str:
        """What the name of a file so packed ends with."""
        return {Packing.NONE: "", Packing.GZIP: ".gz", Packing.ZSTD: ".zst"}[self]

    @property
    def headers(self) -> dict[str, str]:
        """What a request says of its body."""
        return {} if self is Packing.NONE else {"content-encoding": self.value}

    def pack(self, data: bytes) -> bytes:
        """The bytes, packed; the same bytes always become the same."""
        if self is Packing.GZIP:
            return gzip.compress(data, compresslevel=6, mtime=0)
        return zstandard.compress(data) if self is Packing.ZSTD else data
