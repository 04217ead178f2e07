"""A group of little processes, as those who watch see it."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from prometheus_client.parser import text_string_to_metric_families

from neve.app.serve import group_monitor
from neve.app.serve.group_monitor import GroupMonitor
from neve.app.serve.process_group import ChildProcess, ParentPipe
from neve.app.serve.supervisor import Supervisor
from tests.app.serve.little import QUICK, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from neve.http_client import HttpReply

PROCESSES = {"receiver": ("receiver",), "tend": ("ingest", "tail")}
PARTS = (
    '{"status": "healthy", "parts": ['
    '{"process": "tend", "name": "ingest", "state": "running", "error": ""},'
    '{"process": "tend", "name": "tail", "state": "failed", "error": "no policies"}]}'
)
ALIVE = '{"status": "alive"}'
FULL = '{"status": "unhealthy", "problems": ["the disk is full"]}'
READY = '{"status": "not ready", "reason": "the disk is full"}'
LITTLE = """
import json, os, signal, sys, time
from http.server import BaseHTTPRequestHandler, HTTPServer
answers = dict(zip(["/healthz", "/readyz", "/metrics"], sys.argv[1:]))
class Door(BaseHTTPRequestHandler):
    def do_GET(self):
        time.sleep(float(os.environ.get("SLOW_SECONDS", 0)) if self.path == "/metrics" else 0)
        is_group = (self.headers["x-neve-group"], self.headers["host"]) == ("word", "localhost")
        self.send_response(200 if is_group and self.path in answers else 404)
        self.end_headers()
        self.wfile.write(answers[self.path].encode() if is_group else b"{}")
    def log_message(self, *_):
        pass
server = HTTPServer(("127.0.0.1", 0), Door)
signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
print(json.dumps({"health": f"http://127.0.0.1:{server.server_port}"}), flush=True)
server.serve_forever()
"""


def counted(number: int) -> str:
    """What a process counts."""
    return f"# HELP neve_things_total things\n# TYPE neve_things_total counter\nneve_things_total {number}\n"


@contextmanager
def watched() -> Iterator[GroupMonitor]:
    """A receiver that is under pressure, and a process of two parts of which one has failed; both know their group."""
    answers = {"receiver": [FULL, READY, counted(3)], "tend": [PARTS, ALIVE, counted(4)]}
    with ParentPipe() as lifeline:
        household = Supervisor(
            [
                ChildProcess(name, [sys.executable, "-c", LITTLE, *said], os.environ, lifeline.far_end, 600.0)
                for name, said in answers.items()
            ],
            QUICK.model_copy(update={"restart_first_seconds": 3600.0, "restart_most_seconds": 3600.0}),
        )
        household.start()
        try:
            wait_until(lambda: household.is_running)
            yield GroupMonitor(PROCESSES, household, token="word")  # noqa: S106
        finally:
            household.stop()


def numbers(watch: GroupMonitor, name: str) -> dict[str, float]:
    """A metric of each process."""
    families = text_string_to_metric_families(watch.collect_metrics().decode())
    return {
        sample.labels["process"]: sample.value
        for family in families
        for sample in family.samples
        if sample.name == name
    }


def give_time_to_all_but_hung(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Wait for answers as long as they take, except for those of the addresses that the test adds to the list."""
    hung: list[str] = []
    get = GroupMonitor._get

    def get_patiently(watch: GroupMonitor, url: str, _seconds: float) -> HttpReply | None:
        return get(watch, url, 0.5 if url.startswith(tuple(hung)) else 600)

    monkeypatch.setattr(GroupMonitor, "_get", get_patiently)
    return hung


@pytest.mark.slow
def test_what_processes_say_is_put_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts, pressure and metrics of all; what is killed or hangs is said, and hides nothing of the others."""
    hung = give_time_to_all_but_hung(monkeypatch)
    with watched() as watch:
        sight = watch.look()
        assert [(part["name"], part["state"]) for part in sight.parts] == [
            ("receiver", "running"),
            ("ingest", "running"),
            ("tail", "failed"),
        ]
        assert sight.problems == ["receiver (running, degraded): the disk is full", "tail (failed): no policies"]
        assert sight.unready == ["tail (failed): no policies", "receiver: the disk is full"]
        assert numbers(watch, "neve_things_total") == {"receiver": 3, "tend": 4}
        assert watch.supervisor is not None
        receiver, tend = (int(str(status.details["pid"])) for status in watch.supervisor.statuses())
        os.kill(receiver, signal.SIGSTOP)
        hung.append(str(watch.supervisor.statuses()[0].details["health"]))
        assert "receiver (no heartbeat)" in watch.look().problems[0]
        assert numbers(watch, "neve_things_total") == {"tend": 4}
        os.kill(receiver, signal.SIGCONT)
        hung.clear()
        os.kill(tend, signal.SIGKILL)
        wait_until(lambda: not watch.supervisor.is_running)  # type: ignore[union-attr]
        ended = "the process tend ended: SIGKILL"
        assert watch.look().problems[1:] == [f"ingest (failed): {ended}", f"tail (failed): {ended}"]
        assert numbers(watch, "neve_serve_up") == {"receiver": 1, "tend": 0}
        assert numbers(watch, "neve_serve_scrape_failures_total") == {"receiver": 1, "tend": 0}
        assert numbers(watch, "neve_things_total") == {"receiver": 3}


@pytest.mark.slow
def test_who_counts_slowly_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Longer than for a look, as some of what is counted is looked up in storage."""
    monkeypatch.setattr(group_monitor, "LOOK_SECONDS", 0.5)
    monkeypatch.setattr(group_monitor, "SCRAPE_SECONDS", 600)
    monkeypatch.setenv("SLOW_SECONDS", "0.7")
    with watched() as watch:
        assert numbers(watch, "neve_things_total") == {"receiver": 3, "tend": 4}
        assert numbers(watch, "neve_serve_scrape_failures_total") == {"receiver": 0, "tend": 0}


def test_before_there_are_processes() -> None:
    """Nothing is ill, and the group counts itself."""
    watch = GroupMonitor(PROCESSES)
    assert (watch.look().parts, watch.look().unready) == ([], ["the processes are starting"])
    assert b'process_resident_memory_bytes{process="group"}' in watch.collect_metrics()
