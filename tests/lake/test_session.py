"""The settings of a Spark session, as data."""

import os
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from pyspark import SparkConf, SparkContext

from neve.errors import EnvironmentFault
from neve.lake.config import CatalogConfig, LakeConfig, S3Config, SparkConfig
from neve.lake.spark.session import (
    REDACTION,
    _is_secret,
    _launch_jvm,
    _open_jvm_log,
    build_session,
    has_spark_started,
    session_conf,
    split_conf,
)

CATALOG = CatalogConfig(kind="postgres", uri="postgresql://db:5432/x", user="u", password=SecretStr("hunter2"))
S3 = S3Config(access_key="k", secret_key=SecretStr("hunter3"))
LAKE = LakeConfig(warehouse="s3://bucket/x")


def test_no_secret_is_on_the_command_line_of_the_jvm() -> None:
    """A list of processes is for everyone to read."""
    launch, later = split_conf(session_conf(SparkConfig(), CATALOG, LAKE, S3))
    assert "hunter" not in str(launch)
    assert {"hunter2", "hunter3"} <= set(later.values())


def test_what_the_user_set_wins() -> None:
    """Further Spark configuration is the last word."""
    spark = SparkConfig(master="spark://cluster:7077", conf={"spark.sql.session.timeZone": "Europe/Berlin"})
    conf = session_conf(spark, CatalogConfig(), LakeConfig(), S3Config())
    assert conf["spark.master"] == "spark://cluster:7077"
    assert conf["spark.sql.session.timeZone"] == "Europe/Berlin"
    assert "spark.driver.host" not in conf


def test_the_number_of_tasks_can_be_set() -> None:
    """A cluster that starts executors on demand reports too few cores before it has any."""
    key = "spark.default.parallelism"
    given = SparkConfig(master="spark://cluster:7077", parallelism=64)
    assert session_conf(given, CatalogConfig(), LakeConfig(), S3Config())[key] == "64"
    assert key not in session_conf(SparkConfig(), CatalogConfig(), LakeConfig(), S3Config())


def test_nothing_is_resolved_at_start() -> None:
    """Jars are given as paths, so that Spark never looks for packages."""
    conf = session_conf(SparkConfig(), CatalogConfig(), LakeConfig(), S3Config())
    assert not any("packages" in key for key in conf)


def test_spark_connect_gets_only_what_a_running_server_takes() -> None:
    """Static settings were decided when the server was started."""
    conf = session_conf(SparkConfig(connect="sc://host:15002"), CatalogConfig(), LakeConfig(), S3Config())
    assert "spark.master" not in conf
    assert "spark.sql.extensions" not in conf


def test_a_session_without_secrets_needs_no_file() -> None:
    """The embedded default starts as before, also where the user gives Spark a file of settings."""
    conf = session_conf(SparkConfig(), CatalogConfig(), LakeConfig(), S3Config())
    assert not any(_is_secret(key, {}) for key in conf if key not in REDACTION)
    assert _is_secret("spark.mine", {"spark.redaction.regex": "mine"})
    assert _is_secret("spark.anything", {"spark.redaction.regex": "\\p{Alpha}"})  # a pattern that only Java reads


def test_spark_has_started_when_its_session_is_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    """A context exists long before; a start that fails, and the Spark of another process, do not count."""
    module = "neve.lake.spark.session"
    monkeypatch.setattr(f"{module}._started", threading.Event())
    during: list[bool] = []

    def build(spark: SparkConfig, *_further: object) -> object:
        monkeypatch.setattr(SparkContext, "_active_spark_context", object())
        during.append(has_spark_started())
        if spark.master == "broken":
            raise EnvironmentFault("Spark did not start")
        return object()

    def start(**spark: str) -> None:
        build_session(SparkConfig(**spark), CATALOG, LAKE, S3)

    monkeypatch.setattr(f"{module}._build_session", build)
    start(connect="sc://host:15002")
    with pytest.raises(EnvironmentFault):
        start(master="broken")
    assert not has_spark_started()
    start()
    assert has_spark_started()
    assert during == [False, False, False]


def test_only_the_jvm_writes_to_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A service logs while Spark starts; a start that fails names the log of the JVM."""
    log_file = tmp_path / "spark.log"

    def launch(conf: SparkConf, popen_kwargs: dict[str, Any]) -> None:
        subprocess.run(["sh", "-c", "echo from the JVM >&2"], check=True, **popen_kwargs)
        os.write(2, b"from this process\n")
        raise RuntimeError(f"no gateway for {conf.get('spark.app.name')}")

    monkeypatch.setattr("pyspark.java_gateway.launch_gateway", launch)
    monkeypatch.setattr(SparkContext, "_gateway", None)
    monkeypatch.setattr(SparkContext, "_jvm", None)
    with (
        pytest.raises(EnvironmentFault, match="Spark did not start: no gateway for neve") as refused,
        _open_jvm_log(log_file) as log,
    ):
        _launch_jvm({"spark.app.name": "neve"}, log)
    assert str(log_file) in str(refused.value.hint)
    assert log_file.read_text() == "from the JVM\n"
    assert capfd.readouterr().err == "from this process\n"
