"""Parts of the SQL with which DuckDB reads Parquet files of a table by their paths."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neve.lake.duck import literal
from neve.lake.manifest_sources import readable

if TYPE_CHECKING:
    from collections.abc import Iterable


def file_list(paths: Iterable[str], root: str = "") -> str:
    """Paths as `read_parquet` takes them; local ones below a folder, if there is one.

    >>> file_list(["file:///lake/a.parquet"])
    "['/lake/a.parquet']"
    """
    return f"[{', '.join(literal(path_below(root, path)) for path in paths)}]"


def path_below(root: str, path: str) -> str:
    """Where a file is found below a folder of links to local files.

    >>> path_below("/links", "file:///lake/a.parquet"), path_below("/links", "s3a://lake/a.parquet")
    ('/links/lake/a.parquet', 's3://lake/a.parquet')
    """
    plain = readable(path)
    return root + plain if plain.startswith("/") else plain


def without_deleted(deletes: Iterable[str], root: str = "") -> str:
    """What follows `read_parquet(…) AS data` to leave out the rows that position-delete files name.

    Paths in them are written as Iceberg's writers do.
    """
    local = literal(root.replace("\\", "\\\\") + "/")
    plain = f"regexp_replace(regexp_replace(file_path, '^(file:)?/+', {local}), '^s3[an]:', 's3:')"
    deleted = f"SELECT {plain} AS file_path, pos FROM read_parquet({file_list(deletes, root)})"  # noqa: S608 - quoted
    return (
        f" ANTI JOIN ({deleted}) AS deleted ON data.filename = deleted.file_path AND data.file_row_number = deleted.pos"
    )
