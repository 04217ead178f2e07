"""The only place that builds a SparkSession."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from neve.lake.catalog import spark_properties
from neve.lake.config import CatalogConfig, LakeConfig, S3Config, SparkConfig
from neve.lake.jars import local_paths, needed
from neve.lake.java import find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
ALWAYS = {
    "spark.app.name": "neve",
    "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # A worker keeps what it imported and built for the tasks that follow.
    "spark.python.worker.reuse": "true",
    "spark.log.level": "WARN",
}


def session_conf(spark: SparkConfig, catalog: CatalogConfig, lake: LakeConfig, s3: S3Config) -> dict[str, str]:
    """Every Spark setting of a session, as data; what the user set wins."""
    conf = {**ALWAYS, **spark_properties(catalog, lake, s3), "spark.sql.defaultCatalog": catalog.name}
    if spark.connect:
        return {**conf, **spark.conf}
    conf["spark.master"] = spark.master
    conf["spark.driver.memory"] = spark.driver_memory
    return {**conf, **(LOCAL if spark.master.startswith("local") else {}), **spark.conf}


def build_session(spark: SparkConfig, catalog: CatalogConfig, lake: LakeConfig, s3: S3Config) -> SparkSession:
    """Start Spark, or join the session that this process already has."""
    conf = session_conf(spark, catalog, lake, s3)
    if not spark.connect:
        find_java()
        jars = local_paths(needed(catalog.kind, on_s3=lake.on_s3))
        conf["spark.jars"] = ",".join([*conf.get("spark.jars", "").split(","), *map(str, jars)]).strip(",")
        # Workers must run the Python that has Neve, not whichever `python3` comes first on PATH.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark.sql import SparkSession  # noqa: PLC0415 - a JVM's worth of imports, only for those who need it

    builder = SparkSession.builder
    if spark.connect:
        builder = builder.remote(spark.connect)
    for key, value in conf.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()
