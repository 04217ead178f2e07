"""What is known of a whole table without a look at its rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from neve.autopilot.estimate.columns import cut_lengths

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyiceberg.table import Table

    from neve.autopilot.estimate.compiled import Compiled
    from neve.autopilot.estimate.files import TableFiles


@dataclass(frozen=True)
class Extent:
    """What is known of the whole table: bytes, the target size of files, which columns have bounds, and their ends.

    `lengths` are the columns with bounds, and to how many characters bounds of text are cut; `ends` the places of the
    smallest and largest value among the literals.
    """

    bytes: int
    target_bytes: int
    lengths: Mapping[str, int]
    ends: Mapping[str, tuple[int | None, int | None]]

    @classmethod
    def of(cls, table: Table, files: TableFiles, compiled: Compiled, target_bytes: int) -> Extent:
        """What a table's metadata and manifests say."""
        lengths = cut_lengths(table.schema(), dict(table.properties))
        return cls(files.bytes, target_bytes, lengths, _ends(compiled, files))

    @property
    def files(self) -> int:
        """How many files of the target size the table's bytes are."""
        return max(1, self.bytes // self.target_bytes)


def _ends(compiled: Compiled, files: TableFiles) -> dict[str, tuple[int | None, int | None]]:
    """The places of the smallest and largest value of each column, where every file tells."""
    found: dict[str, tuple[int | None, int | None]] = {}
    for name, tests in compiled.columns.items():
        told = [spec.columns[name] for spec in files.specs.values() if name in spec.columns]
        lows = [tests.cuts.place(low) for one in told for low in one.lows if low is not None]
        highs = [tests.cuts.place(high) for one in told for high in one.highs if high is not None]
        found[name] = (min(lows, default=None), max(highs, default=None))
    return found
