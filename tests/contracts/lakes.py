"""Lakes over every catalog that can run on this machine: the behaviours in this folder hold for each."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import psycopg2
import pytest

from neve.lake.config import CatalogConfig, LakeConfig, SparkConfig
from neve.lake.lake import Lake

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.parts.postgres import Postgres
    from tests.parts.rest_catalog import RestCatalog

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


def _lake(folder: Path, catalog: dict[str, Any]) -> Lake:
    return Lake(
        LakeConfig(warehouse=str(folder / "warehouse")),
        CatalogConfig(name=f"contract{next(_numbers)}", **catalog),
        spark_config=SparkConfig(master="local[2]", log_file=str(folder / "spark.log")),
    )


MAKERS: dict[str, tuple[str | None, Callable[[Path, Any], Lake]]] = {
    "sqlite": (None, sqlite),
    "postgres": ("postgres", postgres),
    "rest": ("rest_catalog", rest),
}


@pytest.fixture(params=list(MAKERS))
def any_lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    """A lake without tables on one of the catalogs; skipped by the part's name where it can't run."""
    fixture, make = MAKERS[request.param]
    part = request.getfixturevalue(fixture) if fixture else None
    return make(tmp_path, part)
