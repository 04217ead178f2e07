"""Lakes over every catalog that can run on this machine: the behaviours in this folder hold for each."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import psycopg2
import pyarrow.fs as pafs
import pytest
from pydantic import SecretStr

from neve.lake.config import CatalogConfig, LakeConfig, S3Config, SparkConfig
from neve.lake.lake import Lake

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.parts.postgres import Postgres
    from tests.parts.rest_catalog import RestCatalog
    from tests.parts.s3 import S3

_numbers = itertools.count()


def sqlite(folder: Path, _part: None) -> Lake:
    """The embedded default."""
    return _lake(folder, {"kind": "sqlite", "path": str(folder / "catalog.db")})


def postgres(folder: Path, part: Postgres) -> Lake:
    """A database of its own on a PostgreSQL server."""
    database = f"lake{next(_numbers)}"
    connection = psycopg2.connect(host=part.host, port=part.port, user=part.user, dbname="postgres")
    connection.autocommit = True
    with connection.cursor() as cursor:
        cursor.execute(f'CREATE DATABASE "{database}"')
    connection.close()
    uri = f"postgresql://{part.host}:{part.port}/{database}"
    return _lake(folder, {"kind": "postgres", "uri": uri, "user": part.user})


def rest(folder: Path, part: RestCatalog) -> Lake:
    """The reference REST server; the catalog is shared, so its tables are dropped first."""
    lake = _lake(folder, {"kind": "rest", "uri": part.uri, "warehouse": part.warehouse})
    for name in lake.table_names():
        lake.catalog.drop_table(("telemetry", name))
    return lake


def glue(folder: Path, part: S3) -> Lake:
    """AWS Glue's interface and S3, both played by one moto server."""
    bucket = f"glue{next(_numbers)}"
    options = {"endpoint_override": part.endpoint, "access_key": part.access_key, "secret_key": part.secret_key}
    pafs.S3FileSystem(**options, region=part.region, allow_bucket_creation=True).create_dir(bucket)
    properties = {
        "glue.endpoint": part.endpoint,
        "glue.region": part.region,
        "glue.access-key-id": part.access_key,
        "glue.secret-access-key": part.secret_key,
    }
    s3 = S3Config(
        endpoint=part.endpoint, region=part.region, access_key=part.access_key, secret_key=SecretStr(part.secret_key)
    )
    lake = _lake(folder, {"kind": "glue", "properties": properties}, f"s3://{bucket}/warehouse", s3)
    for name in lake.table_names():
        lake.catalog.drop_table(("telemetry", name))
    return lake


def _lake(folder: Path, catalog: dict[str, Any], warehouse: str = "", s3: S3Config | None = None) -> Lake:
    return Lake(
        LakeConfig(warehouse=warehouse or str(folder / "warehouse")),
        CatalogConfig(name=f"contract{next(_numbers)}", **catalog),
        s3 or S3Config(),
        spark_config=SparkConfig(master="local[2]", log_file=str(folder / "spark.log")),
    )


MAKERS: dict[str, tuple[str | None, Callable[[Path, Any], Lake]]] = {
    "sqlite": (None, sqlite),
    "postgres": ("postgres", postgres),
    "rest": ("rest_catalog", rest),
    "glue": ("s3", glue),
}


@pytest.fixture(params=list(MAKERS))
def any_lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    """A lake without tables on one of the catalogs; skipped by the part's name where it can't run."""
    fixture, make = MAKERS[request.param]
    part = request.getfixturevalue(fixture) if fixture else None
    return make(tmp_path, part)
