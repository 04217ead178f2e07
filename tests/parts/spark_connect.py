"""A Spark Connect server, as a user's cluster would run it: from pyspark's own jars, with the lake's jars."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from neve.lake.spark.jars import ALL, local_paths
from tests.parts import java
from tests.parts.probe import listens
from tests.parts.process import HOST, Part, free_port, running, scratch

SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
EXTENSIONS = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"


@dataclass(frozen=True)
class SparkConnect:
    """A running Spark Connect server."""

    port: int
    host: str = HOST

    @property
    def url(self) -> str:
        """The address as Spark clients read it."""
        return f"sc://{self.host}:{self.port}"


def missing() -> str | None:
    """Say why Spark Connect can't run here, or None when it can."""
    if reason := java.missing():
        return f"Spark Connect: {reason}"
    if not find_spec("grpc_status"):
        return "Spark Connect: no grpcio-status found (pip install 'pyspark[connect]')"
    return None if java.spark_jar("spark-connect_2.13") else "Spark Connect: pyspark has no spark-connect jar"


@contextmanager
def spark_connect() -> Iterator[SparkConnect]:
    """Run a server with two cores; its Python workers run this Python."""
    port = free_port()
    conf = {
        "spark.master": "local[2]",
        "spark.driver.host": HOST,
        "spark.driver.bindAddress": HOST,
        "spark.driver.memory": "1g",
        "spark.ui.enabled": "false",
        "spark.connect.grpc.binding.address": HOST,
        "spark.connect.grpc.binding.port": str(port),
        "spark.jars": ",".join(map(str, local_paths(ALL))),
        "spark.sql.extensions": EXTENSIONS,
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    settings = [part for key, value in conf.items() for part in ("--conf", f"{key}={value}")]
    with scratch("spark-connect") as folder:
        command = [str(_home() / "bin" / "spark-submit"), "--class", SERVER, *settings, "spark-internal"]
        environment = {**os.environ, "SPARK_LOCAL_IP": HOST, "PYSPARK_PYTHON": sys.executable}
        part = Part("Spark Connect", command, partial(listens, port), folder, environment)
        with running(part):
            yield SparkConnect(port)


def _home() -> Path:
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent
