"""Packed bodies to plain ones, in steps that are small enough to stop a bomb before it has gone off.

Nothing is allocated because a header claims a size. A body is fed to its decompressor in slices so short that even the
best packed slice makes only a few megabytes, and after each slice the sender's limit and the budget of all requests
are asked.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import zstandard

from neve.raw.frame import Packing
from neve.receive.refusal import malformed, too_large

if TYPE_CHECKING:
    from collections.abc import Callable

    from neve.receive.budget import Hold

MOST_MEMBERS = 1000  # of a body that is packed in parts; each part costs a new decompressor
ZSTD_WINDOW = 32 * 1024 * 1024  # allocated when a frame asks for it; twice what zstd uses at its usual levels


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

    start: Callable[[], Inflater]
    slice_bytes: int
    members: int


# Deflate makes at most 1032 bytes of one. A zstd block of 4 bytes may make 128 KiB.
CODECS: dict[Packing, Codec] = {
    Packing.GZIP: Codec(lambda: zlib.decompressobj(16 + zlib.MAX_WBITS), 8192, MOST_MEMBERS),
    Packing.DEFLATE: Codec(lambda: zlib.decompressobj(zlib.MAX_WBITS), 8192, 1),
    Packing.ZSTD: Codec(
        lambda: zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW).decompressobj(), 256, MOST_MEMBERS
    ),
}
RAW_DEFLATE = Codec(lambda: zlib.decompressobj(-zlib.MAX_WBITS), 8192, 1)


def unpack(body: bytes, packing: Packing, limit: int, hold: Hold) -> bytes:
    """The plain body; raises `Refusal` when it is broken, larger than `limit`, or too much for the budget."""
    if packing is Packing.NONE:
        if len(body) > limit:
            raise too_large("the message", limit)
        return body
    codec = CODECS[packing]
    if packing is Packing.DEFLATE and not _has_zlib_header(body):
        codec = RAW_DEFLATE  # what some clients took "deflate" for
    return _Unpacking(codec, limit, hold).run(body, packing.name.lower())


class _Unpacking:
    """One body on its way."""

    def __init__(self, codec: Codec, limit: int, hold: Hold) -> None:
        self._codec = codec
        self._limit = limit
        self._hold = hold
        self._size = 0
        self._pieces: list[bytes] = []
        self._members = 0

    def run(self, body: bytes, name: str) -> bytes:
        inflater = self._begin(name)
        view = memoryview(body)
        for at in range(0, len(body), self._codec.slice_bytes):
            data = bytes(view[at : at + self._codec.slice_bytes])
            while data:
                if inflater.eof:
                    inflater = self._begin(name)
                self._add(_step(inflater, data, name))
                data = inflater.unused_data if inflater.eof else b""
        if not inflater.eof:
            raise malformed(f"the body ends inside its {name} data")
        return self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)

    def _begin(self, name: str) -> Inflater:
        self._members += 1
        if self._members > self._codec.members:
            raise malformed(f"the body goes on after {self._codec.members} {name} members")
        return self._codec.start()

    def _add(self, piece: bytes) -> None:
        if not piece:
            return
        self._size += len(piece)
        if self._size > self._limit:
            raise too_large("the unpacked message", self._limit)
        self._hold.grow(len(piece))
        self._pieces.append(piece)


def _step(inflater: Inflater, data: bytes, name: str) -> bytes:
    try:
        return inflater.decompress(data)
    except (zlib.error, zstandard.ZstdError) as error:
        raise malformed(f"the body is not {name}: {error}") from None


def _has_zlib_header(body: bytes) -> bool:
    return len(body) >= 2 and body[0] & 0x0F == 8 and int.from_bytes(body[:2], "big") % 31 == 0
