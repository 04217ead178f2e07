"""The warehouse in S3-compatible storage: the same behaviours through S3FileIO, pyarrow and DuckDB."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.fs as pafs
import pytest

from neve.ingest.config import IngestConfig
from neve.ingest.files.job import FileRequest, ingest_files
from neve.lake.config import CatalogConfig, LakeConfig, S3Config, SparkConfig
from neve.lake.lake import Lake
from neve.lake.tables import init_tables
from neve.model.signals import Signal
from neve.query.config import QueryConfig
from neve.query.service import run_query
from tests.telemetry import traces

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.parts.s3 import S3

pytestmark = pytest.mark.parts


def test_files_in_a_bucket_become_tables_in_a_bucket(spark: SparkSession, s3: S3, tmp_path: Path) -> None:
    """Sources, tables and queries all live in object storage; the configuration is the only difference."""
    config = S3Config(endpoint=s3.endpoint, region=s3.region, access_key=s3.access_key, secret_key=s3.secret_key)
    filesystem = pafs.S3FileSystem(
        endpoint_override=s3.endpoint,
        access_key=s3.access_key,
        secret_key=s3.secret_key,
        region=s3.region,
        allow_bucket_creation=True,
    )
    for bucket in ("raw", "lake"):
        filesystem.create_dir(bucket)
    put(filesystem, "raw/traces/a.binpb", traces(4))
    lake = Lake(
        LakeConfig(warehouse="s3://lake/warehouse"),
        CatalogConfig(name="bucket", path=str(tmp_path / "catalog.db")),
        config,
        SparkConfig(master="local[2]", log_file=str(tmp_path / "spark.log")),
    )
    init_tables(lake)
    result = ingest_files(lake, IngestConfig(), FileRequest(("s3://raw/",), "acme"))
    assert result.records == {"traces": 4}
    assert lake.table("spans").metadata.location.startswith("s3://lake/warehouse/")
    assert lake.spark is spark
    assert spark.table(lake.spark_name(Signal.TRACES.table)).count() == 4
    answer = run_query(lake, QueryConfig(), "SELECT count(*) AS n FROM spans", "acme").read_all()
    assert answer.to_pylist() == [{"n": 4}]
    assert ingest_files(lake, IngestConfig(), FileRequest(("s3://raw/",), "acme")).records == {}


def put(filesystem: pafs.FileSystem, path: str, data: bytes) -> None:
    """Store an object."""
    with filesystem.open_output_stream(path) as stream:
        stream.write(pa.py_buffer(data))
