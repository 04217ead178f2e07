"""Binary format of a segment: a magic number, then frames, each with its length and a checksum.

A torn or damaged frame is detected without trusting the bytes after it.
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
    """Type of a frame's payload: a signal or an event."""

    TRACES = 1
    LOGS = 2
    METRICS = 3
    EVENT = 4


class Encoding(IntEnum):
    """Serialization format of a payload."""

    PROTOBUF = 1
    JSON = 2


class Packing(IntEnum):
    """Compression format of a payload."""

    NONE = 0
    GZIP = 1
    ZSTD = 2
    DEFLATE = 3


@dataclass(frozen=True)
class Frame:
    """One request as received: organization, time of arrival, and the bytes as sent."""

    kind: Kind
    organization_id: str
    received_unix_nano: int
    payload: bytes
    encoding: Encoding = Encoding.PROTOBUF
    packing: Packing = Packing.NONE


@dataclass(frozen=True)
class Damage:
    """A range of a segment that is not a valid frame, and the reason."""

    reason: str
    data: bytes


@dataclass(frozen=True)
class Contents:
    """The frames of a segment, the end of the last one, and the damaged ranges between and after them."""

    frames: list[Frame]
    whole_bytes: int
    damaged: tuple[Damage, ...] = ()


def encode(frame: Frame) -> tuple[bytes, bytes]:
    """Encode a frame as two pieces, so that a large payload is never copied."""
    organization = frame.organization_id.encode()
    header = (
        HEADER.pack(frame.kind, frame.encoding, frame.packing, len(organization), frame.received_unix_nano)
        + organization
    )
    digest = xxhash.xxh3_64(header)
    digest.update(frame.payload)
    return PREFIX.pack(len(header) + len(frame.payload), digest.intdigest()) + header, frame.payload


def stored_bytes(frame: Frame) -> int:
    """Return the size of a frame in a segment, in bytes."""
    return PREFIX.size + HEADER.size + len(frame.organization_id.encode()) + len(frame.payload)


def decode(data: bytes) -> Contents:
    """Decode the frames of a segment."""
    if not data:
        return Contents([], 0)
    if not data.startswith(MAGIC):
        reason = f"the segment begins with {data[: len(MAGIC)]!r}, expected {MAGIC!r}"
        return Contents([], 0, (Damage(reason, data),))
    view = memoryview(data)
    frames: list[Frame] = []
    damaged: list[Damage] = []
    at = whole = len(MAGIC)
    while at < len(data):
        end = _find_frame_end(view, at)
        read = _read_frame(view, at, end)
        if isinstance(read, Frame):
            frames.append(read)
            whole = end
        else:
            damaged.append(Damage(read, bytes(view[at:end])))
        at = end
    return Contents(frames, whole, tuple(damaged))


def _find_frame_end(view: memoryview, at: int) -> int:
    """Return the declared end of the frame at an offset, or the end of the segment if the frame is torn.

    No frame is shorter than its header. After such a length, as in the zeros of an open segment, there are no frames.
    """
    if len(view) - at < PREFIX.size:
        return len(view)
    length = int(PREFIX.unpack_from(view, at)[0])
    return min(len(view), at + PREFIX.size + length) if length >= HEADER.size else len(view)


def _read_frame(view: memoryview, at: int, end: int) -> Frame | str:
    """Return the frame between two offsets, or the reason why it is not valid.

    Frames after a damaged one stay readable.
    """
    if end - at < PREFIX.size:
        return f"the segment ends inside the frame at byte {at}"
    length, checksum = PREFIX.unpack_from(view, at)
    if length < HEADER.size:
        return f"the frame at byte {at} has {length} bytes, expected {HEADER.size} or more"
    body = view[at + PREFIX.size : end]
    if len(body) < length:
        return f"the segment ends inside the frame at byte {at}"
    if xxhash.xxh3_64_intdigest(body) != checksum:
        return f"the frame at byte {at} does not match its checksum"
    try:
        return _parse_frame(body)
    except (ValueError, struct.error) as error:
        return f"the frame at byte {at} is not valid: {error}"


def _parse_frame(body: memoryview) -> Frame:
    kind, encoding, packing, width, received = HEADER.unpack_from(body)
    organization = bytes(body[HEADER.size : HEADER.size + width]).decode()
    payload = bytes(body[HEADER.size + width :])
    return Frame(Kind(kind), organization, received, payload, Encoding(encoding), Packing(packing))
