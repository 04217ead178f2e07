"""Parquet files of OTAP's tables by their addresses, and which of their row groups a reader needs."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from neve.errors import InputError
from neve.lake.filesystem import filesystem_of
from neve.otap.footers import opened_file

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow.parquet as pq

    from neve.lake.config import S3Config

Bounds = tuple[int, int] | None

PARENT = "parent_id"


@contextmanager
def opened(path: str, s3: S3Config) -> Iterator[pq.ParquetFile]:
    """A file by its address, closed afterwards; whatever can't be read is an error that names it."""
    filesystem, inner = filesystem_of(path, s3)
    with opened_file(inner, filesystem) as file:
        yield file


def parent_bounds(file: pq.ParquetFile) -> list[Bounds]:
    """The least and the largest parent id of each row group, where the footer tells them."""
    paths = [file.schema.column(index).path for index in range(len(file.schema))]
    if PARENT not in paths:
        raise InputError(f"there is no column {PARENT}")
    column = paths.index(PARENT)
    statistics = [
        file.metadata.row_group(group).column(column).statistics for group in range(file.metadata.num_row_groups)
    ]
    return [(told.min, told.max) if told is not None and told.has_min_max else None for told in statistics]
