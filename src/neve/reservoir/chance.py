"""Chance that can be computed again: a number in (0, 1] for each item, from the salt of its stage and its key.

Spark's `xxhash64` hashes its arguments one after the other, each seeded with the hash before it; the functions here do
the same, so that a sample can be computed without Spark too.
"""

from __future__ import annotations

import hashlib
import struct

import xxhash

SEED = 42  # of Spark's xxhash64
HALF = 1 << 32
WHOLE = 1 << 64

Key = int | str | bytes | tuple["Key", ...]


def salt_of(*words: object) -> int:
    """The salt of a stage: 64 bits, signed, from what tells it from every other stage.

    Two stages with one salt keep the same items for the same reason, and the counts of the second are wrong by far.
    """
    said = "\x1f".join(str(word) for word in words).encode()
    return int.from_bytes(hashlib.sha256(said).digest()[:8], "little", signed=True)


def hashed(salt: int, key: Key) -> int:
    """64 bits, unsigned, of a key under a salt; whole numbers are hashed as `bigint`."""
    return _chained(key, xxhash.xxh64_intdigest(struct.pack("<q", salt), SEED))


def uniform(salt: int, key: Key) -> float:
    """A number in (0, 1]; never 0, by which weights are divided."""
    bits = hashed(salt, key)
    return (float(bits >> 32) * HALF + float(bits & (HALF - 1)) + 1.0) / WHOLE


def hash_sql(salt: int, *keys: str) -> str:
    """The hash as Spark SQL."""
    return f"xxhash64({salt}L, {', '.join(keys)})"


def uniform_sql(bits: str) -> str:
    """The number as Spark SQL, from the hash; both halves fit a double, so that every engine rounds alike."""
    return f"((shiftrightunsigned({bits}, 32) * {HALF}D + ({bits} & {HALF - 1}L) + 1D) / {WHOLE}D)"


def _chained(key: Key, seed: int) -> int:
    if isinstance(key, tuple):
        for part in key:
            seed = _chained(part, seed)
        return seed
    return xxhash.xxh64_intdigest(_bytes(key), seed)


def _bytes(key: int | str | bytes) -> bytes:
    if isinstance(key, int):
        return struct.pack("<q", key)
    return key.encode() if isinstance(key, str) else key
