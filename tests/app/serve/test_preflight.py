"""A look at the lake before anything is started."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from structlog.testing import capture_logs

from neve.app.serve import preflight
from neve.app.serve.config import assign_processes
from neve.app.serve.preflight import check_lake
from neve.errors import ConfigError, LakeError, TableMissing
from neve.lake.config import CatalogConfig, LakeConfig
from neve.lake.lake import Lake
from tests.empty_tables import create_empty_tables

if TYPE_CHECKING:
    from pathlib import Path

GROUP, TEND, RECEIVER = (
    assign_processes(["receiver", "compact"]),
    assign_processes(["compact"]),
    assign_processes(["receiver"]),
)
AWAY = Lake(catalog_config=CatalogConfig(kind="rest", uri="http://127.0.0.1:1"))


@pytest.fixture
def empty(tmp_path: Path) -> Lake:
    """An embedded catalog that nobody has made yet."""
    return Lake(catalog_config=CatalogConfig(path=str(tmp_path / "catalog.db")))


def test_an_embedded_catalog_without_tables_is_refused(empty: Lake) -> None:
    """By a group and by a process that needs them; a receiver needs none."""
    for processes in (GROUP, TEND):
        with pytest.raises(TableMissing, match="the lake has no tables"):
            check_lake(empty, processes)
    check_lake(empty, RECEIVER)


@pytest.mark.lake
def test_queries_read_an_embedded_catalog_while_a_commit_is_under_way(tmp_path: Path) -> None:
    """A server gives it a write-ahead log, and a reader does not wait for a writer."""
    place = LakeConfig(warehouse=str(tmp_path / "warehouse"))
    lake = Lake(place, CatalogConfig(path=str(tmp_path / "catalog.db")))
    create_empty_tables(lake)
    check_lake(lake, GROUP)
    with closing(sqlite3.connect(tmp_path / "catalog.db", isolation_level=None)) as writer:
        writer.execute("BEGIN EXCLUSIVE")
        writer.execute("UPDATE iceberg_tables SET metadata_location = 'nowhere'")
        with closing(sqlite3.connect(tmp_path / "catalog.db", timeout=0)) as reader:
            [(mode,)] = reader.execute("PRAGMA journal_mode")
            found = reader.execute("SELECT metadata_location FROM iceberg_tables").fetchall()
    assert mode == "wal"
    assert ("nowhere",) not in found


@pytest.mark.parametrize("kind", ["nfs4", "fuse.s3fs"])
def test_a_catalog_on_a_network_stays_as_it_is(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its processes may be on several machines, which share no memory."""
    monkeypatch.setattr(preflight, "find_file_system", lambda _path: kind)
    preflight.enable_concurrent_reads(tmp_path / "catalog.db")
    assert not (tmp_path / "catalog.db").exists()


def test_a_catalog_that_can_not_change_is_told(tmp_path: Path) -> None:
    """The server starts all the same."""
    (tmp_path / "catalog.db").mkdir()
    with capture_logs() as said:
        preflight.enable_concurrent_reads(tmp_path / "catalog.db")
    assert [line["event"].partition(",")[0] for line in said] == ["the catalog has no write-ahead log"]


def test_a_group_starts_while_its_catalog_is_away() -> None:
    """Its receiver needs none; the log says that the others wait."""
    with capture_logs() as said:
        look = check_lake(AWAY, GROUP)
        assert look is not None
        look.join(600)
    [line] = said
    assert (line["log_level"], line["event"].partition(",")[0]) == ("warning", "catalog does not respond")
    assert "can't open the rest catalog" in line["error"]


def test_a_catalog_that_is_set_up_wrongly_is_refused() -> None:
    """No wait mends that."""
    with pytest.raises(ConfigError, match=r"catalog\.uri is 'nowhere'"):
        check_lake(Lake(catalog_config=CatalogConfig(kind="rest", uri="nowhere")), GROUP)


def test_a_process_that_needs_the_catalog_ends_without_it() -> None:
    """Whoever started it starts it again."""
    with pytest.raises(LakeError, match="can't open the rest catalog"):
        check_lake(AWAY, TEND)


def test_a_server_without_tables_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a group, which receives all the same."""
    monkeypatch.setattr(Lake, "table_names", lambda _lake: [])
    with capture_logs() as said:
        look = check_lake(AWAY, GROUP)
        assert look is not None
        look.join(600)
    assert [(line["event"], line["hint"]) for line in said] == [("the lake has no tables", "run `neve init`")]
