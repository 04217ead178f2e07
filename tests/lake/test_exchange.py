"""The exchange folder: private, refused where others could have filled it, and swept of Neve's own batches alone."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pyarrow as pa
import pyarrow.fs as pafs
import pytest

from neve.errors import ConfigError
from neve.lake.config import LakeConfig, S3Config, SparkConfig
from neve.lake.lake import Lake
from neve.lake.spark.exchange import LEFT_BEHIND_SECONDS, MARKER, Exchange
from neve.local_folders import user_folder
from tests.lake.users import STRANGER, as_user, needs_root, temporary_folder_of_all

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.parts.s3 import S3

LONG_AGO = time.time() - 10 * LEFT_BEHIND_SECONDS
ROWS = pa.table({"organization_id": ["acme"]})


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for temporary files of all users, in the place of the machine's own."""
    with temporary_folder_of_all() as folder:
        monkeypatch.setattr(tempfile, "tempdir", str(folder))
        user_folder.cache_clear()
        yield folder
    user_folder.cache_clear()


def exchange(folder: Path) -> Exchange:
    """The exchange in a local folder."""
    return Exchange(str(folder), S3Config())


def age(folder: Path) -> None:
    """Make a folder and all that is in it old."""
    for path in (*folder.rglob("*"), folder):
        os.utime(path, (LONG_AGO, LONG_AGO), follow_symlinks=False)


def killed(root: Path, name: str = "") -> Path:
    """The folder of a batch that was killed long ago."""
    batch = exchange(root).open_batch(name)
    batch.leave(ROWS)
    age(Path(batch.folder))
    return Path(batch.folder)


def test_parcels_lie_in_folders_that_nobody_else_may_look_into(temporary: Path) -> None:
    """The default folder is the user's, below it each batch has its own, and both are closed to others."""
    batch = Lake().exchange.open_batch()
    place = Path(batch.leave(ROWS))
    assert place.is_relative_to(temporary / f"neve-exchange-{os.geteuid()}")
    assert {path.stat().st_mode & 0o777 for path in (place.parent, place.parent.parent)} == {0o700}
    [parcel] = batch.fetch([pa.RecordBatch.from_pydict({"writer": [0], "label": ["x"], "place": [str(place)]})])
    assert parcel.rows == ROWS
    batch.remove()
    assert not place.parent.exists()


@needs_root
def test_each_user_of_a_machine_has_a_folder_of_their_own(temporary: Path) -> None:
    """Whoever comes second can work, too, and can't read the first one's rows."""
    mine = Lake().exchange.open_batch()
    place = mine.leave(ROWS)

    def work() -> dict[str, object]:
        user_folder.cache_clear()
        own = Lake().exchange.open_batch()
        own.leave(ROWS)
        return {"folder": own.folder, "reads": os.access(place, os.R_OK)}

    told = as_user(STRANGER, work)
    assert told["reads"] is False
    assert told["folder"].startswith(f"{temporary}/neve-exchange-{STRANGER}/")


@needs_root
def test_a_name_that_somebody_else_took_is_not_used(temporary: Path) -> None:
    """Another user who makes the folder first gets no rows, and does not stop anybody."""
    taken = temporary / f"neve-exchange-{os.geteuid()}"
    as_user(STRANGER, lambda: taken.mkdir(mode=0o777))
    batch = Lake().exchange.open_batch()
    batch.leave(ROWS)
    assert not batch.folder.startswith(f"{taken}/")
    assert list(taken.iterdir()) == []


@pytest.mark.parametrize("mode", [0o777, 0o757, 0o775])
def test_a_folder_that_others_may_write_to_is_refused(tmp_path: Path, mode: int) -> None:
    """With the key, the value and what was expected."""
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(mode)
    lake = Lake(LakeConfig(exchange=str(folder)))
    with pytest.raises(ConfigError, match=rf"lake.exchange is '{folder}': others may write to it \(mode 0{mode:o}\)"):
        lake.exchange.open_batch()
    assert list(folder.iterdir()) == []


@needs_root
def test_a_folder_of_another_user_is_refused() -> None:
    """Also by root, who could write there."""
    with temporary_folder_of_all() as around:
        folder = around / "theirs"
        as_user(STRANGER, lambda: folder.mkdir(mode=0o700))
        with pytest.raises(ConfigError, match=f"belongs to user {STRANGER}, and this process runs as user 0"):
            exchange(folder).open_batch()


def test_a_link_is_refused(tmp_path: Path) -> None:
    """Whoever made the link decides where rows go."""
    (tmp_path / "lake").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "lake")
    with pytest.raises(ConfigError, match="it is a link"):
        exchange(tmp_path / "link").open_batch()


def test_a_folder_in_one_that_others_may_rename_in_is_refused(tmp_path: Path) -> None:
    """Without the sticky bit others could put a folder of their own in its place."""
    tmp_path.chmod(0o777)
    with pytest.raises(ConfigError, match="others may rename it"):
        exchange(tmp_path / "exchange").open_batch()


