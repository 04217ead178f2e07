"""The collector's hash of a trace: FNV-1a of 64 bits over a salt and the bytes of the id, and shares of all hashes."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from neve.tail.policy.traces import Unsigned

DEFAULT_SALT = "default-hash-seed"  # an empty salt means this one
LARGEST_HASH = (1 << 64) - 1
PRECISION_BITS = 64  # of the product that the collector cuts to a threshold

_BASIS = 0xCBF29CE484222325
_PRIME = 0x100000001B3
_CHUNK = 1 << 14  # traces at a time: their hashes stay in the processor's cache


def salted(salt: str) -> int:
    """The hash after the salt, where the bytes of an id go on."""
    state = _BASIS
    for byte in (salt or DEFAULT_SALT).encode():
        state = ((state ^ byte) * _PRIME) & LARGEST_HASH
    return state


def hashes(ids: npt.NDArray[np.uint8], salt: str) -> Unsigned:
    """The hash of each trace (n x 16 bytes)."""
    result = np.full(len(ids), salted(salt), dtype=np.uint64)
    prime = np.uint64(_PRIME)
    for start in range(0, len(ids), _CHUNK):
        part = result[start : start + _CHUNK]
        columns = ids[start : start + _CHUNK].T.astype(np.uint64)
        for column in columns:
            part ^= column
            part *= prime  # wraps, as it should
    return result


def largest_sampled(percentage: float) -> int:
    """The largest hash that a percentage samples: (2^64 - 1) * percentage / 100, rounded to 64 bits, then cut.

    The ratio is a double, and so is its error: 10 % is not exactly a tenth of all hashes.
    """
    ratio = Fraction(percentage / 100)
    if ratio <= 0:
        return 0
    return min(int(_rounded(LARGEST_HASH * ratio)), LARGEST_HASH)


def share(largest: int) -> Fraction:
    """The share of all hashes that are not over the largest one."""
    return Fraction(largest + 1, LARGEST_HASH + 1)


def _rounded(value: Fraction) -> Fraction:
    """To the precision of the product: half goes to the even neighbour."""
    magnitude = value.numerator.bit_length() - value.denominator.bit_length()
    magnitude += 1 if value >= Fraction(2) ** magnitude else 0  # now 2^(magnitude - 1) <= value < 2^magnitude
    unit = Fraction(2) ** (magnitude - PRECISION_BITS)
    return round(value / unit) * unit
