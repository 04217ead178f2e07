"""Sessions on a Spark Connect server, each for itself."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from neve.errors import LakeError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

PORT = 15002  # of a server whose address names none
REACH_SECONDS = 3.0
RETRIES, LONGEST_PAUSE_MS = 5, 2000  # the client's own would go on for ten minutes


def open_remote(url: str, conf: Mapping[str, str]) -> SparkSession:
    """A new session; raises `LakeError` where nobody listens, at once and not after ten minutes of attempts."""
    check_reachable(url)
    from pyspark.sql import SparkSession  # noqa: PLC0415 - only for those who need Spark
    from pyspark.sql.connect.client.retries import DefaultPolicy  # noqa: PLC0415

    session: Any = SparkSession.builder.remote(url).create()
    session.client.set_retry_policies([DefaultPolicy(max_retries=RETRIES, max_backoff=LONGEST_PAUSE_MS)])
    for key, value in conf.items():
        session.conf.set(key, value)
    return cast("SparkSession", session)


def check_reachable(url: str) -> None:
    """Raise `LakeError` unless a server listens at an address of Spark Connect."""
    place = urlsplit(url.partition(";")[0])
    try:
        socket.create_connection((place.hostname or "", place.port or PORT), REACH_SECONDS).close()
    except OSError as error:
        raise LakeError(
            f"Spark at {place.hostname}:{place.port or PORT} does not answer: {error.strerror or error}",
            hint="ask again when it is up; `neve status` shows the parts of `neve serve`",
        ) from error
