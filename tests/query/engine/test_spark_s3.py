"""Results of Spark on object storage, for which Spark itself has no file system."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.fs as pafs
import pytest

from neve.lake.config import S3Config
from neve.query.engine.spark import SparkEngine

if TYPE_CHECKING:
    from neve.lake.lake import Lake
    from tests.parts.s3 import S3

pytestmark = [pytest.mark.parts, pytest.mark.spark]


def test_a_result_goes_through_a_bucket(spark_lake: Lake, s3: S3) -> None:
    """Rows come in their order, names may repeat, and nothing stays behind."""
    keys = {"access_key": s3.access_key, "secret_key": s3.secret_key, "region": s3.region}
    filesystem = pafs.S3FileSystem(endpoint_override=s3.endpoint, allow_bucket_creation=True, **keys)
    filesystem.create_dir("results")
    lake = replace(
        spark_lake,
        lake=spark_lake.lake.model_copy(update={"exchange": "s3://results/exchange"}),
        s3=S3Config(endpoint=s3.endpoint, **keys),
    )
    sql = (
        "SELECT id, id % 3 AS id, timestamp_micros(id) AS at, named_struct('a', array(id)) AS s FROM range(1000, 0, -1)"
    )
    run = SparkEngine(lake).run(f"{sql} ORDER BY at DESC", 500, lambda: None)
    run.begin()
    rows = pa.Table.from_batches(run.batches(), run.schema)
    assert rows.column_names == ["id", "id", "at", "s"]
    assert rows.column(0).to_pylist() == list(range(1000, 500, -1))
    assert rows.schema.field("at").type == pa.timestamp("us", "UTC")
    assert rows.column("s")[0].as_py() == {"a": [1000]}
    empty = SparkEngine(lake).run("SELECT 1 AS x WHERE false", 500, lambda: None)
    empty.begin()
    assert list(empty.batches()) == []
    assert empty.schema == pa.schema([("x", pa.int32())])
    for one in (run, empty):
        one.close()
    left = filesystem.get_file_info(pafs.FileSelector("results/exchange", recursive=True, allow_not_found=True))
    assert not [one.path for one in left if one.type == pafs.FileType.File]
