"""128-bit names of series: hashes of what tells them apart, for whole columns at once.

The names are the same in every process and release, as registers that were written long ago are merged with new ones.
Attributes are added up, so that their order does not matter.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

NOTHING = np.uint64(0x2545F4914F6CDD1D)
LANES = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F))


@dataclass(frozen=True)
class Entries:
    """A column of maps, flat: which row each entry belongs to, its key and its value."""

    rows: int
    owner: npt.NDArray[np.int64]
    keys: pa.DictionaryArray
    values: pa.Array

    @classmethod
    def of(cls, column: pa.MapArray) -> Entries:
        """The entries of a map column; no map and an empty map are the same."""
        offsets = column.offsets.to_numpy(zero_copy_only=False).astype(np.int64)
        first, last = int(offsets[0]), int(offsets[-1])
        owner = np.repeat(np.arange(len(column)), np.diff(offsets))
        keys, values = (part.slice(first, last - first) for part in (column.keys, column.items))
        return cls(len(column), owner, encoded(keys), values)

    def kept(self, mask: npt.NDArray[np.bool_]) -> Entries:
        """Some of the entries."""
        if mask.all():
            return self
        chosen = pa.array(mask)
        return Entries(self.rows, self.owner[mask], self.keys.filter(chosen), self.values.filter(chosen))

    @cached_property
    def hashes(self) -> npt.NDArray[np.uint64]:
        """Two words for each row, which do not depend on the order of its entries."""
        one = mixed(text_hashes(self.keys) * LANES[0] + text_hashes(self.values))
        words = np.zeros((self.rows, 2), dtype=np.uint64)
        for lane, factor in enumerate(LANES):
            np.add.at(words[:, lane], self.owner, mixed(one ^ factor))
        return words


def encoded(column: pa.Array) -> pa.DictionaryArray:
    """Texts as numbers of a dictionary."""
    return column if pa.types.is_dictionary(column.type) else pc.dictionary_encode(column, null_encoding="mask")


def text_hashes(column: pa.Array) -> npt.NDArray[np.uint64]:
    """A hash of each text; only those that differ are looked at one by one."""
    numbers = encoded(column)
    known = numbers.dictionary.to_pylist()
    hashes = np.fromiter((xxhash.xxh3_64_intdigest(str(text).encode()) for text in known), np.uint64, len(known))
    codes = numbers.indices.fill_null(len(known)).to_numpy(zero_copy_only=False)
    found: npt.NDArray[np.uint64] = np.append(hashes, NOTHING)[codes]
    return found


def number_hashes(column: pa.Array) -> npt.NDArray[np.uint64]:
    """A hash of each whole number or truth value."""
    numbers = pc.fill_null(pc.cast(column, pa.int64()), -(2**62)).to_numpy(zero_copy_only=False)
    return mixed(numbers.astype(np.int64).view(np.uint64))


def names_of(parts: Sequence[npt.NDArray[np.uint64]]) -> npt.NDArray[np.uint64]:
    """One name of two words for each row, from the hashes of all that it is made of, in order."""
    names = np.zeros((len(parts[0]), 2), dtype=np.uint64)
    for part in parts:
        words = part if part.ndim == 2 else part[:, None]
        names = mixed(names * np.array(LANES) + words + NOTHING)
    return names


def mixed(words: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Spread every bit over the whole word (the end of SplitMix64)."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    spread: npt.NDArray[np.uint64] = words ^ (words >> np.uint64(31))
    return spread
