"""Files that Neve makes are for its user alone, and what a user made keeps its mode; jars are checked at each use."""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING

import pytest
from structlog.testing import capture_logs

from neve.app.doctor import Finding, _note_network_disk
from neve.errors import EnvironmentFault
from neve.lake.config import CatalogConfig, LakeConfig, SparkConfig
from neve.lake.lake import Lake
from neve.lake.spark.jars import Jar, local_paths
from neve.lake.spark.session import _open_jvm_log
from neve.lake.tables import init_tables
from neve.local_folders import find_file_system, is_network_file_system, warn_network_file_system
from neve.raw.frame import Kind
from neve.state.config import StateConfig
from neve.state.store import StateStore
from tests.ingest.stream.frames import frame, raw_config, receive

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MOUNTS = """/dev/root / ext4 rw 0 0
server:/lakes /srv/lakes nfs4 rw 0 0
/dev/sdb /srv/lakes/fast xfs rw 0 0
bucket /mnt/a\\040bucket fuse.s3fs rw 0 0
share /mnt/share cifs rw 0 0
host /mnt/host 9p rw 0 0
"""


@pytest.fixture(autouse=True)
def usual_umask() -> Iterator[None]:
    """The umask of most machines, by which files are for everybody to read."""
    before = os.umask(0o022)
    yield
    os.umask(before)


def lake_at(folder: Path, **spark: str) -> Lake:
    """A lake in a folder."""
    return Lake(
        LakeConfig(warehouse=str(folder / "warehouse")),
        CatalogConfig(path=str(folder / "catalog.db")),
        spark_config=SparkConfig(**spark),
    )


def mode(path: Path) -> int:
    """Who may do what."""
    return path.stat().st_mode & 0o777


@pytest.mark.lake
def test_a_new_lake_is_for_its_user_alone(tmp_path: Path) -> None:
    """Its folder is closed, and so are catalog, warehouse, log and state, whichever comes first."""
    folder = tmp_path / "new" / "lake"
    init_tables(lake_at(folder))
    with _open_jvm_log(folder / "logs" / "spark.log"):
        pass
    StateStore(StateConfig(path=str(folder / "state" / "state.db")))._make_file()
    receive(raw_config(folder), [frame(Kind.LOGS, b"")])
    folders = (folder.parent, folder, folder / "warehouse", folder / "logs", folder / "state", folder / "raw")
    assert {path.name: mode(path) for path in folders if mode(path) != 0o700} == {}
    assert mode(folder / "catalog.db") == 0o600
    assert mode(folder / "logs" / "spark.log") == 0o600


@pytest.mark.lake
def test_what_a_user_made_keeps_its_mode(tmp_path: Path) -> None:
    """Whoever shares a lake with a group knows why."""
    folder = tmp_path / "lake"
    for path in (folder, folder / "warehouse"):
        path.mkdir()
        path.chmod(0o750)
    (folder / "catalog.db").touch(mode=0o640)
    init_tables(lake_at(folder))
    assert (mode(folder), mode(folder / "warehouse"), mode(folder / "catalog.db")) == (0o750, 0o750, 0o640)


@pytest.mark.lake
def test_workers_of_a_cluster_are_not_locked_out(tmp_path: Path) -> None:
    """They may run as other users, and write to the warehouse."""
    folder = tmp_path / "lake"
    folder.mkdir()
    init_tables(lake_at(folder, master="spark://host:7077"))
    assert mode(folder / "warehouse") == 0o755


def test_a_jar_is_checked_each_time_it_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not only when it is fetched; it is read once as long as it stays the same."""
    monkeypatch.setenv("NEVE_CACHE", str(tmp_path))
    jar = Jar("group", "artifact", "1", hashlib.sha256(b"good").hexdigest())
    path = tmp_path / "jars" / jar.file_name
    path.parent.mkdir()
    path.write_bytes(b"good")
    assert local_paths([jar, jar]) == [path, path]
    path.write_bytes(b"evil")
    os.utime(path, (1, 1))
    with pytest.raises(EnvironmentFault, match=r"artifact-1.jar has the SHA-256 \w+, expected \w+") as refused:
        local_paths([jar])
    assert "remove it" in str(refused.value.hint)


@pytest.mark.parametrize(
    ("path", "kind", "network"),
    [
        ("/home/me/lake/catalog.db", "ext4", False),
        ("/srv/lakes/mine/catalog.db", "nfs4", True),
        ("/srv/lakes/fast/catalog.db", "xfs", False),
        ("/srv/lakesides/catalog.db", "ext4", False),
        ("/mnt/a bucket/catalog.db", "fuse.s3fs", True),
        ("/mnt/share/catalog.db", "cifs", True),
        ("/mnt/host/catalog.db", "9p", True),
    ],
)
def test_network_file_systems_are_known(tmp_path: Path, path: str, kind: str, network: bool) -> None:
    """By the innermost mount that a path is below."""
    mounts = tmp_path / "mounts"
    mounts.write_text(MOUNTS)
    found = find_file_system(type(tmp_path)(path), mounts)
    assert (found, is_network_file_system(found)) == (kind, network)
    assert find_file_system(type(tmp_path)(path), tmp_path / "nothing") == ""


@pytest.mark.lake
def test_sqlite_on_a_network_file_system_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a line in the log at the start, once for each file, and by the doctor."""
    monkeypatch.setattr("neve.local_folders.find_file_system", lambda _path: "nfs4")
    monkeypatch.setattr("neve.app.doctor.find_file_system", lambda _path: "nfs4")
    warn_network_file_system.cache_clear()
    lake = lake_at(tmp_path)
    init_tables(lake)
    with capture_logs() as lines:
        assert lake_at(tmp_path).catalog
        warn_network_file_system.cache_clear()
        assert lake_at(tmp_path).catalog
        assert lake_at(tmp_path).catalog
    [line] = lines
    assert (line["log_level"], line["key"], line["file_system"]) == ("warning", "catalog.path", "nfs4")
    found = _note_network_disk(Finding("state", "ok", "state.db"), tmp_path / "state.db")
    assert (found.status, found.remedy) == ("note", "put the file on a disk of this machine, or use PostgreSQL")
    assert _note_network_disk(Finding("state", "ok", "postgresql://x"), None).status == "ok"
    warn_network_file_system.cache_clear()
