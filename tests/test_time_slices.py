"""Threads of the receiver and of short queries preempt others when they wake up, and background work does not."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from neve import time_slices
from neve.api import serve_process
from neve.app.settings import Settings
from neve.app.wiring import build_lake
from neve.receive import examiners
from neve.time_slices import DEFAULT, SHORT_NANOSECONDS, current_time_slice, request_time_slices

if TYPE_CHECKING:
    from collections.abc import Iterator

CHILD = """
from neve.time_slices import DEFAULT, current_time_slice, request_time_slices
inherited = current_time_slice()
request_time_slices(DEFAULT)
print(inherited, current_time_slice())
"""


def in_thread(work: Any) -> Any:
    """Call something in a thread of its own, so that this one keeps its time slice."""
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(work()))
    thread.start()
    thread.join()
    return found[0]


@pytest.mark.skipif(current_time_slice() == 0, reason="this system does not tell the time slices of threads")
def test_threads_and_processes_inherit_the_time_slice() -> None:
    """It can be reset, and the niceness stays as it is."""
    before, niceness = current_time_slice(), os.getpriority(os.PRIO_PROCESS, 0)
    usual = in_thread(lambda: (request_time_slices(DEFAULT), current_time_slice())[1])

    def request() -> tuple[int, int, str]:
        assert request_time_slices(SHORT_NANOSECONDS)
        child = subprocess.run([sys.executable, "-c", CHILD], check=True, capture_output=True, text=True)
        assert os.getpriority(os.PRIO_PROCESS, 0) == niceness
        return current_time_slice(), in_thread(current_time_slice), child.stdout

    assert in_thread(request) == (SHORT_NANOSECONDS, SHORT_NANOSECONDS, f"{SHORT_NANOSECONDS} {usual}\n")
    assert current_time_slice() == before


@pytest.mark.parametrize(("system", "machine"), [("darwin", "x86_64"), ("linux", "unknown")])
def test_other_systems_are_left_alone(monkeypatch: pytest.MonkeyPatch, system: str, machine: str) -> None:
    """No system call is made whose number is not known."""
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr(platform, "machine", lambda: machine)
    monkeypatch.setattr(time_slices, "_call", lambda *_given: pytest.fail("a system call was made"))
    assert not request_time_slices(SHORT_NANOSECONDS)
    assert current_time_slice() == 0


@pytest.mark.parametrize("server", ["receiver", "api"])
def test_servers_request_short_time_slices_before_they_start_threads(
    monkeypatch: pytest.MonkeyPatch, server: str
) -> None:
    """Threads that are there already would keep the usual ones."""
    events: list[Any] = []

    @contextmanager
    def process(*_given: object) -> Iterator[None]:
        events.append("process")
        yield

    monkeypatch.setattr(serve_process, "request_time_slices", events.append)
    monkeypatch.setattr(serve_process, "_process", process)
    monkeypatch.setattr(serve_process, "_run_server", lambda *_given: 0)
    monkeypatch.setattr(os, "nice", lambda _niceness: None)
    settings = Settings()
    if server == "receiver":
        code = serve_process.run_receiver(settings, "one", lambda _addresses: None)
    else:
        code = serve_process.run_api(settings, build_lake(settings), "one", lambda _addresses: None)
    assert code == 0
    assert events == [SHORT_NANOSECONDS, "process"]


def test_processes_that_check_messages_have_usual_time_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """And a lower priority: the receiver comes first."""
    events: list[Any] = []
    monkeypatch.setattr(os, "nice", lambda niceness: events.append(("nice", niceness)))
    monkeypatch.setattr(examiners, "request_time_slices", lambda slice_: events.append(("slice", slice_)))
    monkeypatch.setattr(examiners, "serve_requests", lambda *_given: None)
    monkeypatch.setattr(sys, "argv", ["examiners", "1000"])
    examiners.main()
    assert events == [("nice", examiners.NICENESS), ("slice", DEFAULT)]


@pytest.mark.skipif(current_time_slice() == 0, reason="this system does not tell the time slices of threads")
def test_a_statement_of_low_priority_has_usual_time_slices() -> None:
    """The next one of full priority has short ones again, unless the process can't raise its priority any more."""
    code = (
        "from neve.query.engine.worker import PriorityControl as Control;"
        "from neve.time_slices import DEFAULT, current_time_slice as current, request_time_slices as request;"
        f"request(DEFAULT); usual = current(); request({SHORT_NANOSECONDS}); control = Control(0);"
        "first = current(); control.begin(5); second = current(); stays = control.end()['niceness'];"
        f"print(first == {SHORT_NANOSECONDS}, second == usual, current() == (usual if stays else first))"
    )
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert found.stdout.split() == ["True", "True", "True"]
