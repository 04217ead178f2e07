"""The same commands with Spark somewhere else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.telemetry import logs, traces

if TYPE_CHECKING:
    from tests.parts.spark_connect import SparkConnect

pytestmark = [pytest.mark.e2e, pytest.mark.parts, pytest.mark.long]
NEVE = str(Path(sys.executable).with_name("neve"))


def test_ingest_runs_on_a_spark_connect_server(spark_connect: SparkConnect, tmp_path: Path) -> None:
    """`spark.connect` is the only setting that changes; no JVM is started here."""
    (tmp_path / "traces.binpb").write_bytes(traces(20))
    (tmp_path / "logs.binpb").write_bytes(logs(10))
    environment = {**os.environ, "NEVE_SPARK__CONNECT": spark_connect.url, "JAVA_HOME": "", "PATH": "/nowhere"}
    for command in (["init"], ["ingest", "files", "traces.binpb", "logs.binpb", "--json"]):
        done = subprocess.run(
            [NEVE, *command], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["records"] == {"traces": 20, "logs": 10}
