"""Orphans in object storage: listed and removed with the login that the table is read with."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.fs as pafs
import pytest

from neve.lake.commit.append import append_once
from neve.lake.config import CatalogConfig, LakeConfig, S3Config
from neve.lake.lake import Lake
from neve.lake.tables import init_tables
from neve.lake.write.table_writer import Target, write_files
from neve.maintain.job import Maintainer
from neve.model.signals import Signal
from tests.telemetry import decoded, traces

if TYPE_CHECKING:
    from pathlib import Path

    from tests.parts.s3 import S3

pytestmark = pytest.mark.parts
BUCKET = "maintained"


def test_orphans_in_a_bucket_are_removed_and_others_stay(
    s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A month from now one object is an orphan, and the table reads as before without it."""
    config = S3Config(endpoint=s3.endpoint, region=s3.region, access_key=s3.access_key, secret_key=s3.secret_key)
    login = {"access_key": s3.access_key, "secret_key": s3.secret_key, "region": s3.region}
    filesystem = pafs.S3FileSystem(endpoint_override=s3.endpoint, allow_bucket_creation=True, **login)
    filesystem.create_dir(BUCKET)
    lake = Lake(LakeConfig(warehouse=f"s3://{BUCKET}/lake"), CatalogConfig(path=str(tmp_path / "c.db")), config)
    init_tables(lake)
    table = lake.table("spans")
    files = write_files(Target.of(table), pa.Table.from_batches([decoded(Signal.TRACES, traces(3)).batch]))
    append_once(table, files, batch_id="a", operation="test")
    orphan = f"{table.location()}/data/left.parquet"
    with filesystem.open_output_stream(orphan.removeprefix("s3://")) as stream:
        stream.write(pa.py_buffer(b"x" * 100))
    later = datetime.now(UTC) + timedelta(days=30)
    maintainer = Maintainer(lake, clock=lambda: later)
    [early] = maintainer.run("spans", ["orphans"])
    assert early.outcome.gain.files == 0  # the storage says that it is new
    monkeypatch.setattr("neve.maintain.orphans._Folder.now", lambda _folder: later)
    [result] = maintainer.run("spans", ["orphans"])
    assert result.error is None
    assert [entry.what for entry in result.outcome.entries if entry.action == "remove"] == [orphan]
    assert filesystem.get_file_info(orphan.removeprefix("s3://")).type == pafs.FileType.NotFound
    assert lake.table("spans").scan().to_arrow().num_rows == 3
    [again] = maintainer.run("spans", ["orphans"])
    assert again.outcome.reason.startswith("no orphans among ")