def test_workers_of_a_cluster_may_share_a_folder_by_group(tmp_path: Path) -> None:
    """There the group may write where the user says so; others never."""
    lake = Lake(LakeConfig(warehouse=str(tmp_path)), spark_config=SparkConfig(master="spark://host:7077"))
    folder = tmp_path / ".exchange"
    assert lake.exchange.folder == str(folder)
    assert Path(lake.exchange.open_batch().folder).stat().st_mode & 0o777 == 0o700
    folder.chmod(0o770)
    assert Path(lake.exchange.open_batch().folder).stat().st_mode & 0o777 == 0o770
    folder.chmod(0o777)
    with pytest.raises(ConfigError, match="others may write to it"):
        lake.exchange.open_batch()


def test_what_killed_batches_left_is_removed_a_day_later(tmp_path: Path) -> None:
    """Batches of ingestion, results of queries, with folders inside; a fresh file anywhere keeps all of a batch."""
    query = killed(tmp_path, f"query-{uuid4().hex}")
    (query / "rows").mkdir()
    (query / "rows" / "part-0.parquet").touch()
    age(query)
    batch, at_work = killed(tmp_path), killed(tmp_path)
    (at_work / "deep").mkdir()
    (at_work / "deep" / "fresh").touch()
    new = Path(exchange(tmp_path).open_batch().folder)
    assert (query.exists(), batch.exists()) == (False, False)
    assert {path.name for path in tmp_path.iterdir()} == {at_work.name, new.name}


def test_a_shared_folder_loses_nothing_of_others(tmp_path: Path) -> None:
    """Whatever lies in the folder that a user names, however old: only what Neve made and marked goes."""
    backup = tmp_path / "backup"
    unmarked = tmp_path / str(uuid4())
    marked = tmp_path / "looks-like-one"
    for folder in (backup, unmarked, marked):
        folder.mkdir()
        (folder / "precious").touch()
    (marked / MARKER).touch()
    (tmp_path / "file").touch()
    linked_marker = tmp_path / str(uuid4())
    linked_marker.mkdir()
    (linked_marker / MARKER).symlink_to(marked / MARKER)
    for folder in (backup, unmarked, marked, linked_marker):
        age(folder)
    before = sorted(tmp_path.rglob("*"))
    exchange(tmp_path).open_batch().remove()
    assert sorted(tmp_path.rglob("*")) == before


def test_a_link_in_the_folder_is_never_followed(tmp_path: Path) -> None:
    """Neither one that stands for a batch, nor one inside of a batch that goes."""
    warehouse, root = tmp_path / "warehouse", tmp_path / "exchange"
    warehouse.mkdir()
    for name in (MARKER, "data.parquet"):
        (warehouse / name).touch()
    gone = killed(root)
    (gone / "inside").symlink_to(warehouse)
    (root / str(uuid4())).symlink_to(warehouse)
    for folder in (warehouse, gone, root):
        age(folder)
    exchange(root).open_batch()
    assert not gone.exists()
    assert {path.name for path in warehouse.iterdir()} == {MARKER, "data.parquet"}


@needs_root
def test_a_batch_of_another_user_stays(tmp_path: Path) -> None:
    """Its owner removes it."""
    theirs = killed(tmp_path)
    os.chown(theirs, STRANGER, STRANGER)
    age(theirs)
    exchange(tmp_path).open_batch()
    assert theirs.exists()


@pytest.mark.parts
def test_object_storage_is_swept_in_the_same_way(s3: S3) -> None:
    """By name and marker; the age is told by the clock of the storage."""
    config = S3Config(endpoint=s3.endpoint, region=s3.region, access_key=s3.access_key, secret_key=s3.secret_key)
    login = {"access_key": s3.access_key, "secret_key": s3.secret_key, "region": s3.region}
    filesystem = pafs.S3FileSystem(endpoint_override=s3.endpoint, allow_bucket_creation=True, **login)
    filesystem.create_dir("exchanged")
    root = Exchange("s3://exchanged/shared", config)
    for name in ("backup/a", f"{uuid4()}/b", f"backup/{MARKER}"):
        with filesystem.open_output_stream(f"exchanged/shared/{name}") as stream:
            stream.write(b"x")
    left = root.open_batch()
    left.leave(ROWS)

    def files() -> set[str]:
        found = filesystem.get_file_info(pafs.FileSelector("exchanged/shared", recursive=True))
        return {entry.path.split("/")[2] for entry in found if entry.type == pafs.FileType.File}

    before = files()
    root.sweep(now=time.time())
    assert files() == before
    root.sweep(now=time.time() + 2 * LEFT_BEHIND_SECONDS)
    assert files() == before - {left.folder.rsplit("/", 1)[-1]}
