"""How deep JSON is nested, found without a parser: parsers recurse, and a deep text would end them or the process."""

from __future__ import annotations

import numpy as np

QUOTE = ord('"')
CHUNK = 1024 * 1024  # how much is looked at together; what is carried over is one depth and one bit
STEPS = np.zeros(256, dtype=np.int8)
STEPS[list(b"[{")] = 1
STEPS[list(b"]}")] = -1


def depth(text: bytes) -> int:
    r"""How many brackets are open at a time, at most; brackets inside of strings do not count.

    >>> depth(b'{"a": [1, "[[[", "\\"["]}')
    2
    """
    plain = np.frombuffer(text.replace(b"\\\\", b"").replace(b'\\"', b""), dtype=np.uint8)
    deepest, now, inside = 0, 0, False
    for start in range(0, len(plain), CHUNK):
        chunk = plain[start : start + CHUNK]
        quoted = np.logical_xor.accumulate(chunk == QUOTE) ^ inside
        steps = STEPS[chunk]
        steps = steps[(steps != 0) & ~quoted]
        inside = bool(quoted[-1])
        if len(steps):
            depths = np.cumsum(steps, dtype=np.int64) + now
            deepest, now = max(deepest, int(depths.max())), int(depths[-1])
    return deepest
