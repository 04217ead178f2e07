"""Ctrl-C ends a query: outside the prompt the command, at the prompt the statement."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from neve.cli.querying.query_target import LocalTarget, wait_for
from neve.cli.terminal.prompt import Prompt
from neve.query.config import QueryConfig
from neve.query.request import Request
from neve.query.service import QueryService, no_limits
from tests.query.lakes import ACME, make_lake

if TYPE_CHECKING:
    from collections.abc import Iterator

NEVE = str(Path(sys.executable).with_name("neve"))
LONG = "SELECT count(*) FROM range(100000000000) AS a, range(1000000) AS b"
ENDLESS = "SELECT n FROM range(100000000000) AS r(n)"


@pytest.fixture(autouse=True)
def ctrl_c() -> Iterator[None]:
    """Heard also where the tests run in a shell's background, which has its processes ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def here(tmp_path: Path, iceberg: None) -> Iterator[LocalTarget]:
    """A service of this process."""
    service = QueryService(make_lake(tmp_path), QueryConfig(threads=1), limits=no_limits)
    yield LocalTarget(service)
    service.close()


def press_when_running(here: LocalTarget) -> None:
    """Ctrl-C, as soon as there is something that runs."""

    def press() -> None:
        while not here.service.running(ACME):
            time.sleep(0.01)
        time.sleep(0.3)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=press, daemon=True).start()


def ended(here: LocalTarget) -> bool:
    """Whether all that ran does so no longer, soon."""
    until = time.monotonic() + 600
    while here.service.running(ACME) and time.monotonic() < until:
        time.sleep(0.01)
    return not here.service.running(ACME)


def await_the_engine(pid: int) -> None:
    """Return when a process works on a query: DuckDB is loaded, and has had some time of the processor."""
    process = psutil.Process(pid)
    while not any("duckdb" in one.path for one in process.memory_maps()):
        time.sleep(0.05)
    began = process.cpu_times().user
    while process.cpu_times().user < began + 3:
        time.sleep(0.05)


@pytest.mark.long
@pytest.mark.parametrize("options", [(), ("--format", "csv", "-o", "out.csv")])
def test_the_command_stops(config: str, options: tuple[str, ...]) -> None:
    """With an exit code and a word, not with a traceback; while it waits for rows and while it writes them."""
    process = subprocess.Popen(
        [NEVE, "-c", config, "query", ENDLESS if options else LONG, *options],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        await_the_engine(process.pid)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=600)
    finally:
        process.kill()
    assert (process.returncode, errors.strip()) == (130, "stopped")


def test_a_statement_at_the_prompt_stops(here: LocalTarget, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """And the next one is answered."""
    monkeypatch.setattr("click.get_app_dir", lambda _name: str(tmp_path / "history"))
    found: list[object] = []
    press_when_running(here)
    with create_pipe_input() as typed, create_app_session(input=typed, output=DummyOutput()):
        typed.send_text(f"{LONG};\rSELECT 42 AS n;\r\\q\r")
        show = lambda request, _told: found.append(here.ask(request).reader.read_all().to_pylist())  # noqa: E731
        Prompt(here, Request("", ACME), show).run()
    assert found == [[{"n": 42}]]
    assert ended(here)


def test_rows_that_are_read_stop(here: LocalTarget) -> None:
    """Behind the first of them too; nothing runs on."""
    reader = here.ask(Request(ENDLESS, ACME)).reader
    reader.read_next_batch()
    press_when_running(here)
    with pytest.raises(KeyboardInterrupt):
        for _ in reader:
            pass
    del reader
    assert ended(here)


def test_who_reads_no_further_ends_the_query(here: LocalTarget) -> None:
    """As a table of the first rows does."""
    reader = here.ask(Request(ENDLESS, ACME)).reader
    reader.read_next_batch()
    del reader
    assert ended(here)


def test_a_query_on_the_main_thread_stops(here: LocalTarget) -> None:
    """Of those who ask without another thread: what DuckDB makes of Ctrl-C is Ctrl-C again."""
    press_when_running(here)
    with pytest.raises(KeyboardInterrupt):
        here.service.start(Request(LONG, ACME))


def test_what_is_waited_for_is_returned_or_raised() -> None:
    """As if it had been called."""
    assert wait_for(lambda: 7, lambda: None) == 7
    with pytest.raises(ZeroDivisionError):
        wait_for(lambda: 1 // 0, lambda: None)
