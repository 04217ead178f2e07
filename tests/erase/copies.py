"""Rows of any table with a marker in them, and a search of all files for it."""

from __future__ import annotations

import gzip
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from neve.lake.commit.append import append_once
from neve.lake.config import S3Config
from neve.lake.duckdb import connect, quote_literal
from neve.lake.write.table_writer import Target, write_files
from neve.model.tables import TABLES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from random import Random

    from duckdb import DuckDBPyConnection

    from neve.lake.lake import Lake
    from neve.model.columns import Table

MARKER = "ada.lovelace-4711@example.com"
ACME = "acme"
START = datetime(2026, 1, 31, tzinfo=UTC)
KEY = "user.id"


PLAIN: tuple[tuple[Callable[[pa.DataType], bool], Callable[[Random, str], Any]], ...] = (
    (pa.types.is_string, lambda random, name: f"{name}-{random.randrange(1000)}"),
    (pa.types.is_binary, lambda random, _name: random.randbytes(16)),
    (pa.types.is_boolean, lambda random, _name: random.random() < 0.5),
    (pa.types.is_floating, lambda random, _name: random.random()),
    (pa.types.is_integer, lambda random, _name: random.randrange(100)),
    (pa.types.is_timestamp, lambda random, _name: START + timedelta(hours=random.randrange(24))),
)


def value_of(kind: pa.DataType, random: Random, name: str) -> Any:
    """A random value of a type."""
    for is_kind, make in PLAIN:
        if is_kind(kind):
            return make(random, name)
    if pa.types.is_map(kind):
        return [(value_of(kind.key_type, random, f"{name}-{n}"), value_of(kind.item_type, random, name)) for n in "ab"]
    if pa.types.is_list(kind):
        return [value_of(kind.value_type, random, name) for _ in range(2)]
    return {field.name: value_of(field.type, random, field.name) for field in kind}


def make_rows(table: Table, random: Random, count: int, organization: str = ACME) -> list[dict[str, Any]]:
    """Random rows of a table."""
    return [
        {column.name: value_of(column.type, random, column.name) for column in table.columns}
        | {"organization_id": organization}
        for _ in range(count)
    ]


def mark(table: Table, row: dict[str, Any]) -> dict[str, Any]:
    """Put the marker into a row: into its attributes, else into a text, else into bytes."""
    kinds = {column.name: column.type for column in table.columns}
    if "attributes" in kinds:
        return row | {"attributes": [*row["attributes"], (KEY, MARKER)]}
    for name, kind in kinds.items():
        if name in ("organization_id", "table_name", "signal", "file_path", "column_name"):
            continue
        if pa.types.is_string(kind):
            return row | {name: f"seen {MARKER} there"}
        if pa.types.is_map(kind) and pa.types.is_string(kind.item_type):
            return row | {name: [("it's", MARKER)]}
        if pa.types.is_binary(kind):
            return row | {name: b"\x0a\x1d" + MARKER.encode() + b"\xff"}
    raise AssertionError(f"{table.name} has no place for a marker")


def commit(lake: Lake, table: Table, rows: list[dict[str, Any]], batch: str) -> None:
    """Commit rows to a table."""
    found = lake.table(table.name)
    files = write_files(Target.of(found), pa.Table.from_pylist(rows, schema=table.schema))
    append_once(found, files, batch_id=batch, operation="test")


def read_rows(lake: Lake, table: Table) -> list[str]:
    """The rows of a table as texts, in an order that does not depend on files."""
    return sorted(map(repr, lake.table(table.name).scan().to_arrow().to_pylist()))


def read_all(lake: Lake) -> dict[str, list[str]]:
    """The rows of all tables."""
    return {table.name: read_rows(lake, table) for table in TABLES}


def find_marker(folder: Path, marker: str = MARKER) -> list[str]:
    """The files below a folder that contain the marker, in any column and compression."""
    avro = connect(S3Config(), on_s3=False, extensions=("avro",))
    files = [path for path in folder.rglob("*") if path.is_file()]
    found = sorted(str(path) for path in files if any(marker in text for text in _texts(path, avro)))
    avro.close()
    return found


def _texts(path: Path, avro: DuckDBPyConnection) -> Iterator[str]:
    data = path.read_bytes()
    yield data.decode("latin-1")
    if path.suffix == ".gz":
        yield gzip.decompress(data).decode("latin-1")
    elif path.suffix == ".parquet":
        yield from (_unpack(row) for row in pq.read_table(path).to_pylist())
    elif path.suffix == ".avro":
        rows = avro.execute(f"SELECT t::VARCHAR FROM read_avro({quote_literal(str(path))}) t").fetchall()
        yield from (row[0] for row in rows)


def _unpack(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, dict):
        return "\n".join(_unpack(part) for pair in value.items() for part in pair)
    if isinstance(value, list | tuple):
        return "\n".join(map(_unpack, value))
    return str(value)
