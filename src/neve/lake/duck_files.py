"""Parts of the SQL with which DuckDB reads Parquet files of a table by their paths."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neve.lake.duck import literal
from neve.lake.manifest_sources import readable

if TYPE_CHECKING:
    from collections.abc import Iterable


def file_list(paths: Iterable[str]) -> str:
    """Paths as `read_parquet` takes them.

    >>> file_list(["file:///lake/a.parquet"])
    "['/lake/a.parquet']"
    """
    return f"[{', '.join(literal(readable(path)) for path in paths)}]"


def without_deleted(deletes: Iterable[str]) -> str:
    """What follows `read_parquet(…) AS data` to leave out the rows that position-delete files name.

    Paths in them are written as Iceberg's writers do.
    """
    plain = r"regexp_replace(regexp_replace(file_path, '^file:/+', '/'), '^s3[an]:', 's3:')"
    deleted = f"SELECT {plain} AS file_path, pos FROM read_parquet({file_list(deletes)})"  # noqa: S608 - quoted
    return (
        f" ANTI JOIN ({deleted}) AS deleted ON data.filename = deleted.file_path AND data.file_row_number = deleted.pos"
    )
