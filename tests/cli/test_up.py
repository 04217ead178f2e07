"""`neve up`: the demo's lake in service, with a shop that sends to it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import psutil
import pytest
import yaml

from neve.app.demo import server as demo_server
from neve.app.demo.demo import DemoFolder, demo_settings
from neve.app.demo.server import explain_delay, prepare, run_server, service_settings
from neve.app.settings import load_settings
from neve.cli.main import neve
from neve.cli.up import SUGGESTED_COMMANDS, format_sent, format_stop, list_addresses
from neve.demo.live import SentTotals
from neve.errors import NeveError
from neve.model.signals import Signal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

UP = "from neve.cli.up import up; up()"
# The two parts that need no JVM, on ports that are free.
LIGHT = {
    "NEVE_SERVE__ONLY": '["receiver", "api"]',
    "NEVE_SERVE__PORT": "0",
    "NEVE_RECEIVER__HTTP_PORT": "0",
    "NEVE_RECEIVER__GRPC_PORT": "0",
    "NEVE_QUERY__PORT": "0",
}


def test_a_service_keeps_everything_in_the_demos_folder(tmp_path: Path) -> None:
    """Its tables are the demo's; what a service needs beside them is not where it happens to be started."""
    place = DemoFolder(tmp_path / "demo")
    before = demo_settings(place)
    values = service_settings(place)
    config = tmp_path / "up.yaml"
    config.write_text(yaml.safe_dump(values))
    settings = load_settings(str(config), {})
    assert settings.lake == before.lake
    assert settings.catalog == before.catalog
    assert settings.state == before.state
    for location in (settings.raw.location, settings.ingest.checkpoints):
        assert Path(location).is_relative_to(place.folder.resolve())
    assert settings.rules.files == {settings.organization: (str(place.rules.resolve()),)}
    assert settings.compact.hot_seconds > 0, "the files that are being written would be rewritten"


@pytest.mark.lake
def test_a_lake_is_made_where_there_is_none(tmp_path: Path) -> None:
    """With its tables, and nothing in them; the demo's own configuration stays the demo's."""
    config = prepare(tmp_path / "demo")
    assert config == tmp_path / "demo" / "up.yaml"
    assert prepare(tmp_path / "demo") == config
    assert load_settings(str(tmp_path / "demo" / "neve.yaml"), {}).compact.hot_seconds == 0


@pytest.mark.slow
def test_a_service_that_does_not_start_is_an_error_that_names_its_log(tmp_path: Path) -> None:
    """Instead of a wait without end."""
    log = tmp_path / "serve.log"
    with (
        pytest.raises(NeveError, match="ended with 1 before it was ready") as raised,
        run_server(tmp_path / "no.yaml", log, threading.Event(), print),
    ):
        pass
    assert str(log) in str(raised.value)
    assert "no.yaml does not exist" in log.read_text()


