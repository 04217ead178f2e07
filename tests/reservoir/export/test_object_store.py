"""A part in object storage: written, noted, found, read back and removed."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pyarrow.fs as pafs
import pytest
from pydantic import SecretStr

from neve.ingest.otap_import import list_otap_files
from neve.lake.config import S3Config
from neve.model.signals import Signal
from neve.otap.part_reader import PartFiles, PartReader, infer_part_offsets
from neve.otap.to_lake import to_messages
from neve.reservoir.otap.export import ExportFolder, ExportMarker
from neve.reservoir.otap.export_task import ExportRequest, PartWriter
from tests.telemetry import decoded, traces

if TYPE_CHECKING:
    from tests.parts.s3 import S3


@pytest.fixture
def store(s3: S3) -> S3Config:
    """Settings for a store with an empty bucket."""
    config = S3Config(
        endpoint=s3.endpoint, region=s3.region, access_key=s3.access_key, secret_key=SecretStr(s3.secret_key)
    )
    pafs.S3FileSystem(
        endpoint_override=s3.endpoint,
        region=s3.region,
        access_key=s3.access_key,
        secret_key=s3.secret_key,
        allow_bucket_creation=True,
    ).create_dir("otap-export")
    return config


def test_a_part_in_object_storage_comes_back(store: S3Config) -> None:
    """Addresses stay addresses, whoever lists, reads or removes."""
    request = ExportRequest("s3://otap-export/out", "spans", "acme")
    rows = decoded(Signal.TRACES, traces(5)).batch
    writer = PartWriter(request, store, 0)
    writer.take(rows)
    done = writer.finish()
    place = ExportFolder(request, store)
    assert place.read() is None
    place.write(ExportMarker("f", 1, {"parts": done.parts}))
    found = place.read()
    assert found == ExportMarker("f", 1, {"parts": done.parts})
    assert place.has_all(found)
    folder = list_otap_files(request.folder, store)
    [root] = folder.roots
    assert (root.path.startswith("s3://otap-export/out/spans/_part_id="), folder.ignored) == (True, ())
    files = folder.parts[folder.part_of[root.path]]
    [star] = PartReader(PartFiles(files, infer_part_offsets(store, files)), store).chunks("spans", root.path)
    assert decoded(Signal.TRACES, *to_messages(star, Counter()).to_pylist()).batch.equals(rows)
    place.remove_parts(found)
    assert not place.has_all(found)
