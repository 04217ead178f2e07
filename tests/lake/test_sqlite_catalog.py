"""Lookups in the SQLite catalog agree with pyiceberg's own catalog, and everything else is passed on to it."""

from __future__ import annotations

import copy
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError
from pyiceberg.schema import Schema

from neve.errors import LakeError, TableMissing
from neve.lake.sqlite_catalog import SqliteCatalog

if TYPE_CHECKING:
    from collections.abc import Callable

    from neve.lake.lake import Lake

IMPORTED = """
import sys
from neve.lake.config import CatalogConfig, LakeConfig
from neve.lake.lake import Lake
lake = Lake(LakeConfig(warehouse=sys.argv[1]), CatalogConfig(name=sys.argv[2], path=sys.argv[3]))
names = lake.table_names()
lake.table("logs").refresh()
lake.metadata_locations()
lake.catalog.list_namespaces()
print(len(names), "sqlalchemy" in sys.modules)
"""


def light(lake: Lake) -> SqliteCatalog:
    """Return the catalog of a lake, whose class type checkers don't know."""
    catalog: object = lake.catalog
    assert isinstance(catalog, SqliteCatalog)
    return catalog


def test_lookups_agree_with_the_whole_catalog(lake: Lake) -> None:
    """Names, namespaces, locations and tables, also of a view and of another catalog in the same file."""
    lake.catalog.create_namespace("shop.carts")
    lake.catalog.create_table("shop.carts.items", Schema())
    replace(lake, catalog_config=lake.catalog_config.model_copy(update={"name": "other"})).catalog.create_namespace("x")
    with closing(sqlite3.connect(light(lake).file)) as connection:
        connection.execute("UPDATE iceberg_tables SET iceberg_type = NULL WHERE table_name = 'spans'")
        view = (lake.catalog.name, "telemetry", "a_view", "nowhere", None, "VIEW")
        connection.execute("INSERT INTO iceberg_tables VALUES (?, ?, ?, ?, ?, ?)", view)
        connection.commit()
    whole = light(lake).whole
    assert isinstance(whole, SqlCatalog)
    for namespace in ("telemetry", ("telemetry",), "shop.carts", ("shop", "carts")):
        assert sorted(lake.catalog.list_tables(namespace)) == sorted(whole.list_tables(namespace)) != []
    assert sorted(lake.catalog.list_namespaces()) == sorted(whole.list_namespaces()) == [("shop",), ("telemetry",)]
    assert lake.catalog.list_namespaces("shop") == whole.list_namespaces("shop")
    for name in ("telemetry.spans", ("shop", "carts", "items")):
        mine, theirs = lake.catalog.load_table(name), whole.load_table(name)
        assert mine.metadata == theirs.metadata
        assert (mine.name(), mine.metadata_location) == (theirs.name(), theirs.metadata_location)
        assert mine.io.properties == theirs.io.properties
    assert lake.metadata_locations().keys() == set(lake.table_names())
    assert "a_view" not in lake.table_names()


def test_what_is_missing_is_told_as_by_the_whole_catalog(lake: Lake) -> None:
    """A table, a namespace, and for people the way to create them."""
    for name in ("telemetry.nothing", "nowhere.nothing"):
        with pytest.raises(NoSuchTableError):
            lake.catalog.load_table(name)
    with pytest.raises(NoSuchNamespaceError):
        lake.catalog.list_tables("nowhere")
    with pytest.raises(TableMissing):
        lake.table("nothing")


def test_commits_go_through_the_whole_catalog(lake: Lake) -> None:
    """A loaded table can be changed and refreshed, and another reader sees the change."""
    table = lake.table("logs")
    before = table.metadata_location
    with table.transaction() as change:
        change.set_properties({"owner": "shop"})
    assert table.metadata_location != before
    assert lake.table("logs").properties["owner"] == "shop"
    assert lake.table("spans").refresh().metadata == lake.table("spans").metadata


def test_a_catalog_without_tables_or_of_an_older_schema_is_upgraded(make_lake: Callable[..., Lake]) -> None:
    """As pyiceberg's catalog does when it opens."""
    lake = make_lake(init=False)
    lake.create()
    assert lake.table_names() == []
    lake.catalog.create_namespace("telemetry")
    lake.catalog.create_table("telemetry.things", Schema())
    with closing(sqlite3.connect(light(lake).file)) as connection:
        connection.execute("ALTER TABLE iceberg_tables DROP COLUMN iceberg_type")
    assert replace(lake).table_names() == ["things"]


def test_a_file_that_is_no_database_is_reported(make_lake: Callable[..., Lake]) -> None:
    """With the name of the catalog and the driver's reason."""
    lake = make_lake(init=False)
    lake.create()
    light(lake).file.write_bytes(b"no database" * 100)
    with pytest.raises(LakeError, match=r"can't open the sqlite catalog .*file is not a database"):
        lake.table_names()


def test_own_properties_decide_which_catalog_is_opened(lake: Lake) -> None:
    """Another address than the configured file is not looked up in that file."""
    uri = f"sqlite:///{light(lake).file}"
    config = lake.catalog_config.model_copy(update={"properties": {"uri": uri}})
    assert isinstance(replace(lake, catalog_config=config).catalog, SqlCatalog)


def test_lookups_need_no_sqlalchemy(lake: Lake) -> None:
    """That is what they are for."""
    command = [sys.executable, "-c", IMPORTED, lake.lake.warehouse, lake.catalog_config.name, lake.catalog_config.path]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ended.stdout.split() == [str(len(lake.table_names())), "False"]


def test_it_can_be_copied(lake: Lake) -> None:
    """Python's own protocols are not passed on."""
    assert copy.copy(light(lake)).file == light(lake).file
