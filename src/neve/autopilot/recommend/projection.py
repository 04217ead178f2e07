"""What a promoted column saves beside files: a query that wants one key no longer reads the whole map."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from neve.autopilot.estimate.columns import source_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyiceberg.schema import Schema

    from neve.autopilot.layout import Layout


@dataclass(frozen=True)
class Projection:
    """The columns that each distinct filter's queries read, the bytes of columns, and the parts of keys in maps."""

    columns: Sequence[frozenset[str]]
    bytes: Mapping[str, int]
    key_shares: Mapping[str, float]

    def factors(self, layout: Layout) -> npt.NDArray[np.float64]:
        """How much of the bytes that they read today queries still read, beside what files are left out."""
        if not layout.promoted:
            return np.ones(1)
        promoted = {one.source for one in layout.promoted}
        return np.array([self._factor(columns, promoted) for columns in self.columns])

    def _factor(self, columns: frozenset[str], promoted: set[str]) -> float:
        tops = {source_of(name).top for name in columns}
        before = sum(self.bytes.get(top, 0) for top in tops)
        left = {source_of(name).top for name in columns if name not in promoted}
        keys = sum(
            self.bytes.get(source_of(name).top, 0) * self.key_shares.get(name, 1.0) for name in promoted & columns
        )
        after = sum(self.bytes.get(top, 0) for top in left) + keys
        return min(1.0, after / before) if before else 1.0


def column_bytes(schema: Schema, by_id: Mapping[int, int]) -> dict[str, int]:
    """The bytes of top columns; those of maps and structs are the sums of what is inside."""
    found: dict[str, int] = {}
    for number, size in by_id.items():
        name = schema.find_column_name(number)
        if name:
            top = name.split(".")[0]
            found[top] = found.get(top, 0) + size
    return found
