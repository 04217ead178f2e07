"""The DuckDB that a cycle works in: a file in a folder of its own, so that memory stays flat whatever comes."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

from neve.lake.duck import prepare

if TYPE_CHECKING:
    from collections.abc import Iterator

    from neve.lake.config import S3Config


@contextmanager
def scratch(s3: S3Config, *, on_s3: bool, memory_mb: int, threads: int = 0) -> Iterator[duckdb.DuckDBPyConnection]:
    """A DuckDB with its own file, gone when the cycle ends."""
    folder = Path(tempfile.mkdtemp(prefix="neve-tail-"))
    settings: dict[str, str | bool | int | float | list[str]] = {
        "memory_limit": f"{memory_mb}MB",
        "temp_directory": str(folder),
        "preserve_insertion_order": "false",
        **({"threads": threads} if threads else {}),
    }
    connection = duckdb.connect(str(folder / "cycle.duckdb"), config=settings)
    try:
        prepare(connection, s3, on_s3=on_s3, extensions=("httpfs",) if on_s3 else ())
        yield connection
    finally:
        connection.close()
        shutil.rmtree(folder, ignore_errors=True)
