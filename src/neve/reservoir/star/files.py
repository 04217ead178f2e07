"""Root files and their windows: which records of which window a file holds, found by its times alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from neve.otap.joins import NONE
from neve.otap.parquet import opened
from neve.otap.part_ids import ids_in
from neve.otap.tables import STARS
from neve.reservoir.window import NANOS

if TYPE_CHECKING:
    import numpy.typing as npt

    from neve.lake.config import S3Config
    from neve.otap.folder import OtapFile

BATCH_ROWS = 256 * 1024
WITHOUT_ID = 1 << 40  # records without an id get one below 0: their place in their file, whose numbers are so far apart


@dataclass(frozen=True)
class RootFile:
    """A root file: what it holds of each window (by the window's start), and of its ids.

    `ids` are the least and the largest, `twice` is one that two of its records have.
    """

    path: str
    part: str
    size: int
    modified_ms: int
    windows: tuple[tuple[int, int], ...] = ()
    without_id: int = 0
    ids: tuple[int, int] | None = None
    twice: int | None = None

    @property
    def identity(self) -> tuple[str, int, int]:
        """What tells a file from one that took its place."""
        return self.path, self.size, self.modified_ms


def scheme_of(uri: str) -> str:
    """What stands before paths of a file system that is not the local one.

    >>> scheme_of("s3://bucket/otap"), scheme_of("/data/otap")
    ('s3://', '')
    """
    scheme, colon, _rest = uri.partition("://")
    return scheme + colon if colon and scheme != "file" else ""


def time_columns(signal: str) -> tuple[str, ...]:
    """The columns that tell when a record was: the first that is not 0."""
    first = STARS[signal].time_column
    return (first, "observed_time_unix_nano") if signal == "logs" else (first,)


def look_into(file: OtapFile, seconds: int, s3: S3Config) -> RootFile:
    """Read the times and the ids of a file's records."""
    counts: dict[int, int] = {}
    found = [np.zeros(0, np.int64)]
    with opened(file.path, s3) as parquet:
        wanted = [name for name in ("id", *time_columns(file.table)) if name in parquet.schema_arrow.names]
        for batch in parquet.iter_batches(BATCH_ROWS, columns=wanted, use_threads=False):
            starts, numbers = np.unique(_starts(batch, file.table, seconds), return_counts=True)
            for start, number in zip(starts.tolist(), numbers.tolist(), strict=True):
                counts[start] = counts.get(start, 0) + number
            found.append(ids_in(pa.table(batch))[0])
    given = np.concatenate(found)
    ids = np.sort(given[given != NONE])
    again = ids[1:][ids[1:] == ids[:-1]]
    return RootFile(
        path=file.path,
        part=file.part,
        size=file.size,
        modified_ms=file.modified_ms,
        windows=tuple(sorted(counts.items())),
        without_id=len(given) - len(ids),
        ids=(int(ids[0]), int(ids[-1])) if len(ids) else None,
        twice=int(again[0]) if len(again) else None,
    )


def times_of(rows: pa.RecordBatch | pa.Table, signal: str) -> npt.NDArray[np.int64]:
    """When every record was, in nanoseconds since 1970."""
    names = [name for name in time_columns(signal) if name in rows.schema.names]
    times = np.zeros(rows.num_rows, np.int64)
    for name in names:
        times = np.where(times == 0, np.asarray(pc.fill_null(_nanos(rows.column(name)), 0)), times)
    return times


def _starts(batch: pa.RecordBatch, signal: str, seconds: int) -> npt.NDArray[np.int64]:
    length = seconds * NANOS
    return times_of(batch, signal) // length * length


def _nanos(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return column if pa.types.is_integer(column.type) else column.cast(pa.int64())
