"""The only place that builds a SparkSession."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from neve.errors import EnvironmentFault
from neve.lake.catalog import spark_properties
from neve.lake.jars import local_paths, needed
from neve.lake.java import find_java

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import SparkSession

    from neve.lake.config import CatalogConfig, LakeConfig, S3Config, SparkConfig
    from neve.lake.jars import Jar

CATALOG = "spark.sql.catalog."
LOCAL = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
SESSION = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}
ALWAYS = {
    "spark.app.name": "neve",
    "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    # A worker keeps what it imported and built for the tasks that follow.
    "spark.python.worker.reuse": "true",
    "spark.log.level": "WARN",
}


def session_conf(spark: SparkConfig, catalog: CatalogConfig, lake: LakeConfig, s3: S3Config) -> dict[str, str]:
    """Every Spark setting of a session, as data; what the user set wins."""
    conf = {**SESSION, **spark_properties(catalog, lake, s3)}
    if spark.connect:
        return {**conf, **spark.conf}  # the rest was decided when the server was started
    conf |= {**ALWAYS, "spark.master": spark.master, "spark.driver.memory": spark.driver_memory}
    return {**conf, **(LOCAL if spark.master.startswith("local") else {}), **spark.conf}


def split_conf(conf: dict[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """What a JVM is started with, and what is set afterwards.

    The first stands in the list of processes, for everyone on the machine to read; catalogs hold passwords.
    """
    later = {key: value for key, value in conf.items() if key.startswith(CATALOG)}
    return {key: value for key, value in conf.items() if key not in later}, later


def build_session(
    spark: SparkConfig, catalog: CatalogConfig, lake: LakeConfig, s3: S3Config, further_jars: tuple[Jar, ...] = ()
) -> SparkSession:
    """Start Spark, or join the session that this process already has."""
    conf = session_conf(spark, catalog, lake, s3)
    if not spark.connect:
        find_java()
        jars = local_paths((*needed(catalog.kind, on_s3=lake.on_s3), *further_jars))
        conf["spark.jars"] = ",".join([*conf.get("spark.jars", "").split(","), *map(str, jars)]).strip(",")
        # Workers must run the Python that has Neve, not whichever `python3` comes first on PATH.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        if spark.master.startswith("local"):
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    from pyspark.sql import SparkSession  # noqa: PLC0415 - a JVM's worth of imports, only for those who need it

    builder = SparkSession.builder
    if spark.connect:
        builder = builder.remote(spark.connect)
    launch, later = split_conf(conf)
    for key, value in launch.items():
        builder = builder.config(key, value)
    if spark.connect or not spark.log_file:
        session = builder.getOrCreate()
    else:
        with _stderr_to(Path(spark.log_file)):
            session = builder.getOrCreate()
    for key, value in later.items():
        session.conf.set(key, value)
    return session


def own_session(shared: SparkSession, catalog: CatalogConfig, conf: Mapping[str, str]) -> SparkSession:
    """A session beside another one in this process: the same catalog, and settings of its own."""
    session = shared.newSession()
    prefix = f"{CATALOG}{catalog.name}"
    known = {name: value for name, value in shared.conf.getAll.items() if name.startswith(prefix)}
    for name, value in {**known, **conf}.items():
        session.conf.set(name, value)
    return session


@contextmanager
def _stderr_to(path: Path) -> Iterator[None]:
    """Give processes that start in here another standard error, so that a JVM's chatter does not reach the terminal."""
    path.parent.mkdir(parents=True, exist_ok=True)
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with path.open("ab") as log:
            os.dup2(log.fileno(), 2)
        yield
    except Exception as error:
        raise EnvironmentFault(f"Spark did not start: {error}", hint=f"the JVM's own words are in {path}") from error
    finally:
        os.dup2(kept, 2)
        os.close(kept)
