"""One embedded Spark for a process group: its cores, its memory, and its Spark Connect server for the API process.

Spark takes no core back from a running task. So it gets one task slot more than there are cores, and long jobs leave
that slot free for ingestion. Spark Connect listens on loopback, and requires a token that the group generates at its
start.

The worker process starts Spark when it first needs it. The API asks it to by a connection to another port of loopback,
with the same token, and waits until Spark is there.
"""

from __future__ import annotations

import hmac
import os
import secrets
import socket
import threading
import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from neve.app.serve.config import API, WORKER
from neve.errors import LakeError, NeveError
from neve.logger import get_logger

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from neve.app.settings import Settings
    from neve.lake.config import SparkConfig
    from neve.lake.lake import Lake


LOOPBACK = "127.0.0.1"
LOCALHOST = "localhost"  # for this name Spark's client sends the token without TLS, to this machine alone
TOKEN_VARIABLE = "SPARK_CONNECT_AUTHENTICATE_TOKEN"  # noqa: S105 - the name of an environment variable
PLUGINS, PLUGIN = "spark.plugins", "org.apache.spark.sql.connect.SparkConnectPlugin"
ADDRESS, PORT = "spark.connect.grpc.binding.address", "spark.connect.grpc.binding.port"
START_PORT_VARIABLE = "_NEVE_SPARK_START_PORT"
START_SECONDS = 120.0  # for Spark to start, on a busy machine
REQUEST_SECONDS, MOST_REQUESTS = 2.0, 16
CHECK_SECONDS = 0.5
PAUSE_SECONDS = 1.0  # after a connection that could not be accepted
READY = "ready"

log = get_logger("neve.serve")


def is_spark_shared(settings: Settings, processes: Collection[str]) -> bool:
    """Return whether the API of a group may need Spark, and the group has an embedded one."""
    wanted = API in processes and bool(settings.query.spark_bytes)
    return wanted and WORKER in processes and not settings.spark.connect


def new_connect_token() -> dict[str, str]:
    """Return the environment variable with the token of both sides."""
    return {TOKEN_VARIABLE: secrets.token_urlsafe(32)}


def new_start_port(port: int) -> dict[str, str]:
    """Return the environment variable with the port for requests to start Spark."""
    return {START_PORT_VARIABLE: str(port)}


def listen_for_start_requests(lake: Lake) -> threading.Thread | None:
    """Start the lake's Spark when another process of the group asks for it; none if no process may ask."""
    port, token = os.environ.get(START_PORT_VARIABLE), os.environ.get(TOKEN_VARIABLE, "")
    if not port:
        return None
    door = socket.create_server((LOOPBACK, int(port)), backlog=MOST_REQUESTS)
    free = threading.BoundedSemaphore(MOST_REQUESTS)

    def answer(client: socket.socket) -> None:
        try:
            with client:
                _answer_start_request(client, token, lake)
        except OSError as error:
            log.warning("request for Spark failed", error=str(error))
        finally:
            free.release()

    def accept() -> None:
        while True:
            free.acquire()
            try:
                client, _address = door.accept()
                threading.Thread(target=answer, args=(client,), name="start request", daemon=True).start()
            except (OSError, RuntimeError) as error:  # too many open files, or threads
                free.release()
                log.warning("request for Spark failed", error=str(error))
                time.sleep(PAUSE_SECONDS)

    thread = threading.Thread(target=accept, name="start requests", daemon=True)
    thread.start()
    return thread


def _answer_start_request(client: socket.socket, token: str, lake: Lake) -> None:
    client.settimeout(REQUEST_SECONDS)
    with client.makefile("rwb") as stream:
        if not token or not hmac.compare_digest(stream.readline(len(token) + 1), f"{token}\n".encode()):
            return
        try:
            _ = lake.spark
            words = READY
        except NeveError as error:
            words = error.message
        except Exception as error:
            log.exception("Spark did not start")
            words = f"Spark did not start: {type(error).__name__}"
        stream.write(f"{words.splitlines()[0]}\n".encode())


def request_spark(port: int, token: str, check: Callable[[], None]) -> None:
    """Wait until the Spark of the group runs; the worker process starts it if it does not. Raises `LakeError`.

    `check` is called while it waits, and raises the reason to give up.
    """
    hint = "retry when it is up; `neve status` shows the parts of `neve serve`"
    try:
        with socket.create_connection((LOOPBACK, port), REQUEST_SECONDS) as server:
            server.sendall(f"{token}\n".encode())
            _wait_for_answer(server, check)
            with server.makefile("rb") as stream:
                words = stream.readline(10_000).decode(errors="replace").strip()
    except OSError as error:
        raise LakeError(f"Spark of this service does not respond: {error.strerror or error}", hint=hint) from error
    if words != READY:
        raise LakeError(words or "the Spark of this service did not start", hint=hint)


def _wait_for_answer(server: socket.socket, check: Callable[[], None]) -> None:
    deadline = time.monotonic() + START_SECONDS
    server.settimeout(CHECK_SECONDS)
    while True:
        check()
        try:
            server.recv(1, socket.MSG_PEEK)
        except TimeoutError:
            if time.monotonic() >= deadline:
                raise
        else:
            return


def with_connect_server(lake: Lake, port: int) -> Lake:
    """Return the lake whose Spark also serves Spark Connect clients on the port once it runs."""
    spark = lake.spark_config
    plugins = ",".join(filter(None, (spark.conf.get(PLUGINS), PLUGIN)))
    conf = {**spark.conf, PLUGINS: plugins, ADDRESS: LOOPBACK, PORT: str(port)}
    return replace(lake, spark_config=spark.model_copy(update={"conf": conf}))


def with_remote_spark(lake: Lake, port: int) -> Lake:
    """Return the lake with the Spark behind the port; exchanged files are stored in the same folder as without it."""
    spark = lake.spark_config.model_copy(update={"connect": f"sc://{LOCALHOST}:{port}", "conf": {}})
    place = lake.lake.model_copy(update={"exchange": lake.exchange_folder})
    start = os.environ.get(START_PORT_VARIABLE)
    request = partial(request_spark, int(start), os.environ.get(TOKEN_VARIABLE, "")) if start else None
    return replace(lake, spark_config=spark, lake=place, request_spark=request)


ALL_CORES = "local[*]"
SORT_MEMORY_BYTES = 256 * 1024 * 1024  # 256 MB: a machine that also receives and queries needs its memory


def count_cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1  # pragma: no cover - not on Linux


def with_spare_slot(spark: SparkConfig, count: int) -> SparkConfig:
    """Return the embedded default with one more task slot; a configured number or cluster is not changed.

    >>> from neve.lake.config import SparkConfig
    >>> with_spare_slot(SparkConfig(), 4).master
    'local[5]'
    """
    if spark.connect or spark.master != ALL_CORES:
        return spark
    return spark.model_copy(update={"master": f"local[{count + 1}]"})


def with_compact_share(settings: Settings, count: int) -> Settings:
    """Give compaction the cores of one worker and half of the memory, if Spark is embedded and no value is set."""
    if not settings.spark.is_local:
        return settings
    own = {"cores": max(1, count // settings.serve.workers), "sort_memory_bytes": SORT_MEMORY_BYTES}
    unsaid = {key: value for key, value in own.items() if key not in settings.compact.model_fields_set}
    return settings.model_copy(update={"compact": settings.compact.model_copy(update=unsaid)})
