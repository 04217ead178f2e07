"""What estimates are made for: groups, or everything."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa


@dataclass(frozen=True)
class Domains:
    """The number of the domain of each item, and the domains' names by number; None: items without a name."""

    codes: npt.NDArray[np.int64]
    names: tuple[str | None, ...]

    @classmethod
    def of(cls, names: pa.ChunkedArray | pa.Array) -> Domains:
        """A domain for each name."""
        whole = names.combine_chunks() if hasattr(names, "combine_chunks") else names
        coded = pc.dictionary_encode(whole, null_encoding="encode")
        return cls(coded.indices.to_numpy().astype(np.int64), tuple(coded.dictionary.to_pylist()))

    @classmethod
    def everything(cls, items: int) -> Domains:
        """One domain with all items."""
        return cls(np.zeros(items, dtype=np.int64), (None,))

    @property
    def number(self) -> int:
        """How many there are."""
        return len(self.names)

    def sums(self, items: npt.NDArray[np.float64] | npt.NDArray[np.bool_]) -> npt.NDArray[np.float64]:
        """The sum over each domain."""
        return sums_by(self.codes, items, self.number)

    def counts(self) -> npt.NDArray[np.float64]:
        """How many items each domain has."""
        return sums_by(self.codes, np.ones(len(self.codes)), self.number)


def sums_by(
    codes: npt.NDArray[np.int64], items: npt.NDArray[np.float64] | npt.NDArray[np.bool_], number: int
) -> npt.NDArray[np.float64]:
    """The sum of the items of each code below `number`."""
    return np.bincount(codes, items, number).astype(np.float64)
