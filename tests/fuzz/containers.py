"""Inputs that say in their first byte what the rest is: a request's body, a file, a segment, a value of OTAP.

One byte in front lets a tool that knows nothing but bytes choose the signal, the encoding and the packing.
"""

from __future__ import annotations

import gzip
import zlib
from typing import TYPE_CHECKING

import cbor2
import zstandard

from neve.model.signals import Signal
from neve.raw.compression import CorruptPayload, decompress_pieces
from neve.raw.frame import MAGIC, Encoding, Frame, Packing, decode, encode
from tests.fuzz.texts import mutate_json, mutate_lines
from tests.fuzz.wire import mutate_message
from tests.otlp.damage import damaged

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator

SIGNALS, ENCODINGS, PACKINGS = tuple(Signal), tuple(Encoding), tuple(Packing)
FILES = (
    *("logs.jsonl", "metrics.ndjson", "spans.json", "logs.csv", "metrics.csv", "spans.csv", "logs.parquet"),
    *("metrics.parquet", "spans.parquet", "logs.pb", "metrics.otlp.json", "traces.binpb", "x.json", "x.pb"),
    *("logs.jsonl.gz", "spans.csv.zst", "metrics.parquet.gz", "traces.pb.zst", "logs.json.gz", "logs", "x.csv"),
)
MOST_UNPACKED = 1024 * 1024  # of what is unpacked to be changed
TAGS = (0, 1, 2, 3, 4, 5, 25, 28, 29, 30, 35, 36, 37, 43000, 100, 256, 258, 260, 261, 1004, 55799, 2**40)


def body(signal: Signal, encoding: Encoding, packing: Packing, plain: bytes) -> bytes:
    """An input for the receiver: a body, packed."""
    return bytes([_number((signal, encoding, packing))]) + pack(plain, packing)


