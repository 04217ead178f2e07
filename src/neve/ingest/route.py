"""Which writer a row goes to, so that each partition is written by as few writers as will do.

Rows of one partition meet at one writer: a batch makes one file for each partition that it touches, however many tasks
decoded it and however old its records are, and equal records meet as well. Only the newest days of a table that has no
buckets are shared out among all writers, by record id, because almost everything that comes in belongs to them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyiceberg.transforms import BucketTransform

from neve.ingest.duplicates import RECORD_ID, TIME, words_of
from neve.lake.layout import partition_hashes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.table.metadata import TableMetadata

    from neve.ingest.assignment import Assignment

DAY_MICROS = 86_400_000_000


def route(assignment: Assignment, table: str, rows: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    """The rows of a table for each writer that gets some."""
    if assignment.writers == 1:
        yield 0, rows
        return
    metadata = assignment.targets[table].metadata
    fresh_us = assignment.started_unix_nano // 1000 - DAY_MICROS
    writer = writers_of(metadata, rows, assignment.writers, fresh_us)
    order = np.argsort(writer, kind="stable")
    ordered = rows.take(pa.array(order))
    starts = np.flatnonzero(np.diff(writer[order], prepend=-1))
    for start, end in zip(starts, [*starts[1:], len(order)], strict=True):
        yield int(writer[order[start]]), ordered.slice(start, end - start)


def writers_of(metadata: TableMetadata, rows: pa.Table, writers: int, fresh_us: int) -> npt.NDArray[np.int64]:
    """The writer of each row."""
    hashes = partition_hashes(rows, metadata.schema(), metadata.spec())
    has_buckets = any(isinstance(field.transform, BucketTransform) for field in metadata.spec().fields)
    if RECORD_ID in rows.column_names and not has_buckets:
        fresh = rows.column(TIME).combine_chunks().cast(pa.int64()).to_numpy() >= fresh_us
        hashes = np.where(fresh, hashes + words_of(rows.column(RECORD_ID))[:, 0], hashes)
    return (hashes % np.uint64(writers)).astype(np.int64)
