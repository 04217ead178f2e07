"""Fixtures that all tests share: one Spark session, lakes in temporary folders, and the real parts."""

from __future__ import annotations

import gc
import itertools
import os
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import structlog
from pyiceberg.table.metadata import TableMetadataUtil

from neve.lake.config import CatalogConfig, LakeConfig, S3Config, SparkConfig
from neve.lake.lake import Lake
from neve.lake.spark.jars import ALL, local_paths
from neve.lake.spark.session import build_session
from tests.empty_tables import create_empty_tables
from tests.query.quick import connect_quickly

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from pyspark.sql import SparkSession

pytest_plugins = ["tests.parts.fixtures", "tests.cpu_report", "tests.property_profiles", "tests.lake_mark"]

SHARED_DATA = Path(__file__).parents[2] / "shared" / "data"
# A small, quick JVM: start-up costs more than throughput in tests.
TEST_CONF = {
    # Iceberg's Glue client knows only the usual AWS chain; these are what the moto server takes.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC "
    "-Daws.accessKeyId=test -Daws.secretAccessKey=test",
    "spark.sql.shuffle.partitions": "1",
}
# pytest's prompt loads readline, which sets these behind os.environ: workers of pytest-xdist and commands that tests
# start would inherit them, and print narrow tables.
for variable in ("COLUMNS", "LINES"):
    os.environ.pop(variable, None)
    os.unsetenv(variable)
_numbers = itertools.count()
# Logs of tests that configure none: rich needs a CPU second to highlight the source of one traceback.
structlog.get_config()["processors"][-1].exception_formatter = structlog.dev.plain_traceback


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect tests without the garbage collector, and keep it from walking through modules and tests later on."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests by the fixtures that they use, so that nobody forgets to."""
    for item in items:
        fixtures = set(getattr(item, "fixturenames", ()))
        if "spark" in fixtures:
            item.add_marker("spark")
        if "shared_data" in fixtures:
            item.add_marker("shared_data")


@pytest.fixture(scope="session", autouse=True)
def quick_duckdb() -> Iterator[None]:
    """Connections that start at once, in this process."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("duckdb.connect", connect_quickly)
        yield


@pytest.fixture(scope="session", autouse=True)
def quick_metadata() -> Iterator[None]:
    """Parse equal texts of a table's metadata once: what is parsed is frozen. Files are read each time."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(TableMetadataUtil, "parse_raw", staticmethod(lru_cache(256)(TableMetadataUtil.parse_raw)))
        yield


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real data that stands beside a developer's clone."""
    if not SHARED_DATA.is_dir():
        pytest.skip("shared data: there is no ../shared/data beside this clone")
    return SHARED_DATA


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> SparkSession:
    """The one session of the whole run, with the jars of every catalog."""
    folder = tmp_path_factory.mktemp("spark")
    jars = ",".join(map(str, local_paths(ALL)))
    config = SparkConfig(
        master="local[2]",
        driver_memory="1g",
        conf={**TEST_CONF, "spark.jars": jars},
        log_file=str(folder / "spark.log"),
    )
    lake = LakeConfig(warehouse=str(folder / "warehouse"))
    return build_session(config, CatalogConfig(name="unused", path=str(folder / "catalog.db")), lake, S3Config())


@pytest.fixture
def make_lake(tmp_path: Path, iceberg: None) -> Callable[..., Lake]:
    """Lakes with a SQLite catalog in a temporary folder; Spark knows each by a name of its own."""

    def make(folder: Path = tmp_path, *, init: bool = True) -> Lake:
        name = f"lake{next(_numbers)}"
        lake = Lake(
            LakeConfig(warehouse=str(folder / "warehouse")),
            CatalogConfig(name=name, path=str(folder / "catalog.db")),
            spark_config=SparkConfig(master="local[2]", log_file=str(folder / "spark.log")),
        )
        if init:
            create_empty_tables(lake)
        return lake

    return make


@pytest.fixture
def lake(make_lake: Callable[..., Lake]) -> Lake:
    """A lake with all tables."""
    return make_lake()


@pytest.fixture
def spark_lake(spark: SparkSession, lake: Lake) -> Lake:
    """A lake with all tables that Spark can reach."""
    assert lake.spark is spark
    return lake
