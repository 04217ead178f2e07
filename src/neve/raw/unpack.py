"""Packed payloads to plain ones: what the receiver lets in, ingestion can open.

Nothing is allocated because a header claims a size. A payload is fed to its decompressor in slices so short that even
the best packed slice makes only a few megabytes, so that whoever takes the pieces can stop a bomb before it has gone
off.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import zstandard

from neve.raw.frame import Packing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MOST_MEMBERS = 1000  # of a payload that is packed in parts; each part costs a new decompressor
ZSTD_WINDOW = 32 * 1024 * 1024  # allocated when a frame asks for it; twice what zstd uses at its usual levels


class Unpackable(ValueError):
    """Raised when bytes are not packed as they should be; the words go on after "the body" or "the frame"."""


class Inflater(Protocol):
    """A decompressor of one member."""

    @property
    def eof(self) -> bool:
        """Whether the member is complete."""

    @property
    def unused_data(self) -> bytes:
        """What was fed and stands behind the member."""

    def decompress(self, data: bytes, /) -> bytes:
        """Take packed bytes, give plain ones."""


@dataclass(frozen=True)
class Codec:
    """A way of packing: what begins a member, how much may be fed at once, how many members there may be."""

    name: str
    start: Callable[[], Inflater]
    slice_bytes: int
    members: int

    def begin(self, member: int) -> Inflater:
        """A decompressor for the next member."""
        if member > self.members:
            raise Unpackable(f"goes on after {self.members} {self.name} members")
        return self.start()

    def step(self, inflater: Inflater, data: bytes) -> bytes:
        """Feed a slice."""
        try:
            return inflater.decompress(data)
        except (zlib.error, zstandard.ZstdError) as error:
            raise Unpackable(f"is not {self.name}: {error}") from None


# Deflate makes at most 1032 bytes of one. A zstd block of 4 bytes may make 128 KiB.
CODECS: dict[Packing, Codec] = {
    Packing.GZIP: Codec("gzip", lambda: zlib.decompressobj(16 + zlib.MAX_WBITS), 8192, MOST_MEMBERS),
    Packing.DEFLATE: Codec("deflate", lambda: zlib.decompressobj(zlib.MAX_WBITS), 8192, 1),
    Packing.ZSTD: Codec(
        "zstd", lambda: zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW).decompressobj(), 256, MOST_MEMBERS
    ),
}
RAW_DEFLATE = Codec("deflate", lambda: zlib.decompressobj(-zlib.MAX_WBITS), 8192, 1)


def pieces(payload: bytes, packing: Packing) -> Iterator[bytes]:
    """The plain bytes, a few megabytes at a time; raises `Unpackable` where they end too soon or are broken."""
    if packing is Packing.NONE:
        yield payload
        return
    codec, member = _codec(payload, packing), 1
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
        raise Unpackable(f"ends inside its {codec.name} data")


def join(found: list[bytes]) -> bytes:
    """Pieces as one; a single piece is not copied."""
    return found[0] if len(found) == 1 else b"".join(found)


def unpack(payload: bytes, packing: Packing) -> bytes:
    """All plain bytes of a payload whose size someone else has bounded."""
    return join(list(pieces(payload, packing)))


def _codec(payload: bytes, packing: Packing) -> Codec:
    if packing is Packing.DEFLATE and not _has_zlib_header(payload):
        return RAW_DEFLATE  # what some clients took "deflate" for
    return CODECS[packing]


def _has_zlib_header(payload: bytes) -> bool:
    return len(payload) >= 2 and payload[0] & 0x0F == 8 and int.from_bytes(payload[:2], "big") % 31 == 0
