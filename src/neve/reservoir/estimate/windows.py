"""The windows of time that a sample was drawn from."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from neve.errors import InputError

if TYPE_CHECKING:
    import numpy.typing as npt

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SECOND = 1_000_000_000  # in nanoseconds


@dataclass(frozen=True)
class Windows:
    """The number of the window of each item, and where windows begin and end in nanoseconds, in the order of time.

    A window in which nothing was kept leaves no trace in a sample, so that a rate is one over the windows that had
    records.
    """

    codes: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]

    @classmethod
    def of(cls, table: pa.Table) -> Windows | None:
        """The windows of a table's rows; None where it does not tell them."""
        there = [name for name in ("window_start", "window_end") if name in table.column_names]
        if not there:
            return None
        if len(there) == 1:
            raise InputError(f"a sample with the column {there[0]!r} alone, expected window_start and window_end")
        begin, end = (_nanoseconds(table, name) for name in there)
        starts, first, codes = np.unique(begin, return_index=True, return_inverse=True)
        found = cls(codes.astype(np.int64), starts, end[first])
        found._check(begin, end)
        return found

    @property
    def seconds(self) -> float:
        """How long they are together."""
        return float(np.sum((self.ends - self.starts) / SECOND))

    @property
    def period(self) -> tuple[datetime, datetime]:
        """From the first to the last, in UTC."""
        begin, end = (int(edge) // 1000 for edge in (self.starts[0], self.ends[-1]))
        return EPOCH + timedelta(microseconds=begin), EPOCH + timedelta(microseconds=end)

    def _check(self, begin: npt.NDArray[np.int64], end: npt.NDArray[np.int64]) -> None:
        if np.any(end <= begin):
            place = int(np.argmax(end <= begin))
            raise InputError(f"the window of row {place:,} ends at {_time(end[place])}, before {_time(begin[place])}")
        over = np.flatnonzero((end != self.ends[self.codes]) | (end > _next(self.starts)[self.codes]))
        if len(over):
            place = int(over[0])
            raise InputError(
                f"windows overlap: one from {_time(begin[place])} to {_time(end[place])} and another one",
                hint="records in both would count twice; choose windows of one run",
            )


def _next(starts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    return np.append(starts[1:], np.iinfo(np.int64).max)


def _nanoseconds(table: pa.Table, name: str) -> npt.NDArray[np.int64]:
    column = table.column(name)
    if column.null_count:
        raise InputError(f"{column.null_count:,} of {table.num_rows:,} kept items have no {name}")
    kind = column.type
    if pa.types.is_timestamp(kind):
        column = pc.cast(column, pa.timestamp("ns", kind.tz))
    elif not pa.types.is_integer(kind):
        raise InputError(f"the column {name!r} of a sample is {kind}, expected a timestamp or int64 nanoseconds")
    found: npt.NDArray[np.int64] = pc.cast(column, pa.int64()).to_numpy()
    return found


def _time(nanoseconds: np.int64) -> str:
    return f"{np.datetime64(int(nanoseconds) // 1000, 'us')}Z"
