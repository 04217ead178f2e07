"""Backup and restore: what was there is there again, what exists is not replaced, and bad backups are refused."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

from neve.app.backup import back_up, restore
from neve.app.settings import Settings, load_settings
from neve.app.wiring import build_documents, build_lake, build_state
from neve.errors import LakeError
from neve.lake.tables import init_tables
from neve.model.properties import LAKE_FORMAT, LAKE_FORMAT_PROPERTY
from neve.model.signals import NAMESPACE
from neve.model.tables import LOGS, SPANS
from neve.state.keys import Keys
from tests.compat.release import digest_rows, extract
from tests.empty_tables import create_empty_tables
from tests.erase.copies import commit, make_rows, read_rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from neve.lake.lake import Lake
    from tests.parts.postgres import Postgres
    from tests.parts.redis import Redis

pytestmark = [pytest.mark.slow, pytest.mark.lake]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """A lake and a state store in one folder."""
    return make_settings(tmp_path)


def make_settings(folder: Path, **state: str) -> Settings:
    """The settings of a lake in a folder."""
    return Settings.model_validate(
        {
            "lake": {"warehouse": str(folder / "warehouse")},
            "catalog": {"path": str(folder / "catalog.db")},
            "state": {"path": str(folder / "state.db"), **state},
            "raw": {"location": str(folder / "raw")},
        }
    )


@pytest.fixture
def lake(settings: Settings, iceberg: None) -> Lake:
    """A lake with rows, documents and keys."""
    made = build_lake(settings)
    create_empty_tables(made)
    return made


def fill(settings: Settings, lake: Lake) -> str:
    """Commit rows, and store a document and a key. Return the key."""
    for table in (LOGS, SPANS):
        commit(lake, table, make_rows(table, Random(1), 5), "first")
    documents, state = build_documents(settings), build_state(settings)
    documents.put("saved-views", "v1", {"sql": "SELECT 1"})
    documents.put("leases", "x", {"owner": "gone"})
    _key, text = Keys(state).create("acme", "collector")
    documents.close()
    state.close()
    return text


def destroy(settings: Settings) -> None:
    """Delete the catalog and the state store."""
    for place in (settings.catalog.path, settings.state.path):
        for file in Path(place).parent.glob(f"{Path(place).name}*"):
            file.unlink()


def test_everything_is_there_again(settings: Settings, lake: Lake, tmp_path: Path) -> None:
    """Rows of the backup and of commits after it, documents without leases, and keys that are accepted."""
    text = fill(settings, lake)
    made = back_up(settings, lake, str(tmp_path / "backup"))
    assert made.keys == 1
    commit(lake, LOGS, make_rows(LOGS, Random(2), 4), "later")
    expected = {table.name: read_rows(lake, table) for table in (LOGS, SPANS)}
    destroy(settings)
    again = build_lake(settings)
    planned = restore(settings, again, str(tmp_path / "backup"), dry_run=True)
    assert planned.is_complete
    assert {table.table for table in planned.tables if table.is_newer} == {"logs"}
    assert not (tmp_path / "state.db").exists()
    done = restore(settings, again, str(tmp_path / "backup"))
    assert done.is_complete
    assert {table.name: read_rows(again, table) for table in (LOGS, SPANS)} == expected
    documents, state = build_documents(settings), build_state(settings)
    assert documents.get("saved-views", "v1") == {"sql": "SELECT 1"}
    assert documents.get("leases", "x") is None
    assert Keys(state).verify(text) is not None
    commit(again, LOGS, make_rows(LOGS, Random(3), 2), "after")  # and the lake goes on
    assert len(read_rows(again, LOGS)) == 11


def test_an_exact_restore_has_the_rows_of_the_backup(settings: Settings, lake: Lake, tmp_path: Path) -> None:
    """Commits after it are left out, and a metadata file that maintenance removed is written again."""
    fill(settings, lake)
    before = read_rows(lake, LOGS)
    back_up(settings, lake, str(tmp_path / "backup"))
    commit(lake, LOGS, make_rows(LOGS, Random(2), 4), "later")
    with pytest.raises(LakeError, match="documents and 1 keys already"):
        restore(settings, lake, str(tmp_path / "backup"), exact=True)
    assert len(read_rows(lake, LOGS)) == 9
    done = restore(settings, lake, str(tmp_path / "backup"), exact=True, force=True)
    assert done.is_complete
    assert read_rows(build_lake(settings), LOGS) == before


def test_a_backup_is_not_overwritten(settings: Settings, lake: Lake, tmp_path: Path) -> None:
    """Unless it is forced; neither are tables that exist."""
    back_up(settings, lake, str(tmp_path / "backup"))
    with pytest.raises(LakeError, match="has a backup already"):
        back_up(settings, lake, str(tmp_path / "backup"))
    back_up(settings, lake, str(tmp_path / "backup"), force=True)
    (tmp_path / "state.db").unlink()
    with pytest.raises(LakeError, match=r"the catalog has .* of the tables already"):
        restore(settings, lake, str(tmp_path / "backup"))


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda folder: (folder / "tables.json").write_text("[]"), "tables.json of the backup has the checksum"),
        (lambda folder: (folder / "state.json").unlink(), "the backup lacks state.json"),
        (lambda folder: (folder / "manifest.json").unlink(), "is not a backup"),
        (lambda folder: _set(folder, "format", 9), "the backup has format 9 of release .*, expected at most 1"),
    ],
)
def test_a_bad_backup_is_refused(
    settings: Settings, lake: Lake, tmp_path: Path, damage: Callable[[Path], object], words: str
) -> None:
    """A changed or missing file, or one of a newer release."""
    back_up(settings, lake, str(tmp_path / "backup"))
    damage(tmp_path / "backup")
    with pytest.raises(LakeError, match=words):
        restore(settings, lake, str(tmp_path / "backup"), force=True)


def _set(folder: Path, name: str, value: object) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps({**manifest, name: value}))


def test_missing_files_are_named(settings: Settings, lake: Lake, tmp_path: Path) -> None:
    """A data file that is gone makes the restore incomplete."""
    fill(settings, lake)
    back_up(settings, lake, str(tmp_path / "backup"))
    [file, *_] = sorted((tmp_path / "warehouse").rglob("*/logs/data/**/*.parquet"))
    file.unlink()
    planned = restore(settings, lake, str(tmp_path / "backup"), dry_run=True)
    assert not planned.is_complete
    [missing] = [path for table in planned.tables for path in table.missing]
    assert missing.endswith(file.name)


def test_a_lake_of_an_earlier_release_is_backed_up_and_restored(tmp_path: Path, iceberg: None) -> None:
    """Its rows and keys are the same after its catalog and state are gone, and `neve init` brings it forward."""
    old = extract("v0.1", tmp_path)
    settings = load_settings(str(old.config), {})
    back_up(settings, build_lake(settings), str(tmp_path / "backup"))
    destroy(settings)
    lake = build_lake(settings)
    assert restore(settings, lake, str(tmp_path / "backup")).is_complete
    for name, expected in old.expected["tables"].items():
        rows = lake.table(name.removeprefix(f"{NAMESPACE}.")).scan().to_arrow()
        assert (rows.num_rows, digest_rows(rows)) == (expected["rows"], expected["digest"]), name
    state = build_state(settings)
    assert Keys(state).verify(old.expected["key"]) is not None
    assert Keys(state).verify(old.expected["revoked"]) is None
    state.close()
    init_tables(lake)
    assert set(lake.table_names()) >= {"audit", "trace_summaries"}


def test_a_table_of_a_newer_release_is_refused(settings: Settings, lake: Lake) -> None:
    """By its name, with both formats; other tables are read."""
    with lake.table("logs").transaction() as change:
        change.set_properties({LAKE_FORMAT_PROPERTY: str(LAKE_FORMAT + 1)})
    with pytest.raises(LakeError, match=r"telemetry.logs has format 2 of a newer release, expected at most 1"):
        build_lake(settings).table("logs")
    assert build_lake(settings).table("spans")


def test_a_state_store_of_a_newer_release_is_refused(settings: Settings) -> None:
    """Before anything is read from it or written to it."""
    documents = build_documents(settings)
    documents.put("release", "format", {"format": 2, "release": "9.0.0"})
    documents.close()
    with pytest.raises(LakeError, match=r"the state store has format 2 of release 9.0.0, expected at most 1"):
        build_documents(settings)


@pytest.mark.parts
def test_state_moves_between_stores(
    settings: Settings, lake: Lake, tmp_path: Path, redis: Redis, postgres: Postgres
) -> None:
    """A backup of a file is restored to PostgreSQL and Redis, and back."""
    text = fill(settings, lake)
    back_up(settings, lake, str(tmp_path / "backup"))
    other = make_settings(
        tmp_path,
        url=f"postgresql://{postgres.host}:{postgres.port}/{postgres.database}",
        user=postgres.user,
        documents=f"redis://{redis.host}:{redis.port}/3",
    )
    restore(other, lake, str(tmp_path / "backup"), force=True)
    state = build_state(other)
    assert Keys(state).verify(text) is not None
    made = back_up(other, lake, str(tmp_path / "second"))
    assert made.keys == 1
    destroy(settings)
    restore(settings, build_lake(settings), str(tmp_path / "second"))
    documents = build_documents(settings)
    assert documents.get("saved-views", "v1") == {"sql": "SELECT 1"}
    state.close()
