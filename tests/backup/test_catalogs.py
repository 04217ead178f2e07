"""Backup and restore on every catalog that can run here: a catalog that lost its tables has them again."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

from neve.app.backup import back_up, restore
from neve.app.settings import Settings
from neve.app.wiring import build_documents
from neve.lake.tables import init_tables
from neve.model.signals import NAMESPACE
from neve.model.tables import LOGS, SPANS
from tests.contracts.lakes import any_lake
from tests.erase.copies import commit, make_rows, read_rows

if TYPE_CHECKING:
    from pathlib import Path

    from neve.lake.lake import Lake

__all__ = ["any_lake"]

pytestmark = [pytest.mark.slow, pytest.mark.lake, pytest.mark.parts]


def test_a_catalog_without_its_tables_is_restored(any_lake: Lake, tmp_path: Path) -> None:
    """Rows of the backup and of commits after it, on SQLite, PostgreSQL, REST, and Glue's interface with S3."""
    lake = any_lake
    settings = Settings.model_validate(
        {
            "lake": {"warehouse": lake.lake.warehouse},
            "catalog": lake.catalog_config,
            "s3": lake.s3,
            "state": {"path": str(tmp_path / "state.db")},
            "raw": {"location": str(tmp_path / "raw")},
        }
    )
    destination = f"{lake.lake.warehouse}/backup"  # in S3, where the warehouse is there
    init_tables(lake, (LOGS, SPANS))
    for table in (LOGS, SPANS):
        commit(lake, table, make_rows(table, Random(1), 5), "first")
    documents = build_documents(settings)
    documents.put("saved-views", "v1", {"sql": "SELECT 1"})
    documents.close()
    made = back_up(settings, lake, destination)
    assert made.tables == len(lake.table_names())
    commit(lake, LOGS, make_rows(LOGS, Random(2), 4), "later")
    expected = {table.name: read_rows(lake, table) for table in (LOGS, SPANS)}
    for name in lake.table_names():
        lake.catalog.drop_table((NAMESPACE, name))  # without its files
    for file in tmp_path.glob("state.db*"):
        file.unlink()
    assert lake.table_names() == []
    done = restore(settings, lake, destination)
    assert done.is_complete
    assert {table.table for table in done.tables if table.is_newer} == {LOGS.name}
    assert {table.name: read_rows(lake, table) for table in (LOGS, SPANS)} == expected
    commit(lake, LOGS, make_rows(LOGS, Random(3), 2), "after")
    assert len(read_rows(lake, LOGS)) == 11
    documents = build_documents(settings)
    assert documents.get("saved-views", "v1") == {"sql": "SELECT 1"}
    documents.close()
