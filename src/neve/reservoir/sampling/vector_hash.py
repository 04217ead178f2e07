"""Random numbers of whole columns: `methods.hash_key` and `methods.uniform` over Arrow arrays, bit by bit the same.

Spark's `xxhash64` hashes values one after the other, each seeded with the hash before it. A seed is one number for each
row.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import xxhash

from neve.reservoir.sampling.methods import HALF, SEED, WHOLE

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    Hashes = npt.NDArray[np.uint64]

PRIMES = tuple(
    np.uint64(number)
    for number in (
        0x9E3779B185EBCA87,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0x85EBCA77C2B2AE63,
        0x27D4EB2F165667C5,
    )
)
P1, P2, P3, P4, P5 = PRIMES
STRIPE, WORD, HALF_WORD = 32, 8, 4  # bytes


def hash_columns(salt: int, keys: Sequence[pa.Array]) -> Hashes:
    """Return the hashes of keys under a salt; the columns are the parts of a key."""
    first = np.uint64(xxhash.xxh64_intdigest(struct.pack("<q", salt), SEED))
    hashes = np.full(len(keys[0]), first)
    for key in keys:
        hashes = _chain(key, hashes)
    return hashes


def to_uniform(hashes: Hashes) -> npt.NDArray[np.float64]:
    """Return random numbers in (0, 1], from hashes."""
    high = (hashes >> np.uint64(32)).astype(np.float64)
    high *= float(HALF)
    high += (hashes & np.uint64(HALF - 1)).astype(np.float64)
    high += 1.0
    high /= float(WHOLE)
    return high


def is_hashable(kind: pa.DataType) -> bool:
    """Return whether columns of a type can be hashed."""
    return bool(
        pa.types.is_int64(kind)
        or pa.types.is_string(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_fixed_size_binary(kind)
    )


def _chain(column: pa.Array, seeds: Hashes) -> Hashes:
    """Return the hashes of a column; a null leaves the seed."""
    if pa.types.is_int64(column.type):
        words = column.fill_null(0).to_numpy().view(np.uint64)
        hashes = _finish(_add_word(seeds + P5 + np.uint64(WORD), words))
    elif pa.types.is_fixed_size_binary(column.type):
        width = column.type.byte_width
        octets = np.frombuffer(column.buffers()[1], np.uint8, len(column) * width, column.offset * width)
        hashes = _hash_equal_lengths(octets.reshape(len(column), width), seeds)
    else:
        hashes = _hash_texts(column.cast(pa.binary()), seeds)
    if column.null_count:
        return np.where(column.is_null().to_numpy(zero_copy_only=False), seeds, hashes)
    return hashes


def _hash_texts(column: pa.BinaryArray, seeds: Hashes) -> Hashes:
    """Hash values of any length: those of one length at a time."""
    offsets = np.frombuffer(column.buffers()[1], np.int32, len(column) + 1, column.offset * 4).astype(np.int64)
    data = column.buffers()[2]
    octets = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
    starts, lengths = offsets[:-1], np.diff(offsets)
    if column.null_count:
        lengths = np.where(column.is_null().to_numpy(zero_copy_only=False), 0, lengths)
    hashes = np.empty(len(column), dtype=np.uint64)
    for length in np.unique(lengths).tolist():
        rows = np.flatnonzero(lengths == length)
        values = octets[starts[rows, None] + np.arange(length)]
        hashes[rows] = _hash_equal_lengths(values, seeds[rows])
    return hashes


def _hash_equal_lengths(values: npt.NDArray[np.uint8], seeds: Hashes) -> Hashes:
    """Hash rows of equally many bytes."""
    length = values.shape[1]
    at = length - length % STRIPE
    hashes = _hash_stripes(_words(values[:, :at]), seeds) if at else seeds + P5
    hashes = hashes + np.uint64(length)
    for start in range(at, length - length % WORD, WORD):
        hashes = _add_word(hashes, _words(values[:, start : start + WORD])[:, 0])
    at = length - length % WORD
    if length - at >= HALF_WORD:
        number = np.ascontiguousarray(values[:, at : at + HALF_WORD]).view("<u4")[:, 0].astype(np.uint64)
        hashes = _rotate(hashes ^ (number * P1), 23) * P2 + P3
        at += HALF_WORD
    for place in range(at, length):
        hashes = _rotate(hashes ^ (values[:, place].astype(np.uint64) * P5), 11) * P1
    return _finish(hashes)


def _hash_stripes(words: Hashes, seeds: Hashes) -> Hashes:
    lanes = [seeds + P1 + P2, seeds + P2, seeds + np.uint64(0), seeds - P1]
    for start in range(0, words.shape[1], 4):
        lanes = [_round(lane, words[:, start + number]) for number, lane in enumerate(lanes)]
    hashes = _rotate(lanes[0], 1) + _rotate(lanes[1], 7) + _rotate(lanes[2], 12) + _rotate(lanes[3], 18)
    for lane in lanes:
        hashes = (hashes ^ _round(np.zeros_like(lane), lane)) * P1 + P4
    return hashes


def _words(values: npt.NDArray[np.uint8]) -> Hashes:
    return np.ascontiguousarray(values).view("<u8")


def _add_word(hashes: Hashes, words: Hashes) -> Hashes:
    mixed = hashes ^ _round(np.zeros_like(words), words)
    return _rotate(mixed, 27) * P1 + P4


def _round(lane: Hashes, words: Hashes) -> Hashes:
    return _rotate(lane + words * P2, 31) * P1


def _rotate(values: Hashes, bits: int) -> Hashes:
    return (values << np.uint64(bits)) | (values >> np.uint64(64 - bits))


def _finish(hashes: Hashes) -> Hashes:
    hashes = hashes ^ (hashes >> np.uint64(33))
    hashes *= P2
    hashes ^= hashes >> np.uint64(29)
    hashes *= P3
    hashes ^= hashes >> np.uint64(32)
    return hashes
