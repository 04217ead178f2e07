"""The receiver's threads preempt others when they wake up, and its helper processes do not."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from neve.api import serve_process
from neve.app.settings import Settings
from neve.receive import examiners, time_slices
from neve.receive.time_slices import DEFAULT, SHORT_NANOSECONDS, current_time_slice, request_time_slices

if TYPE_CHECKING:
    from collections.abc import Iterator

CHILD = """
from neve.receive.time_slices import DEFAULT, current_time_slice, request_time_slices
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


def test_the_receiver_requests_short_time_slices_before_it_starts_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads that are there already would keep the usual ones."""
    events: list[Any] = []

    @contextmanager
    def process(*_given: object) -> Iterator[None]:
        events.append("process")
        yield

    monkeypatch.setattr(serve_process, "request_time_slices", events.append)
    monkeypatch.setattr(serve_process, "_process", process)
    monkeypatch.setattr(serve_process, "_run_server", lambda *_given: 0)
    assert serve_process.run_receiver(Settings(), "one", lambda _addresses: None) == 0
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
