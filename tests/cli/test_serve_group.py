"""`neve serve` as a process group: what is killed comes back where it was, and all of it ends together."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import psutil
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from neve.app.settings import Settings
from neve.app.wiring import build_documents, build_lake
from neve.jobs.status_board import StatusBoard
from neve.lake.tables import init_tables
from tests.app.serve.little import wait_until
from tests.telemetry import traces

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.long
PATIENCE_SECONDS = 600.0  # ends a test that hangs, and no other
QUESTION = json.dumps({"sql": "SELECT 42 AS answer"}).encode()


@dataclass(frozen=True)
class Service:
    """A group that runs: its first process, what it said, and its settings."""

    process: subprocess.Popen[str]
    said: dict[str, Any]
    settings: Settings
    log: Path

    def get(self, path: str) -> tuple[int, str]:
        """What those who watch see."""
        try:
            with urlopen(f"{self.said['health']}{path}", timeout=600) as answer:  # noqa: S310 - loopback
                return answer.status, answer.read().decode()
        except HTTPError as error:
            return error.code, error.read().decode()

    def parts(self) -> dict[str, dict[str, Any]]:
        """The parts that those who watch see, by their names."""
        return {part["name"]: part for part in json.loads(self.get("/healthz")[1])["parts"]}

    def pid(self, part: str) -> int:
        """The process of a part."""
        return int(self.parts()[part]["details"]["pid"])

    def metric(self, name: str, process: str) -> float:
        """A number that a process has."""
        return next(
            sample.value
            for family in text_string_to_metric_families(self.get("/metrics")[1])
            for sample in family.samples
            if sample.name == name and sample.labels["process"] == process
        )

    def is_well(self) -> bool:
        """Whether all of it is ready and healthy."""
        return self.get("/readyz")[0] == self.get("/healthz")[0] == 200


def answers(request: Request) -> bool:
    """Whether a request is answered with success."""
    try:
        with urlopen(request, timeout=600) as answer:  # noqa: S310 - loopback
            return bool(answer.status == 200)
    except (URLError, ConnectionError):
        return False


def export(service: Service) -> Request:
    """Some spans for the receiver."""
    return Request(f"{service.said['http']}/v1/traces", traces(3), {"Content-Type": "application/x-protobuf"})  # noqa: S310


def question(service: Service) -> Request:
    """A question for the API."""
    return Request(f"{service.said['query']}/api/v1/query", QUESTION, {"Content-Type": "application/json"})  # noqa: S310


@contextmanager
def served(folder: Path) -> Iterator[Service]:
    """`neve serve --only receiver,api` on free ports; killed at the end where it still runs, with its children."""
    config = {
        "organization": "acme",
        "lake": {"warehouse": str(folder / "warehouse")},
        "catalog": {"path": str(folder / "catalog.db")},
        "state": {"path": str(folder / "state.db")},
        "raw": {"location": str(folder / "raw"), "min_free_bytes": 0},
        "receiver": {"http_port": 0, "grpc_port": 0},
        "query": {"port": 0, "log": False},
        "serve": {"port": 0, "restart_first_seconds": 0.1},
    }
    (folder / "neve.yaml").write_text(yaml.safe_dump(config))
    settings = Settings.model_validate(config)
    init_tables(build_lake(settings))
    command = [sys.executable, "-m", "neve", "-c", "neve.yaml", "serve", "--only", "api,receiver", "--json"]
    log = folder / "log"
    with log.open("w") as errors:
        process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=errors, text=True)
    assert process.stdout is not None
    family = psutil.Process(process.pid)
    try:
        line = process.stdout.readline()
        assert line, log.read_text()
        yield Service(process, json.loads(line), settings, log)
    finally:
        for child in family.children() if process.poll() is None else []:
            child.kill()
        process.kill()
        process.communicate()


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory, iceberg: None) -> Iterator[Service]:
    """A group that the tests of this module share, in their order."""
    with served(tmp_path_factory.mktemp("group")) as running:
        yield running


def test_all_doors_are_open_when_it_says_so(service: Service) -> None:
    """One line says where each is; health and metrics are those of all."""
    assert [*service.said] == ["http", "grpc", "query", "health", "auth"]
    assert answers(export(service))
    assert answers(question(service))
    assert service.get("/livez") == (200, '{"status":"alive"}')
    assert service.is_well()
    assert {name: part["state"] for name, part in service.parts().items()} == {"receiver": "running", "api": "running"}


def test_metrics_of_all_processes_are_one_text(service: Service) -> None:
    """Each sample says of which process it is; each family is there once."""
    families = [*text_string_to_metric_families(service.get("/metrics")[1])]
    assert len({family.name for family in families}) == len(families)
    named = {(sample.name, sample.labels["process"]): sample.value for family in families for sample in family.samples}
    for process in ("receiver", "api"):
        assert named["neve_serve_up", process] == 1
        assert named["neve_serve_restarts_total", process] == 0
        assert named["process_resident_memory_bytes", process] > 1e6
    assert named["neve_receiver_records_total", "receiver"] >= 3
    assert ("process_resident_memory_bytes", "group") in named


def test_the_board_knows_the_parts(service: Service) -> None:
    """Each says of itself to which group it belongs, and the group how each process is."""
    documents = build_documents(service.settings)
    reports = StatusBoard(documents).all()
    documents.close()
    assert {(report.process, report.name, report.state, report.pid) for report in reports} == {
        *((name, name, "running", service.pid(name)) for name in ("receiver", "api")),
        *(("group", name, "running", service.process.pid) for name in ("receiver", "api")),
    }
    assert len({report.instance for report in reports}) == 1


def test_a_receiver_that_is_killed_comes_back_where_it_was(service: Service) -> None:
    """At the same addresses, counted; the API has answered all the time."""
    killed, other = service.pid("receiver"), service.pid("api")
    os.kill(killed, signal.SIGKILL)
    wait_until(lambda: service.get("/healthz")[0] == 503, PATIENCE_SECONDS)
    _while_waiting_for(lambda: answers(export(service)), lambda: answers(question(service)))
    wait_until(service.is_well, PATIENCE_SECONDS)
    assert service.pid("receiver") != killed
    assert service.parts()["receiver"]["error"] == "the process receiver ended: SIGKILL"
    assert service.pid("api") == other
    assert service.metric("neve_serve_restarts_total", "receiver") == 1
    documents = build_documents(service.settings)
    told = {report.name: report for report in StatusBoard(documents).all() if report.process == "group"}
    documents.close()
    assert (told["receiver"].restarts, told["receiver"].error) == (1, "the process receiver ended: SIGKILL")
    assert (told["api"].restarts, told["api"].error) == (0, "")
    assert service.metric("neve_serve_restarts_total", "api") == 0


def test_a_process_that_hangs_is_lost(service: Service) -> None:
    """It is there and does not answer: the others are seen all the same, and that it is missing is counted."""
    held = service.pid("api")
    os.kill(held, signal.SIGSTOP)
    try:
        status, body = service.get("/healthz")
        states = {part["name"]: part["state"] for part in json.loads(body)["parts"]}
        assert (status, states) == (503, {"receiver": "running", "api": "no heartbeat"})
        assert service.metric("neve_serve_scrape_failures_total", "api") == 1
    finally:
        os.kill(held, signal.SIGCONT)
    wait_until(service.is_well, PATIENCE_SECONDS)


def test_all_of_it_ends_when_told(service: Service) -> None:
    """Every process drains; exit code 0, nothing is left, and the last word of each is that it has stopped."""
    pids = [service.pid(part) for part in ("receiver", "api")]
    service.process.send_signal(signal.SIGTERM)
    rest, _ = service.process.communicate(timeout=PATIENCE_SECONDS)
    assert (service.process.returncode, rest) == (0, "")
    assert not any(map(psutil.pid_exists, pids))
    documents = build_documents(service.settings)
    assert {report.state for report in StatusBoard(documents).all()} == {"stopped"}
    documents.close()


@pytest.mark.lake
def test_no_process_outlives_the_first_one(tmp_path: Path) -> None:
    """When it is killed, the others notice, and drain as if they were told to."""
    with served(tmp_path) as service:
        family = [psutil.Process(service.pid(part)) for part in ("receiver", "api")]
        service.process.kill()
        assert psutil.wait_procs(family, PATIENCE_SECONDS)[1] == []
        events = [json.loads(line)["event"] for line in service.log.read_text().splitlines()]
        assert events.count("parent process ended, stopping") == events.count("stopped") == 2


def _while_waiting_for(happened: Callable[[], bool], holds: Callable[[], bool]) -> None:
    """Return when something has happened; something else must hold until then."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not happened():
        assert holds()
        assert time.monotonic() < deadline
        time.sleep(0.1)
