"""Tables that tests copy from templates are those that `init_tables` creates."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Any

import pytest

from neve.errors import TableMissing
from neve.lake.catalog import sqlite_path
from neve.lake.config import CatalogConfig, LakeConfig
from neve.lake.lake import Lake
from neve.lake.tables import find_pending_changes, init_tables
from neve.model.signals import Signal
from neve.model.tables import LOGS, SPANS, TABLES
from tests.empty_tables import create_empty_tables
from tests.query.lakes import ACME, logs, put

if TYPE_CHECKING:
    from pathlib import Path

OWN = {"location", "table-uuid", "last-updated-ms"}


def lake_at(folder: Path) -> Lake:
    """A lake that does not exist yet, with a name of its own in Spark."""
    return Lake(LakeConfig(warehouse=str(folder / "w")), CatalogConfig(name="other", path=str(folder / "c.db")))


def described(lake: Lake, table: str) -> dict[str, Any]:
    """The metadata of a table."""
    content: dict[str, Any] = lake.table(table).metadata.model_dump(mode="json", by_alias=True)
    return content


@pytest.mark.lake
def test_copied_tables_equal_created_ones(tmp_path: Path) -> None:
    """The metadata of every table is the same but for its location, id and time, and nothing is left to change."""
    copied, created = lake_at(tmp_path / "copied"), lake_at(tmp_path / "created")
    create_empty_tables(copied)
    init_tables(created)
    assert copied.table_names() == created.table_names() == sorted(table.name for table in TABLES)
    for table in TABLES:
        one, other = described(copied, table.name), described(created, table.name)
        assert {key for key in one if one[key] != other[key]} <= OWN
        assert one["location"] == other["location"].replace(str(tmp_path / "created"), str(tmp_path / "copied"))
        assert one["table-uuid"] != other["table-uuid"]
        assert abs(one["last-updated-ms"] - other["last-updated-ms"]) < 600_000
    assert not any(changes for _table, changes in find_pending_changes(copied))


@pytest.mark.lake
def test_catalog_rows_are_equal(tmp_path: Path) -> None:
    """The catalog has the same tables and namespaces under the name of the lake's catalog."""
    copied, created = lake_at(tmp_path / "copied"), lake_at(tmp_path / "created")
    create_empty_tables(copied)
    init_tables(created)
    for columns in (
        "catalog_name, table_namespace, table_name FROM iceberg_tables",
        "* FROM iceberg_namespace_properties",
    ):
        rows = []
        for lake in (copied, created):
            connection = sqlite3.connect(sqlite_path(lake.catalog_config))
            rows.append(sorted(connection.execute(f"SELECT {columns}")))
            connection.close()
        assert rows[0] == rows[1]


@pytest.mark.lake
def test_two_lakes_share_nothing(tmp_path: Path) -> None:
    """A commit to one lake leaves the other empty, and their tables have different ids."""
    one, other = lake_at(tmp_path / "one"), lake_at(tmp_path / "other")
    create_empty_tables(one)
    create_empty_tables(other)
    put(one, ACME, Signal.LOGS, logs("first"))
    assert one.table("logs").scan().to_arrow().num_rows == 1
    assert other.table("logs").scan().to_arrow().num_rows == 0
    assert one.table("logs").metadata.table_uuid != other.table("logs").metadata.table_uuid


@pytest.mark.lake
def test_only_tables_that_are_named_are_created(tmp_path: Path) -> None:
    """Later calls add others and keep what is there."""
    lake = lake_at(tmp_path)
    create_empty_tables(lake, [LOGS])
    put(lake, ACME, Signal.LOGS, logs("first"))
    with pytest.raises(TableMissing):
        lake.table(SPANS.name)
    create_empty_tables(lake, [LOGS, SPANS])
    assert lake.table_names() == ["logs", "spans"]
    assert lake.table("logs").scan().to_arrow().num_rows == 1
