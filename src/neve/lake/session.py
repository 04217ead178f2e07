"""The only place that builds a SparkSession."""

from __future__ import annotations

import os
import re
import shlex
import sys
import tempfile
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from neve.errors import ConfigError, EnvironmentFault
from neve.lake.catalog import spark_properties
from neve.lake.jars import local_paths, needed
from neve.lake.java import find_java
from neve.lake.private_folders import make_private

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import SparkSession

    from neve.lake.config import CatalogConfig, LakeConfig, S3Config, SparkConfig
    from neve.lake.jars import Jar

SQL = "spark.sql."
CATALOG = f"{SQL}catalog."
# Keys whose values Spark must not show in its page, its event log and its plans. Its own list has neither the
# credential of a REST catalog nor the login of a Kafka client.
SECRETS = r"(?i)secret|password|passphrase|token|credential|authorization|access[-_.]?key|jaas"
REDACTION = {
    "spark.redaction.regex": SECRETS,
    "spark.sql.redaction.options.regex": f"(?i)url|{SECRETS}",
}
SUBMIT_ARGS = "PYSPARK_SUBMIT_ARGS"
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
    """Every Spark setting of a session, as data; what the user set wins, or is added to what is redacted."""
    conf = {**SESSION, **spark_properties(catalog, lake, s3)}
    own = {**spark.conf, **_redaction(spark.conf)}
    if spark.connect:  # the rest was decided when the server was started
        return {**conf, **{key: value for key, value in own.items() if key in spark.conf or key.startswith(SQL)}}
    conf |= {**ALWAYS, "spark.master": spark.master, "spark.driver.memory": spark.driver_memory}
    return {**conf, **(LOCAL if spark.master.startswith("local") else {}), **own}


def _redaction(conf: Mapping[str, str]) -> dict[str, str]:
    """The patterns of keys whose values are not shown, with those of the user."""
    return {key: f"(?:{ours})|(?:{conf[key]})" if conf.get(key) else ours for key, ours in REDACTION.items()}


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
    by_file: dict[str, str] = {}
    if not _is_running(spark):
        # In its event log Spark redacts only what it was started with, so secrets of catalogs can't wait until later.
        by_file = {key: conf[key] for key in conf if _is_secret(key, spark.conf)}
    for key, value in launch.items():
        if key not in by_file:
            builder = builder.config(key, value)
    with ExitStack() as around:
        if by_file:
            around.enter_context(_submitted_by_file(by_file))
        if not spark.connect and spark.log_file:
            around.enter_context(_stderr_to(Path(spark.log_file)))
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


def _is_secret(key: str, conf: Mapping[str, str]) -> bool:
    """Whether Neve or the user says that the value of a key is not shown; a pattern that only Java reads says yes."""
    try:
        return any(re.search(pattern, key) for pattern in (SECRETS, *filter(None, map(conf.get, REDACTION))))
    except re.error:
        return True


def _is_running(spark: SparkConfig) -> bool:
    """Whether there is a JVM already, so that no setting goes to a command line."""
    from pyspark import SparkContext  # noqa: PLC0415 - a JVM's worth of imports, only for those who need it

    return bool(spark.connect) or SparkContext._gateway is not None


@contextmanager
def _submitted_by_file(conf: Mapping[str, str]) -> Iterator[None]:
    """Give settings to the JVM that starts in here by a file that only this user reads, and not by its command line."""
    before = os.environ.get(SUBMIT_ARGS)
    if before and "--properties-file" in before:
        raise ConfigError(
            f"{SUBMIT_ARGS} is {before!r}, expected no --properties-file: Neve gives Spark one with secrets",
            hint="put the settings of that file under spark.conf in neve.yaml, where they win over Neve's own",
        )
    number, path = tempfile.mkstemp(prefix="neve-spark-", suffix=".conf")  # mode 0600
    try:
        with os.fdopen(number, "w", encoding="utf-8") as file:
            file.writelines(f"{_property(key)}={_property(value)}\n" for key, value in conf.items())
        os.environ[SUBMIT_ARGS] = (
            f"--load-spark-defaults --properties-file {shlex.quote(path)} {before or 'pyspark-shell'}"
        )
        yield
    finally:
        if before is None:
            os.environ.pop(SUBMIT_ARGS, None)
        else:
            os.environ[SUBMIT_ARGS] = before
        Path(path).unlink()


def _property(text: str) -> str:
    r"""A text as a file of Java properties has it.

    >>> _property("a=b: \\ é")
    'a\\u003db\\u003a\\u0020\\u005c\\u0020\\u00e9'
    """
    units = text.encode("utf-16-be", "surrogatepass")
    codes = (int.from_bytes(units[place : place + 2], "big") for place in range(0, len(units), 2))
    return "".join(
        chr(code) if (chr(code).isascii() and chr(code).isalnum()) or code in b"._-" else f"\\u{code:04x}"
        for code in codes
    )


@contextmanager
def _stderr_to(path: Path) -> Iterator[None]:
    """Give processes that start in here another standard error, so that a JVM's chatter does not reach the terminal."""
    make_private(path.parent)
    path.touch(mode=0o600)  # errors of the JVM quote what they are about
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
