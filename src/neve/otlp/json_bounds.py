"""Measure a JSON message without a parser: parsers recurse, and make hundreds of bytes of an object that has two.

Brackets are counted by their depth. In OTLP JSON the depth of a brace says what it begins: a message holds a list of
resources, each a list of scopes, each a list of records, and every list and object is one level.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from neve.otlp.bounds import Entry, TooMany

if TYPE_CHECKING:
    import numpy.typing as npt

    from neve.otlp.bounds import Bounds

QUOTE, BRACE = ord('"'), ord("{")
CHUNK = 1024 * 1024  # how much is looked at together; what is carried over is one depth and one bit
STEPS = np.zeros(256, dtype=np.int8)
STEPS[list(b"[{")] = 1
STEPS[list(b"]}")] = -1
RESOURCES, SCOPES = 3, 5  # the depths that they begin at
DEEPEST = 16  # depths that are told apart
VALUES_EACH = 2  # commas for each object; a normal attribute is two objects with three commas


@dataclass(frozen=True)
class JsonShape:
    """How deep a text is nested, how many objects begin at each depth, and a number not below that of its values."""

    depth: int
    objects: tuple[int, ...]
    values: int


def measure_json(text: bytes) -> JsonShape:
    r"""Count the brackets of a text; those inside of strings do not count.

    >>> shape = measure_json(b'{"a": [1, {}, "[[[", "\\"["]}')
    >>> shape.depth, shape.objects[:5]
    (3, (0, 1, 0, 1, 0))
    """
    plain = np.frombuffer(text.replace(b"\\\\", b"").replace(b'\\"', b""), dtype=np.uint8)
    objects = np.zeros(DEEPEST + 1, dtype=np.int64)
    deepest, now, inside = 0, 0, False
    for start in range(0, len(plain), CHUNK):
        chunk = plain[start : start + CHUNK]
        quoted = np.logical_xor.accumulate(chunk == QUOTE) ^ inside
        inside = bool(quoted[-1])
        steps = STEPS[chunk]
        chosen = np.flatnonzero((steps != 0) & ~quoted)
        if len(chosen):
            depths = np.cumsum(steps[chosen], dtype=np.int64) + now
            deepest, now = max(deepest, int(depths.max())), int(depths[-1])
            objects += _histogram(depths[chunk[chosen] == BRACE])
    return JsonShape(deepest, tuple(objects.tolist()), text.count(b",") + int(objects.sum()) + 1)


def check_json_bounds(shape: JsonShape, bounds: Bounds) -> None:
    """Raise `TooMany` for a text that holds more than its bounds.

    The counts are never below those of the message that a reader would make. Records are counted when they are one:
    here all objects together are bounded.
    """
    if shape.objects[RESOURCES] + shape.objects[SCOPES] > bounds.groups:
        raise TooMany(Entry.GROUP, bounds.groups)
    if sum(shape.objects) > bounds.records + bounds.attributes:
        raise TooMany(Entry.PART, bounds.attributes)
    if shape.values > VALUES_EACH * (bounds.records + bounds.attributes):
        raise TooMany(Entry.PART, bounds.attributes)


def _histogram(depths: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    return np.bincount(np.clip(depths, 0, DEEPEST), minlength=DEEPEST + 1).astype(np.int64)
