"""Spark sessions: local ones, sessions on a Spark Connect server, and scheduler pools.

This is the only module that builds a SparkSession. Different kinds of work share one session, and pools of Spark's
scheduler share its cores fairly.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import socket
import sys
import threading
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from neve.errors import ConfigError, EnvironmentFault, LakeError
from neve.lake.catalog import spark_properties
from neve.lake.spark.jars import local_paths, select_jars
from neve.lake.spark.java import find_java
from neve.local_folders import make_private_folder, write_secret_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import SparkSession

    from neve.lake.config import CatalogConfig, LakeConfig, S3Config, SparkConfig
    from neve.lake.spark.jars import Jar


CONNECT_PORT, MASTER_PORT = 15002, 7077  # default ports
REACH_SECONDS = 3.0
RETRIES, MAX_BACKOFF_MS = 5, 2000  # the client's own retries would take ten minutes


def open_remote_session(url: str, conf: Mapping[str, str]) -> SparkSession:
    """Open a new session. Raises `LakeError` at once if no server listens, instead of after ten minutes of retries."""
    check_reachable(url)
    from pyspark.sql import SparkSession  # noqa: PLC0415 - only if Spark is needed
    from pyspark.sql.connect.client.retries import DefaultPolicy  # noqa: PLC0415

    session: Any = SparkSession.builder.remote(url).create()
    session.client.set_retry_policies([DefaultPolicy(max_retries=RETRIES, max_backoff=MAX_BACKOFF_MS)])
    for key, value in conf.items():
        session.conf.set(key, value)
    return cast("SparkSession", session)


def check_master(master: str) -> str:
    """Return the address of this machine that the master of a standalone cluster sees, or an empty text for others.

    Raises `LakeError` at once if no master listens. Spark itself would try for a minute and a half, and not name it.
    """
    prefix = "spark://"
    if not master.startswith(prefix):
        return ""
    faults: list[str] = []
    for place in master.removeprefix(prefix).split(","):
        found = urlsplit(f"//{place}")
        try:
            with socket.create_connection((found.hostname or "", found.port or MASTER_PORT), REACH_SECONDS) as opened:
                own: str = opened.getsockname()[0]
                return own
        except OSError as error:
            faults.append(f"{place}: {error.strerror or error}")
    raise LakeError(
        f"spark.master is {master!r}, and no master responds ({'; '.join(faults)})",
        hint="start the master, or set spark.master to local[*] to run Spark in this process",
    )


def check_reachable(url: str) -> None:
    """Raise `LakeError` unless a server listens at a Spark Connect address."""
    place = urlsplit(url.partition(";")[0])
    try:
        socket.create_connection((place.hostname or "", place.port or CONNECT_PORT), REACH_SECONDS).close()
    except OSError as error:
        raise LakeError(
            f"Spark at {place.hostname}:{place.port or CONNECT_PORT} does not respond: {error.strerror or error}",
            hint="try again when it is up; run `neve status` to see the health of `neve serve`",
        ) from error


SQL = "spark.sql."
CATALOG = f"{SQL}catalog."
# Keys whose values Spark must not show in its UI, its event log and its plans. Its own list has neither the credential
# of a REST catalog nor the login of a Kafka client.
SECRETS = r"(?i)secret|password|passphrase|token|credential|authorization|access[-_.]?key|jaas"
REDACTION = {
    "spark.redaction.regex": SECRETS,
    "spark.sql.redaction.options.regex": f"(?i)url|{SECRETS}",
}
SUBMIT_ARGS = "PYSPARK_SUBMIT_ARGS"
DRIVER_HOST = "spark.driver.host"
LOCAL = {
    DRIVER_HOST: "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
SESSION = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}
ALWAYS = {
    "spark.app.name": "neve",
    "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    # A worker keeps its imports and caches for the following tasks.
    "spark.python.worker.reuse": "true",
    "spark.python.authenticate.socketTimeout": "60s",  # 15 s are not enough for a worker on a busy machine
    "spark.log.level": "WARN",
    # Without a login, and on all interfaces if the master is not local.
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def session_conf(spark: SparkConfig, catalog: CatalogConfig, lake: LakeConfig, s3: S3Config) -> dict[str, str]:
    """Return every Spark setting of a session. The user's settings win, or are added to the redaction pattern."""
    conf = {**SESSION, **spark_properties(catalog, lake, s3)}
    own = {**spark.conf, **_redaction_conf(spark.conf)}
    if spark.connect:  # the other settings were fixed at the start of the server
        return {**conf, **{key: value for key, value in own.items() if key in spark.conf or key.startswith(SQL)}}
    conf |= {**ALWAYS, "spark.master": spark.master, "spark.driver.memory": spark.driver_memory}
    if spark.parallelism:
        conf["spark.default.parallelism"] = str(spark.parallelism)
    return {**conf, **(LOCAL if spark.master.startswith("local") else {}), **own}


