"""Parts of the SQL with which DuckDB reads Parquet files of a table by their paths."""

from __future__ import annotations

import hashlib
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
    """Where a file is found in a folder of links to local files; where it is itself, if there is no such folder.

    Names there are hashes of paths, which SQL can compute as well. They are short because DuckDB resolves every folder
    of a path each time that it opens a file.

    >>> path_below("/links", "file:///lake/a.parquet"), path_below("/links", "s3a://lake/a.parquet")
    ('/links/6cdee5aa1f728d203c934aeb4fe4814b.parquet', 's3://lake/a.parquet')
    """
    plain = readable(path)
    if not root or not plain.startswith("/"):
        return plain
    return f"{root}/{hashlib.md5(plain.encode(), usedforsecurity=False).hexdigest()}.parquet"


def without_deleted(deletes: Iterable[str], root: str = "") -> str:
    """What follows `read_parquet(…) AS data` to leave out the rows that position-delete files name.

    Paths in them are written as Iceberg's writers do.
    """
    plain = r"regexp_replace(regexp_replace(file_path, '^file:/+', '/'), '^s3[an]:', 's3:')"
    found = f"CASE WHEN {plain} LIKE '/%' THEN {literal(root + '/')} || md5({plain}) || '.parquet' ELSE {plain} END"
    file_path = found if root else plain
    deleted = f"SELECT {file_path} AS file_path, pos FROM read_parquet({file_list(deletes, root)})"  # noqa: S608 - quoted
    return (
        f" ANTI JOIN ({deleted}) AS deleted ON data.filename = deleted.file_path AND data.file_row_number = deleted.pos"
    )
