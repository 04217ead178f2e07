"""Packed bodies to plain ones: the sender's limit and the budget of all requests are asked after each piece."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

import zstandard

from neve.raw.frame import Packing
from neve.raw.unpack import MOST_MEMBERS, ZSTD_WINDOW, Unpackable, join, pieces
from neve.receive.refusal import malformed, too_large

if TYPE_CHECKING:
    from neve.receive.budget import Hold

__all__ = ["MOST_MEMBERS", "unpack", "unpack_short"]

WBITS = {Packing.GZIP: 16 + zlib.MAX_WBITS, Packing.DEFLATE: zlib.MAX_WBITS}


def unpack(body: bytes, packing: Packing, limit: int, hold: Hold) -> bytes:
    """The plain body; raises `Refusal` when it is broken, larger than `limit`, or too much for the budget."""
    if packing is Packing.NONE:
        if len(body) > limit:
            raise too_large("the message", limit)
        return body
    try:
        return join(_bounded(body, packing, limit, hold))
    except Unpackable as error:
        raise malformed(f"the body {error}") from None


def unpack_short(body: bytes, packing: Packing, most: int) -> bytes | None:
    """The plain body where it is one whole member of at most so many bytes; none for `unpack` to see what it is.

    No more than that is ever unpacked, whatever the body is.
    """
    try:
        return _short_zstd(body, most) if packing is Packing.ZSTD else _short_deflate(body, WBITS[packing], most)
    except (zlib.error, zstandard.ZstdError):
        return None


def _short_deflate(body: bytes, wbits: int, most: int) -> bytes | None:
    inflater = zlib.decompressobj(wbits)
    plain = inflater.decompress(body, most + 1)
    return plain if inflater.eof and not inflater.unused_data and len(plain) <= most else None


def _short_zstd(body: bytes, most: int) -> bytes | None:
    declared = zstandard.frame_content_size(body)  # -1 where it is not said; where it is, so much is allocated
    if declared == 0 or declared > most:
        return None
    unpacker = zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW)
    return unpacker.decompress(body, max_output_size=most, allow_extra_data=False)


def _bounded(body: bytes, packing: Packing, limit: int, hold: Hold) -> list[bytes]:
    found, size = [], 0
    for piece in pieces(body, packing):
        if not piece:
            continue
        size += len(piece)
        if size > limit:
            raise too_large("the unpacked message", limit)
        hold.grow(len(piece))
        found.append(piece)
    return found
