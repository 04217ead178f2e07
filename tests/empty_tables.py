"""The declared tables in a new lake, copied from templates instead of created one by one.

`init_tables` takes a quarter of a CPU second, and hundreds of tests begin with it. Here it runs once in a process.
Other lakes get its metadata files and its catalog with their own location, table ids and times.
`tests/test_empty_tables.py` compares both.
"""

from __future__ import annotations

import json
import sqlite3
import tempfile
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from neve.lake.catalog import sqlite_path
from neve.lake.config import CatalogConfig, LakeConfig
from neve.lake.lake import Lake
from neve.lake.tables import init_tables
from neve.model.signals import NAMESPACE
from neve.model.tables import TABLES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from neve.model.columns import Table

LOCATION, TABLE_ID, MILLISECONDS = "{location}", "{table id}", "{milliseconds}"


@dataclass(frozen=True)
class Template:
    """A catalog file with all declared tables, and the text of each table's metadata with gaps to fill."""

    catalog: bytes
    metadata: dict[str, str]


def create_empty_tables(lake: Lake, tables: Iterable[Table] = TABLES) -> None:
    """Do as `init_tables` does, for a SQLite catalog and a local warehouse. It is called if the lake exists already."""
    assert lake.catalog_config.kind == "sqlite"
    if lake.exists:
        init_tables(lake, tables)
        return
    found, path, names = template(), sqlite_path(lake.catalog_config), [table.name for table in tables]
    lake.create()
    path.write_bytes(found.catalog)
    files = [(write_metadata(lake, name, found.metadata[name]), name) for name in names]
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("PRAGMA synchronous = OFF")
        for owned in ("iceberg_tables", "iceberg_namespace_properties"):
            connection.execute(f"UPDATE {owned} SET catalog_name = ?", [lake.catalog_config.name])
        connection.executemany("UPDATE iceberg_tables SET metadata_location = ? WHERE table_name = ?", files)
        connection.execute(f"DELETE FROM iceberg_tables WHERE table_name NOT IN ({','.join('?' * len(names))})", names)
    connection.close()


def write_metadata(lake: Lake, table: str, text: str) -> str:
    """Write the first metadata file of a table and return its location."""
    location = f"{lake.lake.location}/{NAMESPACE}/{table}"
    text = text.replace(LOCATION, location).replace(TABLE_ID, str(uuid4()))
    path = Path(location.removeprefix("file://"), "metadata", f"00000-{uuid4()}.metadata.json")
    path.parent.mkdir(parents=True)
    path.write_text(text.replace(f'"{MILLISECONDS}"', str(time.time_ns() // 10**6)))
    return f"{location}/metadata/{path.name}"


@cache
def template() -> Template:
    """Create all tables in a temporary lake, once in a process."""
    with tempfile.TemporaryDirectory() as folder:
        lake = Lake(LakeConfig(warehouse=f"{folder}/warehouse"), CatalogConfig(path=f"{folder}/catalog.db"))
        init_tables(lake)
        metadata = {table.name: _with_gaps(lake.table(table.name).metadata_location) for table in TABLES}
        return Template(Path(folder, "catalog.db").read_bytes(), metadata)


def _with_gaps(metadata_location: str) -> str:
    content = json.loads(Path(metadata_location.removeprefix("file://")).read_text())
    assert content["metadata-log"] == content["snapshots"] == []
    gaps = {"location": LOCATION, "table-uuid": TABLE_ID, "last-updated-ms": MILLISECONDS}
    return json.dumps(content | gaps)
