"""Regions of an encoded message: records, resources and scopes that a rule may concern, and their replacement.

A step over the tags of the envelope finds the region of each match of the quick search. Only these regions are decoded,
and all other bytes of the message stay as they are. Some messages are decoded whole: those with an unusual envelope
(groups, numbers among its fields, tags of several bytes), with a match between two regions or in a text of the
envelope, and those with matches in most records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from neve.redaction.rules import Searcher

FIRST, SECOND = 0x0A, 0x12  # tags of the fields 1 and 2 with a length
LENGTH = 2  # the wire type of fields with a length
MORE = 128  # the continuation bit of a byte of a varint
MAX_SHIFT = 28  # of lengths; a longer one is malformed
SHORT = [bytes((n,)) if n < MORE else bytes((n & (MORE - 1) | MORE, n >> 7)) for n in range(8 * 1024)]  # as varints
FEW_BYTES = 64 * 1024  # of regions; more of them, if they are most of a message, are cheaper to decode with it


class Unusual(ValueError):
    """Raised when a message has to be decoded whole."""


class Part(NamedTuple):
    """A field of a message with its header: a region, or a group with regions inside."""

    head: int
    start: int
    end: int
    parts: list[Part]


NO_PARTS: list[Part] = []  # of regions


class Regions(NamedTuple):
    """Groups with regions, and the regions themselves in the order of the message."""

    groups: list[Part]
    resources: list[Part]
    scopes: list[Part]
    records: list[Part]


class _Matches:
    """The next match of the quick search that no region holds yet."""

    def __init__(self, searcher: Searcher, message: bytes) -> None:
        self._searcher, self._message = searcher, message
        self._covered, self._most = 0, max(len(message) // 2, FEW_BYTES)
        self.start = self.end = 0
        self._find(0)

    def leave(self, size: int, end: int) -> None:
        """Search on from the end of a region."""
        self._covered += size
        if self._covered > self._most:
            raise Unusual("most records match")
        self._find(end)

    def _find(self, position: int) -> None:
        start, self.end = self._searcher.find(self._message, position, len(self._message))
        self.start = start if start >= 0 else len(self._message) + 1


def find_regions(searcher: Searcher, message: bytes) -> Regions | None:
    """Return the regions with matches; None if there is no match. Raises `Unusual` if they can't be told.

    Each match is inside of a region, so that a text with a match is decoded: a text is never in two regions.
    """
    matches = _Matches(searcher, message)
    if matches.start > len(message):
        return None
    found = Regions([], [], [], [])
    try:
        for group in _step(message, Part(0, 0, len(message), []), matches, {FIRST: None}):
            for scope in _step(message, group, matches, {FIRST: found.resources, SECOND: None}):
                for _none in _step(message, scope, matches, {FIRST: found.scopes, SECOND: found.records}):
                    pass
                if scope.parts:
                    group.parts.append(scope)
            if group.parts:
                found.groups.append(group)
    except IndexError:
        raise Unusual("a field ends after the message") from None
    return found


def _step(message: bytes, parent: Part, matches: _Matches, kinds: dict[int, list[Part] | None]) -> Iterator[Part]:
    """Step over the fields of a message. Yield those without a list of regions, and list regions with a match."""
    at, until = parent.start, parent.end
    next_match = matches.start
    usual = SECOND if kinds.get(SECOND) is not None else None  # the tag of records
    while at < until:
        head, tag = at, message[at]
        start, size = at + 2, message[at + 1]
        if size >= MORE:  # most records have lengths of two bytes
            high = message[start]
            if high < MORE:
                size += high - 1 << 7
                start += 1
            else:
                size, start = _read_varint(message, at + 1)
        at = start + size
        if tag == usual and at <= next_match and at <= until:
            continue
        if tag >= MORE or tag & 7 != LENGTH or at > until:
            raise Unusual("an unknown field")
        regions = kinds.get(tag)
        if regions is None and tag in kinds:
            if next_match < start:
                raise Unusual("a match between regions")
            yield Part(head, start, at, [])
            next_match = matches.start
        elif next_match < at:
            if regions is None or next_match < start or matches.end > at:
                raise Unusual("a match between regions")
            region = Part(head, start, at, NO_PARTS)
            regions.append(region)
            parent.parts.append(region)
            matches.leave(size, at)
            next_match = matches.start


def _read_varint(message: bytes, at: int) -> tuple[int, int]:
    size = shift = 0
    while True:
        byte = message[at]
        size |= (byte & (MORE - 1)) << shift
        at += 1
        if byte < MORE:
            return size, at
        shift += 7
        if shift > MAX_SHIFT:
            raise Unusual("a long length")


def replace_regions(message: bytes, regions: Regions, contents: dict[int, bytes]) -> bytes:
    """Return the message with other bytes in its regions, by the positions at which they start."""
    pieces: list[bytes] = []
    at = _splice(message, 0, regions.groups, contents, pieces)[0]
    return b"".join([*pieces, message[at:]])


def _splice(
    message: bytes, at: int, parts: Sequence[Part], contents: dict[int, bytes], pieces: list[bytes]
) -> tuple[int, int]:
    """Add the bytes up to the end of the last part. Return that end, and the number of bytes by which it moved."""
    moved = 0
    for head, start, end, inner in parts:
        pieces.append(message[at : head + 1])
        place = len(pieces)
        if inner:
            pieces.append(b"")
            at, grown = _splice(message, start, inner, contents, pieces)
            pieces.append(message[at:end])
            size = end - start + grown
        else:
            content = contents[start]
            pieces += (b"", content)
            size = len(content)
        length = pieces[place] = encode_varint(size)
        moved += 1 + len(length) + size - (end - head)
        at = end
    return at, moved


def encode_varint(number: int) -> bytes:
    r"""Return a number as protobuf's variable-length integer.

    >>> encode_varint(300)
    b'\xac\x02'
    """
    if number < len(SHORT):
        return SHORT[number]
    encoded = bytearray()
    while number >= MORE:
        encoded.append(number & (MORE - 1) | MORE)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)
