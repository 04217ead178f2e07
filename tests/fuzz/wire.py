"""Protobuf messages as trees of fields: changed where they have structure, and written with lies where that is legal.

Random bytes end at the first tag. A changed tree gets as far as the code behind the reader.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tests.otlp.damage import damaged

if TYPE_CHECKING:
    import random

VARINT, FIXED64, BYTES, START, END, FIXED32 = range(6)
MOST_LEVELS = 12  # that are opened; what is deeper stays bytes
MOST_REPEATED = 128 * 1024  # bytes that repeating a field may add
NUMBERS = (0, 1, 2, 127, 128, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**63 - 1, 2**63, 2**64 - 1)
DEPTHS = (1, 2, 30, 200, 3000)
TIMES = (0, 1, 1_760_000_000_000_000_000, 2**63 - 1, 2**64 - 1)
TEXTS = (b"", b"\x00", b"\xff\xfe", "größe\U0001f9ca".encode(), b"k" * 300, b"service.name", b"\xed\xa0\x80")


@dataclass(frozen=True)
class Field:
    """One field: its number, its wire type, and a number, bytes, or the fields inside."""

    number: int
    kind: int
    value: int | bytes | tuple[Field, ...]


def varint(number: int) -> bytes:
    """A number as protobuf writes it."""
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def field(number: int, data: bytes) -> bytes:
    """A field of bytes on the wire."""
    return varint(number << 3 | BYTES) + varint(len(data)) + data


def read_fields(data: bytes, levels: int = MOST_LEVELS) -> tuple[Field, ...] | None:
    """The fields of a message; nothing where the bytes are none."""
    found, at = [], 0
    while at < len(data):
        tag, at = _varint(data, at)
        kind, number = tag & 7, tag >> 3
        if at < 0 or not number:
            return None
        value: int | bytes | tuple[Field, ...]
        if kind == VARINT:
            value, at = _varint(data, at)
        elif kind in (FIXED32, FIXED64):
            width = 4 if kind == FIXED32 else 8
            value, at = data[at : at + width], at + width
        elif kind == BYTES:
            length, at = _varint(data, at)
            value, at = data[at : at + length], at + length
            inner = read_fields(value, levels - 1) if levels and value else None
            value = value if inner is None else inner
        else:
            return None
        if at < 0 or at > len(data):
            return None
        found.append(Field(number, kind, value))
    return tuple(found)


def write_fields(fields: tuple[Field, ...]) -> bytes:
    """The message of some fields."""
    out = bytearray()
    for one in fields:
        out += varint(one.number << 3 | one.kind)
        if isinstance(one.value, int):
            out += varint(one.value)
        else:
            data = one.value if isinstance(one.value, bytes) else write_fields(one.value)
            out += (varint(len(data)) if one.kind == BYTES else b"") + data
    return bytes(out)


def mutate_message(seeded: random.Random, wire: bytes) -> bytes:
    """A message that is changed in one place; bytes that are no message are damaged."""
    fields = read_fields(wire)
    if not fields or seeded.random() < 0.15:
        return damaged(seeded, wire)
    changed = write_fields(_mutate(seeded, fields))
    return _lie(seeded, changed) if seeded.random() < 0.15 else changed


def _mutate(seeded: random.Random, fields: tuple[Field, ...]) -> tuple[Field, ...]:
    """Change a field here or further inside."""
    place = seeded.randrange(len(fields))
    one = fields[place]
    if isinstance(one.value, tuple) and one.value and seeded.random() < 0.8:
        return (*fields[:place], replace(one, value=_mutate(seeded, one.value)), *fields[place + 1 :])
    return (*fields[:place], *_change(seeded, one), *fields[place + 1 :])


def _change(seeded: random.Random, one: Field) -> tuple[Field, ...]:
    """What a field becomes: nothing, several, another number, type or value, or something around it."""
    changes: tuple[tuple[Field, ...], ...] = (
        (),
        (one,) * min(seeded.choice((2, 3, 50, 2000)), 1 + MOST_REPEATED // len(write_fields((one,)))),
        (replace(one, number=seeded.choice((1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 1000, 2**29 - 1))),),
        (Field(one.number, VARINT, seeded.choice(NUMBERS)),),
        (Field(one.number, BYTES, seeded.choice(TEXTS)),),
        (Field(one.number, FIXED64, seeded.choice(TIMES).to_bytes(8, "little")),),
        (Field(one.number, START, b""), one, Field(one.number, END, b"")),
        (one, Field(seeded.choice((1, 2, 15, 16, 99)), BYTES, b"")),
    )
    place = seeded.randrange(len(changes) + 1)
    return changes[place] if place < len(changes) else (_nest(one, seeded.choice(DEPTHS)),)


def _nest(one: Field, levels: int) -> Field:
    """A field inside fields of its own number; as bytes, since a tree so deep could not be written."""
    data = write_fields((one,))
    for _ in range(levels):
        data = field(one.number, data)
    return Field(one.number, BYTES, data)


def _lie(seeded: random.Random, wire: bytes) -> bytes:
    """A message with a field at its end, or in front, that claims another length than it has."""
    claim = seeded.choice(NUMBERS)
    lie = varint(seeded.choice((1, 2, 9)) << 3 | BYTES) + varint(claim) + seeded.randbytes(3)
    return wire + lie if seeded.random() < 0.5 else field(1, lie + wire)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number and where it ends; a negative end where there is none."""
    number = shift = 0
    while at < len(data) and shift < 70:
        byte = data[at]
        number, shift, at = number | (byte & 127) << shift, shift + 7, at + 1
        if byte < 128:
            return number, at
    return 0, -1
