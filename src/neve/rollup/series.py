"""128-bit names of series, hashed for whole columns at once, and HyperLogLog estimates of the number of series.

The names are the same in every process and release, because old registers are merged with new ones. Hashes of
attributes are added up, so that their order does not matter. There are 4096 registers, stored as maps that any engine
can merge: the estimate is within about 1.6 %.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from neve.rollup.arrays import groups_of, order_by

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt


NULL_HASH = np.uint64(0x2545F4914F6CDD1D)
LANES = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F))


@dataclass(frozen=True)
class Entries:
    """A flattened column of maps: the row, the key and the value of each entry."""

    rows: int
    owner: npt.NDArray[np.int64]
    keys: pa.DictionaryArray
    values: pa.Array

    @classmethod
    def of(cls, column: pa.MapArray) -> Entries:
        """Return the entries of a map column. A null map and an empty map are the same."""
        offsets = column.offsets.to_numpy(zero_copy_only=False).astype(np.int64)
        first, last = int(offsets[0]), int(offsets[-1])
        owner = np.repeat(np.arange(len(column)), np.diff(offsets))
        keys, values = (part.slice(first, last - first) for part in (column.keys, column.items))
        return cls(len(column), owner, encode_dictionary(keys), values)

    def filter(self, mask: npt.NDArray[np.bool_]) -> Entries:
        """Return some of the entries."""
        if mask.all():
            return self
        chosen = pa.array(mask)
        return Entries(self.rows, self.owner[mask], self.keys.filter(chosen), self.values.filter(chosen))

    @cached_property
    def hashes(self) -> npt.NDArray[np.uint64]:
        """Return two words for each row, which do not depend on the order of its entries."""
        one = mix_bits(text_hashes(self.keys) * LANES[0] + text_hashes(self.values))
        words = np.zeros((self.rows, 2), dtype=np.uint64)
        for lane, factor in enumerate(LANES):
            np.add.at(words[:, lane], self.owner, mix_bits(one ^ factor))
        return words


def encode_dictionary(column: pa.Array) -> pa.DictionaryArray:
    """Return texts as indices of a dictionary."""
    return column if pa.types.is_dictionary(column.type) else pc.dictionary_encode(column, null_encoding="mask")


def text_hashes(column: pa.Array) -> npt.NDArray[np.uint64]:
    """Return a hash of each text. Only distinct texts are hashed one by one."""
    numbers = encode_dictionary(column)
    known = numbers.dictionary.to_pylist()
    hashes = np.fromiter((xxhash.xxh3_64_intdigest(str(text).encode()) for text in known), np.uint64, len(known))
    codes = numbers.indices.fill_null(len(known)).to_numpy(zero_copy_only=False)
    found: npt.NDArray[np.uint64] = np.append(hashes, NULL_HASH)[codes]
    return found


def number_hashes(column: pa.Array) -> npt.NDArray[np.uint64]:
    """Return a hash of each integer or boolean."""
    numbers = pc.fill_null(pc.cast(column, pa.int64()), -(2**62)).to_numpy(zero_copy_only=False)
    return mix_bits(numbers.astype(np.int64).view(np.uint64))


def hash_names(parts: Sequence[npt.NDArray[np.uint64]]) -> npt.NDArray[np.uint64]:
    """Return a name of two words for each row, from the hashes of all of its parts, in order."""
    names = np.zeros((len(parts[0]), 2), dtype=np.uint64)
    for part in parts:
        words = part if part.ndim == 2 else part[:, None]
        names = mix_bits(names * np.array(LANES) + words + NULL_HASH)
    return names


def mix_bits(words: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Spread every bit over the whole word (the end of SplitMix64)."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    spread: npt.NDArray[np.uint64] = words ^ (words >> np.uint64(31))
    return spread


BITS = 12
NUMBER = 1 << BITS
REST = 64 - BITS
ALPHA = 0.7213 / (1 + 1.079 / NUMBER)


@dataclass(frozen=True)
class HyperLogLog:
    """Registers as a flat array: the owner, number and value of each. Missing registers are zero."""

    owner: npt.NDArray[np.int64]
    number: npt.NDArray[np.int64]
    value: npt.NDArray[np.int64]

    @classmethod
    def of_names(cls, names: npt.NDArray[np.uint64]) -> HyperLogLog:
        """Return the registers of one series for each owner, by the first word of its name."""
        rest = (names & np.uint64((1 << REST) - 1)).astype(np.float64)  # exact: it has at most 52 bits
        length = np.frexp(rest)[1]
        number = (names >> np.uint64(REST)).astype(np.int64)
        return cls(np.arange(len(names)), number, (REST + 1 - length).astype(np.int64))

    def select(self, owners: npt.NDArray[np.int64], of: int) -> HyperLogLog:
        """Return the registers of some of the owners, each at most once, renumbered in the given order."""
        place = np.full(of, -1, dtype=np.int64)
        place[owners] = np.arange(len(owners))
        mine = place[self.owner] >= 0
        return HyperLogLog(place[self.owner[mine]], self.number[mine], self.value[mine])

    def merge(self, group: npt.NDArray[np.int64]) -> HyperLogLog:
        """Return the largest value of each register, for each group of owners."""
        of_group = group[self.owner]
        order = order_by((of_group, self.number))
        of_group, number = of_group[order], self.number[order]
        same = groups_of((of_group, number))
        return HyperLogLog(of_group[same.starts], number[same.starts], same.reduce(np.maximum, self.value[order]))

    def estimates(self, owners: int) -> npt.NDArray[np.int64]:
        """Return the estimated number of series of each owner."""
        there = np.bincount(self.owner, minlength=owners)
        harmonic = np.bincount(self.owner, np.exp2(-self.value.astype(np.float64)), owners) + (NUMBER - there)
        estimate = ALPHA * NUMBER * NUMBER / harmonic
        zeros = NUMBER - there
        few = (estimate <= 2.5 * NUMBER) & (zeros > 0)
        counted = NUMBER * np.log(NUMBER / np.maximum(zeros, 1))
        return np.rint(np.where(few, counted, estimate)).astype(np.int64)
