"""A part is handed over only when it answers, and nothing of it is left afterwards."""

import signal
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.parts.process import HOST, PORTS, Part, PartError, free_port, free_ports, running, scratch

STUBBORN = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = os.fork()
if child:
    open("child.new", "w").write(str(child))
    os.rename("child.new", "child")
time.sleep(600)
"""


def test_part_that_ends_is_reported_with_its_log(tmp_path: Path) -> None:
    """A part that dies at start is an error at once, with what it said last."""
    part = _part("raise SystemExit('no such setting')", tmp_path)
    with pytest.raises(PartError, match=r"ended too soon: part=python exit=1\n(.*\n)*no such setting"), running(part):
        pytest.fail("a part that ended was handed over")


def test_part_that_is_silent_is_stopped_at_its_deadline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A part that never answers is an error at its deadline, and its process is gone."""
    code = "import os, time; open('pid', 'w').write(str(os.getpid())); print('waiting', flush=True); time.sleep(600)"
    part = _part(code, tmp_path, deadline_seconds=2.0)
    # The deadline is over when the part waits, however long it took to start.
    clock = SimpleNamespace(monotonic=lambda: 3.0 * ("waiting" in part.log.read_text()), sleep=time.sleep)
    monkeypatch.setattr("tests.parts.process.time", clock)
    with pytest.raises(PartError, match=r"did not answer: part=python seconds=2.0\nwaiting"), running(part):
        pytest.fail("a part that was silent was handed over")
    assert not _lives(int((tmp_path / "pid").read_text()))


def test_part_that_will_not_end_is_killed_with_its_children(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A part that ignores the request to end is killed, and so is the process that it started."""
    monkeypatch.setattr("tests.parts.process.STOP_SECONDS", 0.2)
    child = tmp_path / "child"
    part = Part("python", [sys.executable, "-c", STUBBORN], child.exists, tmp_path)
    with running(part) as process:
        assert _lives(int(child.read_text()))
    assert process.returncode == -signal.SIGKILL
    assert _gone(int(child.read_text()))


def test_part_is_stopped_when_its_test_fails(tmp_path: Path) -> None:
    """An error in the block does not leave the process behind."""
    part = Part("python", [sys.executable, "-c", "import time; time.sleep(600)"], lambda: True, tmp_path)
    with pytest.raises(ZeroDivisionError), running(part) as process:
        raise ZeroDivisionError
    assert process.returncode == -signal.SIGTERM


def test_free_ports_differ_and_can_be_bound() -> None:
    """Ports asked for together are never the same one."""
    assert len(set(free_ports(20))) == 20
    assert {free_port(), free_port()} <= set(PORTS)
    assert HOST == "127.0.0.1"


def test_scratch_is_gone_afterwards() -> None:
    """The folder of a part lives as long as the part."""
    with scratch("test") as folder:
        (folder / "file").touch()
    assert not folder.exists()


def _part(code: str, folder: Path, deadline_seconds: float = 600.0) -> Part:
    """Return a Python program that is never ready."""
    command = [sys.executable, "-c", code]
    return Part("python", command, lambda: False, folder, deadline_seconds=deadline_seconds)


def _lives(pid: int) -> bool:
    """Tell whether a process runs; one that waits to be reaped does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def _gone(pid: int) -> bool:
    """Wait a little for a killed process to go, and tell whether it did."""
    deadline = time.monotonic() + 600
    while _lives(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not _lives(pid)
