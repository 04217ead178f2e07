"""The README's own commands, in the order in which a newcomer types them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from neve.model.signals import Signal
from neve.otlp.json import to_json
from tests.telemetry import logs, metrics, traces

pytestmark = pytest.mark.e2e
NEVE = str(Path(sys.executable).with_name("neve"))


def neve(cwd: Path, *arguments: str) -> str:
    """Run a command and give what it printed."""
    done = subprocess.run([NEVE, *arguments], cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_your_own_data(tmp_path: Path) -> None:
    """Init, ingest, tables, query, doctor, quarantine; the second ingest adds nothing."""
    folder = tmp_path / "path" / "to" / "telemetry"
    folder.mkdir(parents=True)
    (folder / "spans.binpb").write_bytes(traces(7))
    (folder / "logs.json").write_text(to_json(Signal.LOGS, logs(5)))
    (folder / "metrics.pb").write_bytes(metrics(3))
    (folder / "logs.csv").write_text("timestamp,message,service\n1700000000,hello,shop\nyesterday,no,shop\n")
    assert "created" in neve(tmp_path, "init")
    said = neve(tmp_path, "ingest", "files", "path/to/telemetry/")
    assert "6 logs, 3 metrics, 7 traces" in said
    assert "1 bad_time" in said
    assert "0 read, 4 skipped" in neve(tmp_path, "ingest", "files", "path/to/telemetry/")
    rows = {table["name"]: table["rows"] for table in json.loads(neve(tmp_path, "tables", "--json"))}
    assert (rows["spans"], rows["logs"], rows["metrics"], rows["quarantine"]) == (7, 6, 3, 1)
    counted = neve(tmp_path, "query", "SELECT service_name, count(*) FROM spans GROUP BY ALL ORDER BY 2 DESC")
    assert counted.splitlines()[1].split() == ["cart", "7"]
    refused = neve(tmp_path, "query", "--json", "SELECT reason, detail, source FROM quarantine")
    assert json.loads(refused)["reason"] == "bad_time"
    assert "wrong" not in neve(tmp_path, "doctor")


def test_receive_it(tmp_path: Path) -> None:
    """Init, serve, an export over HTTP, and its rows are in the tables after a while; a stop ends it cleanly."""
    neve(tmp_path, "init")
    ports = ("--http-port", "--grpc-port", "--query-port", "--health-port")
    command = [NEVE, "serve", *(word for port in ports for word in (port, "0")), "--json"]
    # What tends an empty lake would only be in the way here; `neve up` is tried with all of it.
    only = {"NEVE_SERVE__ONLY": '["receiver", "ingest"]'}
    environment = {**os.environ, **only, "NEVE_INGEST__COMMIT_SECONDS": "1", "NEVE_RAW__SEGMENT_SECONDS": "0.5"}
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True) as serving:
        assert serving.stdout is not None
        address = json.loads(serving.stdout.readline())["http"]
        headers = {"Content-Type": "application/x-protobuf"}
        sent = Request(f"{address}/v1/traces", traces(7), headers)  # noqa: S310 - loopback
        with urlopen(sent, timeout=600) as answer:  # noqa: S310
            assert answer.status == 200
        until = time.monotonic() + 90
        while _rows(tmp_path, "spans") < 7:
            assert time.monotonic() < until, "the rows did not arrive"
            time.sleep(1)
        serving.terminate()
        assert serving.wait(600) == 0
    assert _rows(tmp_path, "spans") == 7


def _rows(folder: Path, table: str) -> int:
    found: int = {each["name"]: each["rows"] for each in json.loads(neve(folder, "tables", "--json"))}[table]
    return found