@contextmanager
def starting(log: Path, *said: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    """A service that logs something, and never listens."""
    lines = "\n".join(map(json.dumps, said))
    log.touch()
    code = f"import sys, time; time.sleep(0.3); print({lines!r}, file=sys.stderr, flush=True); time.sleep(600)"
    with log.open("a") as errors:
        command = [sys.executable, "-c", code]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
    with process:
        try:
            yield process
        finally:
            process.kill()


def test_what_is_late_is_told_until_it_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Again and again, with what it waits for and where the log is; Ctrl+C is heard while it waits."""
    monkeypatch.setattr(demo_server, "LATE_SECONDS", 0.5)
    log, told, stopped = tmp_path / "serve.log", list[str](), threading.Event()

    def tell(words: str) -> None:
        told.append(words)
        if len(told) == 3:
            stopped.set()

    failed = {"event": "part failed", "part": "tend", "error": "the process tend ended: exit code 1"}
    with starting(log, {"error": "no Java was found", "hint": "install it"}, failed) as process:
        assert demo_server.await_addresses(process, log, stopped, tell) is None
    assert len(told) == 3
    assert told[-1].startswith("not ready after ")
    assert told[-1].endswith(f" s, waiting for tend: no Java was found; the log is {log}")


def test_who_is_late_is_named_by_what_the_group_says_last() -> None:
    """Lines of others mean nothing."""
    assert explain_delay(["Traceback", "[]", '{"event": "process started"}']) == ""
    late = [json.dumps({"event": "processes are not ready", "waiting_for": {"api": "failed", "tend": "started"}})]
    assert explain_delay(late) == "waiting for api, tend"


@pytest.mark.lake
def test_it_is_stopped_before_it_listens(tmp_path: Path) -> None:
    """The service that was started ends, and nothing is told."""
    stopped = threading.Event()
    stopped.set()
    others = psutil.Process().children()
    with run_server(prepare(tmp_path / "demo"), tmp_path / "serve.log", stopped, pytest.fail) as service:
        [child] = [one for one in psutil.Process().children() if one not in others]
        assert service is None
    assert not child.is_running()


def test_every_address_is_told() -> None:
    """Those that there are."""
    everything = {"http": "http://h:1", "grpc": "h:2", "query": "http://h:3", "health": "http://h:4"}
    assert list_addresses(everything) == [
        ("web page", "http://h:3/"),
        ("OTLP/HTTP", "http://h:1"),
        ("OTLP/gRPC", "h:2"),
        ("query API", "http://h:3"),
        ("described at", "http://h:3/api/v1/openapi.json"),
        ("health", "http://h:4/healthz"),
        ("metrics", "http://h:4/metrics"),
    ]
    assert list_addresses({"http": "http://h:1", "grpc": None, "query": None}) == [("OTLP/HTTP", "http://h:1")]


@pytest.mark.parametrize("words", SUGGESTED_COMMANDS)
def test_what_it_says_to_try_are_commands(words: str) -> None:
    """Whole ones: a group of commands would only print its help."""
    context = click.Context(neve, help_option_names=["-h", "--help"])
    command: click.Command | None = neve
    for word in words.split():
        if not isinstance(command, click.Group):
            break
        command = command.get_command(context, word)
    assert command is not None
    assert not isinstance(command, click.Group)


def test_what_was_sent_is_told_with_what_went_wrong() -> None:
    """Nothing is dropped in silence."""
    sent = SentTotals(records={**dict.fromkeys(Signal, 0), Signal.LOGS: 1200}, messages=3)
    assert format_sent(sent) == "1,200 records acknowledged in 3 messages"
    assert format_stop(sent) == f"stopped: {format_sent(sent)}; run it again to continue with the same lake"
    sent = SentTotals(messages=3, retries=2, refused=1, refusals=["logs: HTTP 400"])
    assert (
        format_sent(sent)
        == "0 records acknowledged in 3 messages, sent again 2 times, 1 message refused: logs: HTTP 400"
    )


@pytest.mark.e2e
def test_it_serves_and_sends_until_it_is_told_to_stop(tmp_path: Path) -> None:
    """The shop's records are acknowledged, Ctrl+C ends both in order, and nothing is left running."""
    process = subprocess.Popen(
        [sys.executable, "-c", UP, "--rate", "100", "--json"],
        cwd=tmp_path,
        env={**os.environ, **LIGHT},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    first: dict[str, Any] = json.loads(process.stdout.readline())
    started = psutil.Process(process.pid).children(recursive=True)
    raw = tmp_path / "demo" / "lake" / "raw"
    _await(lambda: any(raw.rglob("*.raw")))
    process.send_signal(signal.SIGINT)
    rest, _ = process.communicate(timeout=600)
    assert process.returncode == 0
    last = json.loads(rest)
    assert first["http"].startswith("http://127.0.0.1:")
    assert Path(first["config"]).name == "up.yaml"
    assert sum(last["records"].values()) > 0
    assert last["refused"] == 0
    assert not [one for one in started if one.is_running() and one.status() != psutil.STATUS_ZOMBIE]


def _await(happened: Callable[[], bool], seconds: float = 600.0) -> None:
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.1)
