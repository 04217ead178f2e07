"""No secret is in what Spark shows: its event log, its page, plans, and the command line of its JVM."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import SecretStr

from neve.errors import ConfigError
from neve.lake.config import CatalogConfig, LakeConfig, S3Config, SparkConfig
from neve.lake.spark.session import REDACTION, _submit_conf_by_file, session_conf

SECRETS = {
    "s3": "canary-s3",
    "access": "canary-access",
    "credential": "canary-credential",
    "header": "canary-header",
    "jaas": "canary-jaas",
    "mine": "canary-mine",
    "conf": " canary=conf \\ \u00e9 ",
}

ENDED_DURING_A_START = """
import sys, threading
from neve.api.serve_process import exit_now
from neve.lake.spark.session import _submit_conf_by_file
started = threading.Event()
def start():
    with _submit_conf_by_file({"spark.a.secret": "canary"}):
        started.set()
        threading.Event().wait()
threading.Thread(target=start, daemon=True).start()
started.wait()
if sys.argv[1] == "now":
    exit_now(0)
"""


@pytest.mark.spark
def test_spark_shows_no_secret(tmp_path: Path) -> None:
    """S3's login, a REST catalog's credential and header, a Kafka login, and secrets of `spark.conf`."""
    (tmp_path / "events").mkdir()
    command = [sys.executable, "-m", "tests.lake.shown_by_spark", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, input=json.dumps(SECRETS))
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["given"] == SECRETS["conf"].strip()  # it works all the same; Spark trims it
    shown = {where: json.dumps(text, ensure_ascii=False) for where, text in told["shown"].items()}
    assert "spark.hadoop.fs.s3a.secret.key" in shown["page"]  # that it is set is told
    assert "spark.sql.catalog.neve.credential" in shown["events"]
    assert "format: rate" in shown["plans"]
    # Spark's page escapes a text; a part of it that has nothing to escape would be there
    parts = {name: "canary=conf" if name == "conf" else secret for name, secret in SECRETS.items()}
    assert {(where, name) for where, text in shown.items() for name, part in parts.items() if part in text} == set()


def test_what_the_user_redacts_is_added() -> None:
    """Neither pattern takes the place of the other."""
    spark = SparkConfig(conf={"spark.redaction.regex": "(?i)mine"})
    conf = session_conf(spark, CatalogConfig(), LakeConfig(), S3Config())
    assert conf["spark.redaction.regex"] == f"(?:{REDACTION['spark.redaction.regex']})|(?:(?i)mine)"
    remote = SparkConfig(connect="sc://host:15002")
    sent = session_conf(remote, CatalogConfig(credential=SecretStr("x")), LakeConfig(), S3Config())
    assert "credential" in sent["spark.sql.redaction.options.regex"]
    assert "spark.redaction.regex" not in sent  # a running server does not take it


def test_a_file_of_secrets_is_private_and_goes_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is there while the JVM starts; what the user has in the variable stays."""
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--name x pyspark-shell")
    with _submit_conf_by_file({"spark.a.secret": "b=c"}):
        words = os.environ["PYSPARK_SUBMIT_ARGS"].split()
        path = Path(words[words.index("--properties-file") + 1])
        assert words[-3:] == ["--name", "x", "pyspark-shell"]
        assert path.stat().st_mode & 0o777 == 0o600
        assert path.read_text() == "spark.a.secret=b\\u003dc\n"
    assert not path.exists()
    assert os.environ["PYSPARK_SUBMIT_ARGS"] == "--name x pyspark-shell"
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--properties-file mine pyspark-shell")
    with (
        pytest.raises(ConfigError, match=r"PYSPARK_SUBMIT_ARGS is '--properties-file mine pyspark-shell', expected no"),
        _submit_conf_by_file({"spark.a.secret": "b=c"}),
    ):
        pass


@pytest.mark.slow
@pytest.mark.parametrize("end", ["now", "in order"])
def test_no_file_of_secrets_outlives_a_process_that_ends_while_spark_starts(tmp_path: Path, end: str) -> None:
    """The thread that starts Spark does not leave its block then."""
    command = [sys.executable, "-c", ENDED_DURING_A_START, end]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, "TMPDIR": str(tmp_path)}
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert list(tmp_path.iterdir()) == []
