"""`neve serve` on the command line: what is asked of it, and what it says."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from neve.app.serve.config import ServeConfig
from neve.app.settings import Settings
from neve.cli.serve import PORT, serve
from neve.query.config import QueryConfig
from neve.receive.config import ReceiverConfig
from tests.cli.runner import run
from tests.parts.process import free_ports


@pytest.mark.parametrize("arguments", [[], ["--query"], ["--only", "ingest"], ["--only", "receiver,api"]])
def test_there_must_be_a_lake_to_take_it_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    """Found before a port is opened, with the remedy; only a receiver needs none."""
    monkeypatch.chdir(tmp_path)
    ended = run("serve", *arguments)
    assert (ended.code, ended.data) == (1, b"")
    assert "the lake has no tables\nhint: run `neve init`" in ended.errors


def test_an_open_receiver_is_refused_on_the_network() -> None:
    """With the keys that are wrong and the command that helps, before anything listens."""
    ended = run("serve", "--receiver", "--host", "0.0.0.0")  # noqa: S104 - it is refused
    assert (ended.code, ended.data) == (1, b"")
    assert "receiver.auth is 'open' and receiver.host is '0.0.0.0'" in ended.errors
    assert "neve keys create" in ended.errors
    assert not Path("lake").exists()


def test_an_address_for_the_doors_is_none_for_health(monkeypatch: pytest.MonkeyPatch) -> None:
    """`--host` opens the doors; health and metrics stay on loopback unless `serve.host` says otherwise."""
    found: list[Settings] = []

    def note(_context: object, settings: Settings, *_rest: object) -> int:
        found.append(settings)
        return 0

    monkeypatch.setattr("neve.cli.serve._run", note)
    monkeypatch.setenv("NEVE_RECEIVER__AUTH", "keys")
    assert run("serve", "--receiver", "--host", "0.0.0.0").code == 0  # noqa: S104 - nothing listens
    [settings] = found
    assert (settings.receiver.host, settings.query.host, settings.serve.host) == ("0.0.0.0", "0.0.0.0", "127.0.0.1")  # noqa: S104


@pytest.mark.parametrize("arguments", [["--receiver", "--query"], ["--receiver", "--only", "api"]])
def test_one_way_to_say_what_runs(arguments: list[str]) -> None:
    """Short forms do not mix with the long one."""
    ended = run("serve", *arguments)
    assert (ended.code, ended.data) == (2, b"")
    assert "exclude each other" in ended.errors


@pytest.mark.parametrize("names", ["cook", "receiver,cook", "", "receiver,"])
def test_a_part_that_there_is_not_is_refused(names: str) -> None:
    """With the names of those that there are."""
    ended = run("serve", "--only", names)
    assert (ended.code, ended.data) == (1, b"")
    assert "expected some of receiver, api, ingest, scheduler, compact, maintain" in ended.errors


@pytest.mark.lake
def test_a_taken_port_is_said_before_processes_are_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the group itself, which would otherwise start one again and again."""
    monkeypatch.chdir(tmp_path)
    assert run("init").code == 0
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        ended = run("serve", "--only", "receiver,api", "--health-port", "0", "--http-port", port)
    assert (ended.code, ended.data) == (1, b"")
    assert "set receiver.http_port, or stop " in ended.errors
    assert f"(pid {os.getpid()})" in ended.errors


@pytest.mark.lake
@pytest.mark.parametrize("arguments", [[], ["--only", "receiver,compact"], ["--only", "compact"]])
def test_a_wrong_policy_is_said_before_processes_are_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    """With its file, by the group itself, which would otherwise start one again and again."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "night.yaml").write_text("name: night\ntasks: {compact: {cron: sometimes}}\n")
    monkeypatch.setenv("NEVE_POLICIES_FOLDER", "policies")
    assert run("init").code == 0
    ended = run("serve", *arguments)
    assert (ended.code, ended.data) == (1, b"")
    assert "night.yaml: policy 'night': tasks.compact.cron" in ended.errors


@pytest.mark.lake
def test_a_bus_that_does_not_fit_is_said_before_processes_are_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where somebody would use it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NEVE_BUS__KIND", "kafka")
    assert run("init").code == 0
    ended = run("serve", "--only", "receiver,compact")
    assert (ended.code, ended.data) == (1, b"")
    assert "bus.bootstrap_servers is empty" in ended.errors


def test_options_stand_for_settings() -> None:
    """Each has the bounds of its setting."""
    schema = ReceiverConfig.model_json_schema()["properties"]
    for name in ("http_port", "grpc_port"):
        assert (schema[name]["minimum"], schema[name]["maximum"]) == (PORT.min, PORT.max)
    for section in (QueryConfig, ServeConfig):
        port = section.model_json_schema()["properties"]["port"]
        assert (port["minimum"], port["maximum"]) == (PORT.min, PORT.max)
    assert {"host", "http_port", "grpc_port", "query_port", "health_port"} <= {param.name for param in serve.params}


@pytest.mark.parts
@pytest.mark.parametrize("as_json", [False, True])
def test_it_says_where_it_listens_and_ends_when_told(tmp_path: Path, as_json: bool) -> None:
    """One line on standard output, JSON lines on standard error, exit code 0."""
    http, grpc = free_ports(2)
    neve = str(Path(sys.executable).with_name("neve"))
    command = [neve, "serve", "--receiver", "--http-port", str(http), "--grpc-port", str(grpc)]
    process = subprocess.Popen(
        [*command, *(["--json"] if as_json else [])],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    first = process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    rest, errors = process.communicate(timeout=600)
    assert process.returncode == 0
    if as_json:
        assert json.loads(first + rest) == {
            "http": f"http://127.0.0.1:{http}",
            "grpc": f"127.0.0.1:{grpc}",
            "query": None,
            "health": f"http://127.0.0.1:{http}",
            "auth": "open",
        }
    else:
        assert (first + rest) == (
            f"receiving OTLP/HTTP on http://127.0.0.1:{http} and OTLP/gRPC on 127.0.0.1:{grpc} "
            "for organization default\n"
        )
    assert [json.loads(line)["event"].partition(",")[0] for line in errors.splitlines()] == ["stopping", "stopped"]