def open_body(data: bytes) -> tuple[Signal, Encoding, Packing, bytes]:
    """What an input for the receiver says, and its body as it is."""
    number = data[0] if data else 0
    signal, number = SIGNALS[number % 3], number // 3
    return signal, ENCODINGS[number % 2], PACKINGS[number // 2 % 4], data[1:]


def _number(choice: tuple[Signal, Encoding, Packing]) -> int:
    signal, encoding, packing = choice
    return SIGNALS.index(signal) + 3 * (ENCODINGS.index(encoding) + 2 * PACKINGS.index(packing))


def pack(plain: bytes, packing: Packing) -> bytes:
    """Bytes as a client packs them."""
    if packing is Packing.GZIP:
        return gzip.compress(plain, 1, mtime=0)
    if packing is Packing.DEFLATE:
        return zlib.compress(plain, 1)
    return zstandard.ZstdCompressor().compress(plain) if packing is Packing.ZSTD else plain


def mutate_body(seeded: random.Random, data: bytes) -> bytes:
    """A body that is changed inside of its packing, or outside, or sent as something else."""
    signal, encoding, packing, packed = open_body(data)
    if seeded.random() < 0.1:
        return bytes([seeded.randrange(24)]) + packed
    plain = _unpacked(packed, packing)
    if plain is None or (packing is not Packing.NONE and seeded.random() < 0.15):
        return data[:1] + damaged(seeded, packed)
    changed = mutate_message(seeded, plain) if encoding is Encoding.PROTOBUF else mutate_json(seeded, plain)
    return body(signal, encoding, packing, changed)


def _unpacked(packed: bytes, packing: Packing) -> bytes | None:
    found, size = [], 0
    try:
        for piece in decompress_pieces(packed, packing):
            found.append(piece)
            size += len(piece)
            if size > MOST_UNPACKED:
                return None
    except CorruptPayload:
        return None
    return b"".join(found)


def file(name: str, plain: bytes) -> bytes:
    """An input for the readers of files; plain bytes are packed as the name says."""
    return bytes([FILES.index(name)]) + pack(plain, _packing(name))


def open_file(data: bytes) -> tuple[str, bytes]:
    """A file's name and its bytes."""
    return FILES[(data[0] if data else 0) % len(FILES)], data[1:]


def _packing(name: str) -> Packing:
    endings = {".gz": Packing.GZIP, ".zst": Packing.ZSTD}
    return next((packing for ending, packing in endings.items() if name.endswith(ending)), Packing.NONE)


def mutate_file(seeded: random.Random, data: bytes) -> bytes:
    """A file that is changed as its format is made, or that is named as another format."""
    name, packed = open_file(data)
    if seeded.random() < 0.05:
        return bytes([seeded.randrange(len(FILES))]) + packed
    plain = _unpacked(packed, _packing(name))
    if plain is None:
        return data[:1] + damaged(seeded, packed)
    if ".parquet" in name:
        changed = _damaged_parquet(seeded, plain)
    elif ".pb" in name or ".binpb" in name:
        changed = mutate_message(seeded, plain)
    else:
        changed = mutate_lines(seeded, plain) if seeded.random() < 0.7 else mutate_json(seeded, plain)
    return file(name, changed)


def _damaged_parquet(seeded: random.Random, plain: bytes) -> bytes:
    """Damage in the pages, or in the footer alone, with its length and magic left as they were."""
    if seeded.random() < 0.5 or len(plain) < 20:
        return damaged(seeded, plain)
    length = int.from_bytes(plain[-8:-4], "little")
    footer = bytearray(plain[-8 - length : -8])
    for _ in range(seeded.randint(1, 3)):
        if footer:
            footer[seeded.randrange(len(footer))] = seeded.randrange(256)
    return plain[: -8 - length] + bytes(footer) + len(footer).to_bytes(4, "little") + b"PAR1"


def segment(*frames: Frame) -> bytes:
    """A segment of the raw zone."""
    return MAGIC + b"".join(piece for frame in frames for piece in encode(frame))


def mutate_segment(seeded: random.Random, data: bytes) -> bytes:
    """A segment with one frame changed and its checksum right, or with damage anywhere."""
    frames = decode(data).frames
    if not frames or seeded.random() < 0.3:
        return damaged(seeded, data)
    place = seeded.randrange(len(frames))
    return segment(*frames[:place], *_changed_frames(seeded, frames[place]), *frames[place + 1 :])


def _changed_frames(seeded: random.Random, frame: Frame) -> Iterator[Frame]:
    payload, packing = frame.payload, frame.packing
    plain = _unpacked(payload, packing)
    if plain is not None:
        inner = mutate_message if frame.encoding is Encoding.PROTOBUF else mutate_json
        payload = pack(inner(seeded, plain), packing)
    if seeded.random() < 0.15:
        packing = seeded.choice(PACKINGS)
    encoding = seeded.choice(ENCODINGS) if seeded.random() < 0.1 else frame.encoding
    received = seeded.choice((0, 2**64 - 1)) if seeded.random() < 0.05 else frame.received_unix_nano
    for _ in range(seeded.choice((0, 1, 1, 1, 3))):
        yield Frame(frame.kind, frame.organization_id, received, payload, encoding, packing)


def mutate_value(seeded: random.Random, data: bytes) -> bytes:
    """A value in CBOR: damaged, inside of a tag, inside of another value, or one with a wrong length."""
    inner = data[1:]
    match seeded.randrange(5):
        case 0:
            inner = cbor2.dumps(cbor2.CBORTag(seeded.choice(TAGS), 0))[:-1] + inner
        case 1:
            inner = b"\x81" * seeded.choice((1, 70, 3000)) + inner
        case 2:
            inner = (
                seeded.choice((b"\x9b", b"\xbb", b"\x5b", b"\x7b"))
                + seeded.choice((2**62, 2**31, 3)).to_bytes(8)
                + inner
            )
        case 3:
            inner = b"\xa1\x61k" + inner if seeded.random() < 0.5 else b"\xa1" + inner + inner
        case _:
            inner = damaged(seeded, inner)
    return bytes([seeded.randrange(2)]) + inner
