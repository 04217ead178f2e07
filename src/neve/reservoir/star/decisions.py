"""Decisions about a window as they were written down, for those who rebuild its tables."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds

from neve.lake.filesystem import filesystem_of
from neve.otap.joins import ids_of

if TYPE_CHECKING:
    import numpy.typing as npt

    from neve.lake.config import S3Config
    from neve.otap.joins import Ids


@dataclass(frozen=True)
class Decisions:
    """What was decided about a window, where it was written down."""

    path: str
    s3: S3Config

    def count(self) -> int:
        """How many records are to be kept."""
        return int(self._rows.count_rows())

    def about(self, part: str) -> Kept:
        """Those about a part; a decision that names no part is about the only one."""
        mine = (ds.field("part") == part) | ds.field("part").is_null()
        rows = self._rows.to_table(filter=mine).sort_by("id")
        return Kept(ids_of(rows.column("id")), rows)

    @cached_property
    def _rows(self) -> ds.Dataset:
        filesystem, inner = filesystem_of(self.path, self.s3)
        return ds.dataset(inner, filesystem=filesystem, format="parquet")


@dataclass(frozen=True)
class Kept:
    """The decisions about a part's records that are kept, in the order of their ids."""

    ids: Ids
    rows: pa.Table

    def holds(self, ids: Ids) -> npt.NDArray[np.bool_]:
        """Which ids are kept."""
        return np.isin(ids, self.ids)

    def about(self, ids: Ids) -> pa.Table:
        """The decisions about kept records."""
        return self.rows.take(pa.array(np.searchsorted(self.ids, ids)))