def _redaction_conf(conf: Mapping[str, str]) -> dict[str, str]:
    """Return the redaction pattern, including the user's."""
    return {key: f"(?:{ours})|(?:{conf[key]})" if conf.get(key) else ours for key, ours in REDACTION.items()}


def split_conf(conf: dict[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Split settings into those for the start of the JVM and those to set afterwards.

    The first are visible in the process list to every user of the machine, and settings of catalogs contain passwords.
    """
    later = {key: value for key, value in conf.items() if key.startswith(CATALOG)}
    return {key: value for key, value in conf.items() if key not in later}, later


def find_requirements(catalog: CatalogConfig, lake: LakeConfig, further_jars: tuple[Jar, ...] = ()) -> list[Path]:
    """Return the jars of a local Spark. Raises `EnvironmentFault` if Java or a jar is missing and can't be fetched."""
    find_java()
    return local_paths((*select_jars(catalog.kind, on_s3=lake.on_s3), *further_jars))


_starting = threading.Lock()
_started = threading.Event()


def has_spark_started() -> bool:
    """Return whether the start of Spark in this process is complete. It stays true when Spark ends.

    pyspark registers its context before the JVM has one, so a context does not show it.
    """
    return _started.is_set()


def build_session(
    spark: SparkConfig, catalog: CatalogConfig, lake: LakeConfig, s3: S3Config, further_jars: tuple[Jar, ...] = ()
) -> SparkSession:
    """Start Spark, or use the existing session of this process. Threads that ask at once get the same one."""
    with _starting:
        session = _build_session(spark, catalog, lake, s3, further_jars)
        if not spark.connect:
            _started.set()
        return session


def _build_session(
    spark: SparkConfig, catalog: CatalogConfig, lake: LakeConfig, s3: S3Config, further_jars: tuple[Jar, ...]
) -> SparkSession:
    conf = session_conf(spark, catalog, lake, s3)
    if not spark.connect:
        jars = find_requirements(catalog, lake, further_jars)
        conf["spark.jars"] = ",".join([*conf.get("spark.jars", "").split(","), *map(str, jars)]).strip(",")
        # Workers must run the Python that has Neve, not the first `python3` on PATH.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        if spark.master.startswith("local"):
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        elif not _is_running(spark) and (address := check_master(spark.master)):
            conf.setdefault(DRIVER_HOST, address)  # workers may not be able to resolve a host name
    from pyspark.sql import SparkSession  # noqa: PLC0415 - a JVM's worth of imports, only if it is needed

    builder = SparkSession.builder
    if spark.connect:
        builder = builder.remote(spark.connect)
    launch, later = split_conf(conf)
    by_file: dict[str, str] = {}
    if not _is_running(spark):
        # In its event log Spark redacts only settings from its start, so secrets of catalogs can't be set later.
        by_file = {key: conf[key] for key in conf if _is_secret(key, spark.conf)}
    launch = {key: value for key, value in launch.items() if key not in by_file}
    for key, value in launch.items():
        builder = builder.config(key, value)
    with ExitStack() as around:
        if by_file:
            around.enter_context(_submit_conf_by_file(by_file))
        if not spark.connect and spark.log_file:
            _launch_jvm(launch, around.enter_context(_open_jvm_log(Path(spark.log_file))))
        around.enter_context(_keep_interrupt_handler())
        session = builder.getOrCreate()
    for key, value in later.items():
        session.conf.set(key, value)
    return session


@contextmanager
def _keep_interrupt_handler() -> Iterator[None]:
    """Restore the handler of Ctrl+C after the block.

    Spark's own handler calls the JVM from within the call that it interrupts, and both print tracebacks.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def open_own_session(shared: SparkSession, catalog: CatalogConfig, conf: Mapping[str, str]) -> SparkSession:
    """Open a session beside another one in this process, with the same catalog and its own settings."""
    session = shared.newSession()
    prefix = f"{CATALOG}{catalog.name}"
    known = {name: value for name, value in shared.conf.getAll.items() if name.startswith(prefix)}
    for name, value in {**known, **conf}.items():
        session.conf.set(name, value)
    return session


def _is_secret(key: str, conf: Mapping[str, str]) -> bool:
    """Return whether the value of a key must be redacted, by Neve's pattern or the user's.

    A pattern that only Java can parse counts as a match.
    """
    try:
        return any(re.search(pattern, key) for pattern in (SECRETS, *filter(None, map(conf.get, REDACTION))))
    except re.error:
        return True


def _is_running(spark: SparkConfig) -> bool:
    """Return whether a JVM runs already, so that no setting goes to a command line."""
    from pyspark import SparkContext  # noqa: PLC0415 - a JVM's worth of imports, only if it is needed

    return bool(spark.connect) or SparkContext._gateway is not None


@contextmanager
def _submit_conf_by_file(conf: Mapping[str, str]) -> Iterator[None]:
    """Pass settings to a JVM that starts in the block by a file that only this user can read.

    Its command line would be visible to others.
    """
    before = os.environ.get(SUBMIT_ARGS)
    if before and "--properties-file" in before:
        raise ConfigError(
            f"{SUBMIT_ARGS} is {before!r}, expected no --properties-file: Neve passes its own, with secrets",
            hint="move the settings of that file to spark.conf in neve.yaml, where they override Neve's own",
        )
    text = "".join(f"{_escape_property(key)}={_escape_property(value)}\n" for key, value in conf.items())
    with write_secret_file(text, "neve-spark-", ".conf") as path:
        os.environ[SUBMIT_ARGS] = (
            f"--load-spark-defaults --properties-file {shlex.quote(str(path))} {before or 'pyspark-shell'}"
        )
        try:
            yield
        finally:
            if before is None:
                os.environ.pop(SUBMIT_ARGS, None)
            else:
                os.environ[SUBMIT_ARGS] = before


def _escape_property(text: str) -> str:
    r"""Escape a text for a Java properties file.

    >>> _escape_property("a=b: \\ é")
    'a\\u003db\\u003a\\u0020\\u005c\\u0020\\u00e9'
    """
    units = text.encode("utf-16-be", "surrogatepass")
    codes = (int.from_bytes(units[place : place + 2], "big") for place in range(0, len(units), 2))
    return "".join(
        chr(code) if (chr(code).isascii() and chr(code).isalnum()) or code in b"._-" else f"\\u{code:04x}"
        for code in codes
    )


@contextmanager
def _open_jvm_log(path: Path) -> Iterator[IO[bytes]]:
    """Open the log of a JVM that starts in the block. A failure of the start names it."""
    make_private_folder(path.parent)
    path.touch(mode=0o600)  # errors of the JVM may quote data
    try:
        with path.open("ab") as log:
            yield log
    except Exception as error:
        raise EnvironmentFault(f"Spark did not start: {error}", hint=f"the log of the JVM is {path}") from error


def _launch_jvm(conf: Mapping[str, str], log: IO[bytes]) -> None:
    """Start the JVM, unless it runs, with its standard error in a log: its output must not reach the terminal.

    That of this process stays as it is, because other threads write to it meanwhile.
    """
    from pyspark import SparkConf, SparkContext  # noqa: PLC0415 - a JVM's worth of imports, only if it is needed
    from pyspark.java_gateway import launch_gateway  # noqa: PLC0415 - as above

    if SparkContext._gateway is None:
        given = SparkConf().setAll(list(conf.items()))
        gateway = launch_gateway(given, {"stderr": log})  # type: ignore[no-untyped-call]
        SparkContext._ensure_initialized(gateway=gateway)


POOL_PROPERTY = "spark.scheduler.pool"
FAIR_SCHEDULING = {"spark.scheduler.mode": "FAIR"}  # by default the first job uses every core until it is done


class _ThreadPool(threading.local):
    """The scheduler pool of a thread: the wanted one, and the one that Spark knows of."""

    wanted: str | None = None
    known: str | None = None


_thread_pool = _ThreadPool()


@contextmanager
def use_pool(name: str) -> Iterator[None]:
    """Run this thread's Spark jobs in a pool inside the block. A stream keeps the pool that it started in.

    Spark learns of it when the thread asks the lake for a session, and is not started for it.
    """
    before, _thread_pool.wanted = _thread_pool.wanted, name
    try:
        yield
    finally:
        _thread_pool.wanted = before


def enter_pool(session: SparkSession) -> None:
    """Put the next jobs of this thread into the pool that the thread wants."""
    if _thread_pool.known != _thread_pool.wanted:
        context = session.sparkContext
        context.setLocalProperty(POOL_PROPERTY, _thread_pool.wanted)  # type: ignore[arg-type] # None takes it back
        _thread_pool.known = _thread_pool.wanted
