"""Split-block Bloom filters of words: no false negatives, and few false positives.

The hash of a word selects one block of 256 bits, and in it one bit of each of eight parts. So a look-up reads 32 bytes,
regardless of the size of the filter. The first byte is the version.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

if TYPE_CHECKING:
    from collections.abc import Iterable

Hashes = npt.NDArray[np.uint64]

FORM = 1  # of words and filters; another number rebuilds every row
VERSION = 1  # of a filter's bytes
HEADER_BYTES = 1
BLOCK_BYTES = 32
BLOCK_BITS = 8 * BLOCK_BYTES
PARTS = 8
PART_BITS = 32
PLACE_BITS = 5  # of a bit's position in its part
HALF = 32
LOW_HALF = (1 << HALF) - 1
# Odd numbers of 32 bits. Each maps the same hash to another position.
SALTS = (0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D, 0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31)


def hash_words(words: pa.Array) -> Hashes:
    """Return the XXH3-64 of each word's UTF-8 bytes. The loop runs in C."""
    texts = words.cast(pa.large_binary()).to_pylist()
    return np.fromiter(map(xxhash.xxh3_64_intdigest, texts), np.uint64, len(texts))


def make_filter(hashes: Hashes, rate: float) -> bytes:
    """Build a filter of distinct hashes with about this false-positive rate."""
    blocks = math.ceil(len(hashes) / words_per_block(rate))
    bits = np.zeros(blocks * BLOCK_BITS, np.bool_)
    first = ((hashes >> np.uint64(HALF)) * np.uint64(blocks) >> np.uint64(HALF)) * np.uint64(BLOCK_BITS)
    low = hashes.astype(np.uint32)
    for part, salt in enumerate(SALTS):
        place = (low * np.uint32(salt)) >> np.uint32(PART_BITS - PLACE_BITS)
        bits[first + np.uint64(part * PART_BITS) + place] = True
    return bytes([VERSION]) + np.packbits(bits, bitorder="little").tobytes()


@lru_cache
def words_per_block(rate: float) -> float:
    """Return the average number of words per block for a false-positive rate, found by bisection."""
    few, many = 0.0, float(BLOCK_BITS)
    while many - few > 0.001:
        middle = (few + many) / 2
        few, many = (middle, many) if expected_rate(middle) < rate else (few, middle)
    return many


def expected_rate(average: float) -> float:
    """Return the false-positive rate for an average number of words per block, with its random variation.

    >>> round(expected_rate(24.3), 3)
    0.01
    """
    rate, chance = 0.0, math.exp(-average)
    for words in range(1, int(average + 20 * math.sqrt(average)) + 20):
        chance *= average / words
        rate += chance * (1 - (1 - 1 / PART_BITS) ** words) ** PARTS
    return rate


@dataclass(frozen=True)
class Probe:
    """Words to search for, all of them, in many filters."""

    words: tuple[tuple[int, int], ...]  # the selector of the block, and the bits that must be set in it

    @classmethod
    def of(cls, words: Iterable[str]) -> Probe:
        """Create a probe for words in lower case."""
        return cls(tuple(_probe_word(xxhash.xxh3_64_intdigest(word.encode())) for word in words))

    def may_be_in(self, filled: bytes) -> bool:
        """Return whether a filter may contain all the words. True for a filter of another version."""
        if not filled or filled[0] != VERSION or (len(filled) - HEADER_BYTES) % BLOCK_BYTES:
            return True
        blocks = len(filled) // BLOCK_BYTES
        for selector, mask in self.words:
            start = HEADER_BYTES + (selector * blocks >> HALF) * BLOCK_BYTES
            if int.from_bytes(filled[start : start + BLOCK_BYTES], "little") & mask != mask:
                return False
        return True


def _probe_word(number: int) -> tuple[int, int]:
    low = number & LOW_HALF
    places = (((low * salt) & LOW_HALF) >> (PART_BITS - PLACE_BITS) for salt in SALTS)
    return number >> HALF, sum(1 << (part * PART_BITS + place) for part, place in enumerate(places))
