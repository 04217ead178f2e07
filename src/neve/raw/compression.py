"""Decompress payloads. Ingestion can decompress every format that the receiver accepts.

No memory is allocated because a header claims a size. The decompressor gets slices so short that even the best
compressed slice expands to a few megabytes only, so a caller can stop a decompression bomb early.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import zstandard

from neve.raw.frame import Packing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MAX_MEMBERS = 1000  # of a payload that is compressed in parts; each part costs a new decompressor
ZSTD_WINDOW = 32 * 1024 * 1024  # allocated when a frame requests it; twice the window of zstd's usual levels


class CorruptPayload(ValueError):
    """Raised when bytes are not compressed as declared.

    The message continues a sentence after "the body" or "the frame".
    """


class Inflater(Protocol):
    """A decompressor of one member."""

    @property
    def eof(self) -> bool:
        """Return whether the member is complete."""

    @property
    def unused_data(self) -> bytes:
        """The input bytes after the end of the member."""

    def decompress(self, data: bytes, /) -> bytes:
        """Decompress a slice of input."""


@dataclass(frozen=True)
class Codec:
    """A compression format: the first bytes of a member, the size of an input slice, the maximum number of members."""

    name: str
    start: Callable[[], Inflater]
    slice_bytes: int
    members: int

    def begin(self, member: int) -> Inflater:
        """Return a decompressor for the next member."""
        if member > self.members:
            raise CorruptPayload(f"continues after {self.members} {self.name} members")
        return self.start()

    def step(self, inflater: Inflater, data: bytes) -> bytes:
        """Decompress a slice of input."""
        try:
            return inflater.decompress(data)
        except (zlib.error, zstandard.ZstdError) as error:
            raise CorruptPayload(f"is not {self.name}: {error}") from None


# Deflate expands one byte to at most 1032 bytes. A zstd block of 4 bytes may expand to 128 KiB.
CODECS: dict[Packing, Codec] = {
    Packing.GZIP: Codec("gzip", lambda: zlib.decompressobj(16 + zlib.MAX_WBITS), 8192, MAX_MEMBERS),
    Packing.DEFLATE: Codec("deflate", lambda: zlib.decompressobj(zlib.MAX_WBITS), 8192, 1),
    Packing.ZSTD: Codec(
        "zstd", lambda: zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW).decompressobj(), 256, MAX_MEMBERS
    ),
}
RAW_DEFLATE = Codec("deflate", lambda: zlib.decompressobj(-zlib.MAX_WBITS), 8192, 1)


def decompress_pieces(payload: bytes, packing: Packing) -> Iterator[bytes]:
    """Yield the decompressed bytes, a few megabytes at a time.

    Raises `CorruptPayload` if they are truncated or damaged.
    """
    if packing is Packing.NONE:
        yield payload
        return
    codec, member = _select_codec(payload, packing), 1
    inflater = codec.begin(member)
    view = memoryview(payload)
    for at in range(0, len(payload), codec.slice_bytes):
        data = bytes(view[at : at + codec.slice_bytes])
        while data:
            if inflater.eof:
                member += 1
                inflater = codec.begin(member)
            yield codec.step(inflater, data)
            data = inflater.unused_data if inflater.eof else b""
    if not inflater.eof:
        raise CorruptPayload(f"ends inside its {codec.name} data")


def join_pieces(found: list[bytes]) -> bytes:
    """Join pieces. A single piece is not copied."""
    return found[0] if len(found) == 1 else b"".join(found)


def decompress_payload(payload: bytes, packing: Packing) -> bytes:
    """Decompress a whole payload. The caller has limited its size already."""
    return join_pieces(list(decompress_pieces(payload, packing)))


def _select_codec(payload: bytes, packing: Packing) -> Codec:
    if packing is Packing.DEFLATE and not _has_zlib_header(payload):
        return RAW_DEFLATE  # some clients send raw deflate as "deflate"
    return CODECS[packing]


def _has_zlib_header(payload: bytes) -> bool:
    return len(payload) >= 2 and payload[0] & 0x0F == 8 and int.from_bytes(payload[:2], "big") % 31 == 0
