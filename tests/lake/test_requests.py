"""Requests to object storage: as few as possible, and as many as are counted."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

import pyarrow.fs as pafs
import pytest

from neve.lake.config import S3Config
from neve.lake.storage.arrow_file_io import ArrowFileIO
from neve.lake.storage.filesystem import resolve_filesystem
from tests.parts.s3 import recorded

if TYPE_CHECKING:
    from tests.parts.s3 import S3

pytestmark = pytest.mark.parts

SMALL, LARGE = b"x" * 1000, b"x" * 12_000_000


@pytest.fixture
def bucket(s3: S3) -> str:
    """Return the name of an empty bucket."""
    keys = {"access_key": s3.access_key, "secret_key": s3.secret_key, "region": s3.region}
    pafs.S3FileSystem(endpoint_override=s3.endpoint, allow_bucket_creation=True, **keys).create_dir("requests")
    return "requests"


@pytest.mark.parametrize("copied", [False, True])
def test_a_small_object_is_one_request(s3: S3, bucket: str, copied: bool) -> None:
    """Through the raw zone's and the tables' file systems, also after a task has unpickled them."""
    config = S3Config(endpoint=s3.endpoint, region=s3.region, access_key=s3.access_key, secret_key=s3.secret_key)
    filesystem, inner = resolve_filesystem(f"s3://{bucket}/small", config)
    tables = ArrowFileIO(s3.properties)
    if copied:
        filesystem, tables = pickle.loads(pickle.dumps((filesystem, tables)))  # noqa: S301 - its own
    with recorded(s3) as methods, filesystem.open_output_stream(inner) as sink:
        sink.write(SMALL)
    assert methods == ["PUT"]
    with recorded(s3) as methods, tables.new_output(f"s3://{bucket}/table").create(overwrite=True) as file:
        file.write(SMALL)
    assert methods == ["PUT"]


def test_a_large_object_is_sent_in_parts(s3: S3, bucket: str) -> None:
    """Its first part waits for the second, and nothing is lost."""
    config = S3Config(endpoint=s3.endpoint, region=s3.region, access_key=s3.access_key, secret_key=s3.secret_key)
    filesystem, inner = resolve_filesystem(f"s3://{bucket}/large", config)
    with recorded(s3) as methods, filesystem.open_output_stream(inner) as sink:
        sink.write(LARGE)
    assert methods.count("POST") == 2
    assert filesystem.get_file_info(inner).size == len(LARGE)
