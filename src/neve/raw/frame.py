"""The bytes of a segment: a magic, then frames, each with its length and a checksum of all that follows the two.

A torn or damaged frame is told from a whole one without trusting anything that stands after it.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum

import xxhash

MAGIC = b"NEVERAW1"
PREFIX = struct.Struct("<IQ")  # length of the rest, checksum of the rest
HEADER = struct.Struct("<BBBBQ")  # kind, encoding, packing, length of the organization, time of arrival
LARGEST = 2**32 - 1


class Kind(IntEnum):
    """What a frame holds."""

    TRACES = 1
    LOGS = 2
    METRICS = 3
    EVENT = 4


class Encoding(IntEnum):
    """How it is written."""

    PROTOBUF = 1
    JSON = 2


class Packing(IntEnum):
    """How it is compressed."""

    NONE = 0
    GZIP = 1
    ZSTD = 2
    DEFLATE = 3


@dataclass(frozen=True)
class Frame:
    """One request as it came: whose it is, when it came, and its bytes as they were sent."""

    kind: Kind
    organization_id: str
    received_unix_nano: int
    payload: bytes
    encoding: Encoding = Encoding.PROTOBUF
    packing: Packing = Packing.NONE


@dataclass(frozen=True)
class Contents:
    """The frames of a segment up to the first that is not whole, and how many of its bytes they fill."""

    frames: list[Frame]
    whole_bytes: int
    damage: str | None = None


def encode(frame: Frame) -> tuple[bytes, bytes]:
    """A frame as two pieces, so that a large payload is never copied."""
    organization = frame.organization_id.encode()
    header = (
        HEADER.pack(frame.kind, frame.encoding, frame.packing, len(organization), frame.received_unix_nano)
        + organization
    )
    digest = xxhash.xxh3_64(header)
    digest.update(frame.payload)
    return PREFIX.pack(len(header) + len(frame.payload), digest.intdigest()) + header, frame.payload


def decode(data: bytes) -> Contents:
    """The frames of a segment."""
    if not data:
        return Contents([], 0)
    if not data.startswith(MAGIC):
        return Contents([], 0, f"it begins with {data[: len(MAGIC)]!r}, expected {MAGIC!r}")
    view = memoryview(data)
    frames: list[Frame] = []
    at = len(MAGIC)
    while at < len(data):
        end, damage = _extent(view, at)
        if damage:
            return Contents(frames, at, damage)
        try:
            frames.append(_frame(view[at + PREFIX.size : end]))
        except (ValueError, struct.error) as error:
            return Contents(frames, at, f"the frame at byte {at} is not understood: {error}")
        at = end
    return Contents(frames, at)


def _extent(view: memoryview, at: int) -> tuple[int, str | None]:
    """Where the frame that begins at a byte ends, or why it is none."""
    if len(view) - at < PREFIX.size:
        return at, f"it ends inside the frame at byte {at}"
    length, checksum = PREFIX.unpack_from(view, at)
    end = at + PREFIX.size + length
    if end > len(view):
        return at, f"it ends inside the frame at byte {at}"
    if xxhash.xxh3_64_intdigest(view[at + PREFIX.size : end]) != checksum:
        return at, f"the frame at byte {at} does not have the checksum that it says"
    return end, None


def _frame(body: memoryview) -> Frame:
    kind, encoding, packing, width, received = HEADER.unpack_from(body)
    organization = bytes(body[HEADER.size : HEADER.size + width]).decode()
    payload = bytes(body[HEADER.size + width :])
    return Frame(Kind(kind), organization, received, payload, Encoding(encoding), Packing(packing))
