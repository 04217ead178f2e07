"""One Spark for a process group: the process that tends the lake lends its own to the API, through Spark Connect.

It listens on loopback, and only to those who know a word that the group makes up when it starts.
"""

from __future__ import annotations

import secrets
from dataclasses import replace
from typing import TYPE_CHECKING

from neve.app.serve.choice import API, TEND

if TYPE_CHECKING:
    from collections.abc import Collection

    from neve.app.settings import Settings
    from neve.lake.lake import Lake

LOOPBACK = "127.0.0.1"
NEAR = "localhost"  # by this name Spark's client says the word without TLS, to this machine alone
WORD = "SPARK_CONNECT_AUTHENTICATE_TOKEN"  # a variable: command lines are for everyone to read
PLUGINS, PLUGIN = "spark.plugins", "org.apache.spark.sql.connect.SparkConnectPlugin"
ADDRESS, PORT = "spark.connect.grpc.binding.address", "spark.connect.grpc.binding.port"


def is_shared(settings: Settings, processes: Collection[str]) -> bool:
    """Whether the API of a group may need Spark, and the group has one of its own."""
    wanted = API in processes and bool(settings.query.spark_bytes)
    return wanted and TEND in processes and not settings.spark.connect


def new_word() -> dict[str, str]:
    """The variable with which both sides know each other."""
    return {WORD: secrets.token_urlsafe(32)}


def lent(lake: Lake, port: int) -> Lake:
    """The lake whose Spark, once it runs, also works for those who come to the port."""
    spark = lake.spark_config
    plugins = ",".join(filter(None, (spark.conf.get(PLUGINS), PLUGIN)))
    conf = {**spark.conf, PLUGINS: plugins, ADDRESS: LOOPBACK, PORT: str(port)}
    return replace(lake, spark_config=spark.model_copy(update={"conf": conf}))


def borrowed(lake: Lake, port: int) -> Lake:
    """The lake with the Spark behind the port; what they hand each other lies where it would without it."""
    spark = lake.spark_config.model_copy(update={"connect": f"sc://{NEAR}:{port}", "conf": {}})
    place = lake.lake.model_copy(update={"exchange": lake.exchange.folder})
    return replace(lake, spark_config=spark, lake=place)
