"""A child process answers, or costs one request."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from neve.lake.child_process import Child, ChildFailed, minimal_environment

if TYPE_CHECKING:
    from collections.abc import Iterator

MODULE = "tests.lake.obedient"
MB = 1024 * 1024
ROOT = Path(__file__).parents[2]


@pytest.fixture
def child() -> Iterator[Child]:
    """A child that does what it is told."""
    made = Child(MODULE, 200 * MB, paths=[str(ROOT)])
    made.wait_ready(60)
    yield made
    made.close()


def test_requests_are_answered_one_after_the_other(child: Child) -> None:
    """Whatever their size, and whatever is printed beside them."""
    for size in (0, 1, 5 * MB):
        answer, data = child.ask({"do": "echo"}, os.urandom(size), 60)
        assert (answer["pid"], len(data)) == (child.pid, size)
    assert child.is_fit


def test_memory_is_limited(child: Child) -> None:
    """More than the limit is told as such, and no other process notices."""
    assert child.ask({"do": "allocate", "bytes": 100 * MB}, b"", 60)[0]["bytes"] == 100 * MB
    with pytest.raises(ChildFailed, match=f"more than {200 * MB} bytes of memory") as caught:
        child.ask({"do": "allocate", "bytes": 400 * MB}, b"", 60)
    assert caught.value.by_limit
    assert not child.is_fit


def test_a_child_that_dies_is_told_from_one_that_answers(child: Child) -> None:
    """With how it ended."""
    with pytest.raises(ChildFailed, match="ended by SIGSEGV") as caught:
        child.ask({"do": "die", "signal": signal.SIGSEGV}, b"", 60)
    assert not caught.value.by_limit
    with pytest.raises(ChildFailed):
        child.ask({"do": "echo"}, b"", 60)


def test_a_child_that_does_not_answer_is_ended(child: Child) -> None:
    """When its time is over."""
    with pytest.raises(ChildFailed, match=r"took more than 0\.1 s") as caught:
        child.ask({"do": "hang"}, b"", 0.1)
    assert caught.value.by_limit
    assert not child.is_fit


def test_a_child_that_keeps_memory_is_replaced(child: Child) -> None:
    """Later requests must not pay for it."""
    child.ask({"do": "keep", "bytes": 150 * MB}, b"", 60)
    assert not child.is_fit


def test_a_child_imports_nothing_from_the_folder_of_its_parent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever can write a file there would be the service, with what its environment says."""
    (tmp_path / "tempfile.py").write_text("raise SystemExit('this is not tempfile')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NEVE_S3__SECRET_KEY", "hidden")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hidden")
    child = Child(MODULE, 200 * MB, paths=["", str(ROOT)])
    child.wait_ready(60)
    answer, _ = child.ask({"do": "look around"}, b"", 60)
    assert "hidden" not in answer["environment"].values()
    assert answer["folder"] not in {str(tmp_path), os.getcwd()}
    assert (answer["files"], Path(answer["folder"]).stat().st_mode & 0o777) == ([], 0o700)
    child.close()
    assert not Path(answer["folder"]).exists()


def test_an_environment_has_whole_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Relative ones would be others in the folder of the child; keys of AWS are there where they are needed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["", "src", "/opt/one"]))
    monkeypatch.setenv("AWS_PROFILE", "mine")
    found = minimal_environment(paths=["", "/opt/two", "/opt/one"])
    assert found["PYTHONPATH"] == os.pathsep.join(["/opt/two", "/opt/one", str(tmp_path / "src")])
    assert "AWS_PROFILE" not in found
    assert minimal_environment(needs_aws=True)["AWS_PROFILE"] == "mine"


def test_a_child_that_can_not_be_started_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither pipes nor a folder: whoever tries again and again would run out of them."""

    def refuse(*_arguments: object, **_options: object) -> None:
        raise BlockingIOError("Resource temporarily unavailable")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before = os.listdir("/proc/self/fd")
    for _ in range(20):
        with pytest.raises(ChildFailed, match="could not be started: Resource temporarily unavailable"):
            Child(MODULE, 200 * MB)
    assert len(os.listdir("/proc/self/fd")) == len(before)
    assert list(tmp_path.iterdir()) == []
