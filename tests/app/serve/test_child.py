"""Processes as parts: little ones, that do as they are told or not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from neve.app.serve.part import PartState
from neve.app.serve.process_group import ChildProcess, Launch, ParentPipe
from neve.app.serve.supervisor import Supervisor
from neve.errors import NeveError
from tests.app.serve.little import QUICK, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

READY = "import json, sys, time; print('hello'); print(json.dumps({'http': 'there'}), flush=True);"
WELL = "import signal; signal.signal(signal.SIGTERM, lambda *_: sys.exit(0));"
BADLY = "import signal; signal.signal(signal.SIGTERM, lambda *_: sys.exit(3));"
DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
WAIT = "time.sleep(3600)"
CHILD = """
import signal, sys, time
from neve.app.serve.process_group import stop_with_parent
def end(*_):
    print("finished", flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
stop_with_parent(int(sys.argv[1]))
print("ready", flush=True)
time.sleep(3600)
"""
PARENT = f"""
import subprocess, sys, time
from neve.app.serve.process_group import ParentPipe
lifeline = ParentPipe()
subprocess.Popen([sys.executable, "-c", {CHILD!r}, str(lifeline.far_end)], pass_fds=[lifeline.far_end])
time.sleep(3600)
"""

HARD_OF_HEARING = CHILD.replace("signal.signal(signal.SIGTERM, end)", "signal.signal(signal.SIGTERM, signal.SIG_IGN)")
HASTY = HARD_OF_HEARING.replace("int(sys.argv[1])", "int(sys.argv[1]), 0.2")


@pytest.fixture
def lifeline() -> Iterator[ParentPipe]:
    """What children hold on to."""
    with ParentPipe() as held:
        yield held


def child(lifeline: ParentPipe, code: str, patience: float = 600.0) -> ChildProcess:
    """A process that runs some Python."""
    return ChildProcess("little", [sys.executable, "-c", code], os.environ, lifeline.far_end, patience)


def test_a_process_runs_until_it_is_told_to_stop(lifeline: ParentPipe, capfd: pytest.CaptureFixture[str]) -> None:
    """It is running when it says that it is ready; what else it prints is no answer of ours."""
    household = Supervisor([child(lifeline, f"import sys;{WELL}{READY}{WAIT}")], QUICK)
    household.start()
    wait_until(lambda: household.is_running)
    (status,) = household.statuses()
    assert status.details["http"] == "there"
    assert os.getpgid(int(str(status.details["pid"]))) == os.getpgid(0)
    assert household.stop()
    out, err = capfd.readouterr()
    assert "hello" in err
    assert "hello" not in out


@pytest.mark.parametrize(
    ("code", "words"),
    [("raise SystemExit(7)", "exit code 7"), ("pass", "exit code 0"), ("import os; os.abort()", "SIGABRT")],
)
def test_a_process_that_ends_by_itself_has_failed(lifeline: ParentPipe, code: str, words: str) -> None:
    """However it ended, in words."""
    with pytest.raises(NeveError, match=f"the process little ended: {words}"):
        child(lifeline, code).run(threading.Event(), lambda _details: None)


def test_a_command_that_can_not_be_started_has_failed(lifeline: ParentPipe) -> None:
    """As any other part that is to be tried again."""
    patient = QUICK.model_copy(update={"restart_first_seconds": 3600.0, "restart_most_seconds": 3600.0})
    household = Supervisor([ChildProcess("little", ["/nowhere/neve"], {}, lifeline.far_end, 1.0)], patient)
    household.start()
    wait_until(lambda: household.statuses()[0].state == PartState.FAILED)
    assert household.statuses()[0].error == "the process little can't be started: No such file or directory"
    assert household.stop()


@pytest.mark.parametrize(("habit", "patience", "words"), [(DEAF, 0.2, "SIGKILL"), (BADLY, 600.0, "exit code 3")])
def test_a_process_that_does_not_end_well(lifeline: ParentPipe, habit: str, patience: float, words: str) -> None:
    """One that does not end in time is killed; either is seen at the end."""
    household = Supervisor([child(lifeline, f"import sys;{habit}{READY}{WAIT}", patience)], QUICK)
    household.start()
    wait_until(lambda: household.is_running)
    assert not household.stop()
    (status,) = household.statuses()
    assert (status.state, status.error) == (PartState.FAILED, f"the process little ended: {words}")


def test_a_process_that_is_told_before_it_is_ready_ends_well(lifeline: ParentPipe) -> None:
    """It has nothing to finish, so it may die of it."""
    household = Supervisor([child(lifeline, f"import time;{WAIT}")], QUICK)
    household.start()
    wait_until(lambda: household.statuses()[0].state == PartState.STARTED)
    assert household.stop()


def test_a_process_that_is_killed_is_started_again(lifeline: ParentPipe) -> None:
    """The other one is the same as before."""
    code = f"import sys;{WELL}{READY}{WAIT}"
    household = Supervisor([replace(child(lifeline, code), name=name) for name in ("one", "two")], QUICK)
    household.start()
    wait_until(lambda: household.is_running)
    before = [int(str(status.details["pid"])) for status in household.statuses()]
    os.kill(before[0], signal.SIGKILL)
    wait_until(lambda: household.statuses()[0].restarts == 1 and household.is_running)
    one, two = household.statuses()
    assert (one.error, one.details["pid"] == before[0]) == ("the process one ended: SIGKILL", False)
    assert (two.error, two.details["pid"], two.restarts) == ("", before[1], 0)
    assert household.stop()


@pytest.mark.slow
def test_no_process_outlives_its_parent() -> None:
    """However the parent ends, its children are told to stop, and can finish what they have begun."""
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "ready\n"
        parent.kill()
        assert parent.stdout.read().endswith("finished\n")  # the child's own words: it held the pipe for longest


@pytest.mark.slow
def test_an_orphan_that_does_not_end_is_ended() -> None:
    """Whoever takes its parent's place waits for what it holds."""
    parents = PARENT.replace(repr(CHILD), repr(HASTY))
    with subprocess.Popen([sys.executable, "-c", parents], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "ready\n"
        parent.kill()
        assert "finished\n" not in parent.stdout.read().splitlines(
            keepends=True
        )  # which ends with the last process that holds it


@pytest.mark.parametrize(("config", "named"), [(None, []), ("conf/neve.yaml", ["--config", "conf/neve.yaml"])])
def test_processes_are_started_by_the_same_interpreter(config: str | None, named: list[str]) -> None:
    """With the configuration of the group, as members of it."""
    environment: Mapping[str, str] = {}
    assert Launch(config, "host-1", environment).command(["ingest", "tail"], 5) == [
        *(sys.executable, "-m", "neve", *named, "serve", "--json", "--only", "ingest,tail"),
        *("--instance", "host-1", "--lifeline", "5"),
    ]


def test_a_receiver_takes_any_port_for_those_who_watch() -> None:
    """The one that is set is taken by another process of the group."""
    assert Launch(None, "host-1").command(["receiver"], 5)[-2:] == ["--health-port", "0"]
