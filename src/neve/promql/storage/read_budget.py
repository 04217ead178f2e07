"""Budget of the statements of one expression: rows and bytes that they may return together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from neve.errors import LimitExceeded

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["ReadBudget"]


@dataclass(slots=True)
class ReadBudget:
    """Data that the statements of one expression may still return together."""

    points: int
    bytes: int
    rows: int  # about one for each series

    def charge(self, batch: pa.RecordBatch) -> None:
        """Raise `LimitExceeded` if the statements returned too much."""
        self.bytes -= batch.nbytes
        self.rows -= batch.num_rows
        if "points" in batch.schema.names:
            self.points -= len(batch.column("points").flatten())
        if min(self.points, self.bytes, self.rows) < 0:
            message = "query processing would load too many samples into memory in query execution"
            raise LimitExceeded(message, limit="max_samples", hint="narrow the time range or the selector")
