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
class Damage:
    """A piece of a segment that is no frame, and why."""

    reason: str
    data: bytes


@dataclass(frozen=True)
class Contents:
    """The frames of a segment, where the last of them ends, and what is damaged between and behind them."""

    frames: list[Frame]
    whole_bytes: int
    damaged: tuple[Damage, ...] = ()


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


def stored_bytes(frame: Frame) -> int:
    """How many bytes of a segment a frame takes."""
    return PREFIX.size + HEADER.size + len(frame.organization_id.encode()) + len(frame.payload)


def decode(data: bytes) -> Contents:
    """The frames of a segment."""
    if not data:
        return Contents([], 0)
    if not data.startswith(MAGIC):
        reason = f"it begins with {data[: len(MAGIC)]!r}, expected {MAGIC!r}"
        return Contents([], 0, (Damage(reason, data),))
    view = memoryview(data)
    frames: list[Frame] = []
    damaged: list[Damage] = []
    at = whole = len(MAGIC)
    while at < len(data):
        end = _end(view, at)
        read = _read(view, at, end)
        if isinstance(read, Frame):
            frames.append(read)
            whole = end
        else:
            damaged.append(Damage(read, bytes(view[at:end])))
        at = end
    return Contents(frames, whole, tuple(damaged))


def _end(view: memoryview, at: int) -> int:
    """Where the frame that begins at a byte says that it ends; the end of the segment when that is torn."""
    if len(view) - at < PREFIX.size:
        return len(view)
    return min(len(view), at + PREFIX.size + int(PREFIX.unpack_from(view, at)[0]))


def _read(view: memoryview, at: int, end: int) -> Frame | str:
    """The frame between two bytes, or why it is none. One that is damaged does not hide those behind it."""
    if end - at < PREFIX.size:
        return f"it ends inside the frame at byte {at}"
    length, checksum = PREFIX.unpack_from(view, at)
    body = view[at + PREFIX.size : end]
    if len(body) < length:
        return f"it ends inside the frame at byte {at}"
    if xxhash.xxh3_64_intdigest(body) != checksum:
        return f"the frame at byte {at} does not have the checksum that it says"
    try:
        return _frame(body)
    except (ValueError, struct.error) as error:
        return f"the frame at byte {at} is not understood: {error}"


def _frame(body: memoryview) -> Frame:
    kind, encoding, packing, width, received = HEADER.unpack_from(body)
    organization = bytes(body[HEADER.size : HEADER.size + width]).decode()
    payload = bytes(body[HEADER.size + width :])
    return Frame(Kind(kind), organization, received, payload, Encoding(encoding), Packing(packing))
