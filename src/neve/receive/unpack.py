"""Packed bodies to plain ones: the sender's limit and the budget of all requests are asked after each piece."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neve.raw.frame import Packing
from neve.raw.unpack import MOST_MEMBERS, Unpackable, join, pieces
from neve.receive.refusal import malformed, too_large

if TYPE_CHECKING:
    from neve.receive.budget import Hold

__all__ = ["MOST_MEMBERS", "unpack"]


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
