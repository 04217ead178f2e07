"""The start of a process group."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from typing import TYPE_CHECKING, Any

import pytest
from structlog.testing import capture_logs

from neve.api import group_supervisor
from neve.app.serve.part import PartState
from neve.app.serve.supervisor import Supervisor
from neve.app.settings import Settings
from neve.app.wiring import build_documents
from neve.errors import LakeError, NeveError
from neve.jobs.status_board import StatusBoard
from tests.app.serve.little import QUICK, Failing, Steady, wait_until

if TYPE_CHECKING:
    from pathlib import Path


def test_who_is_not_ready_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Again and again, with what it failed of last, until all are ready."""
    monkeypatch.setattr(group_supervisor, "LATE_SECONDS", 0.1)
    tend = Failing(NeveError("the process tend ended: exit code 1"), times=1, name="tend")
    household = Supervisor([Steady("receiver"), tend], QUICK)

    class NamedTwice(threading.Event):
        """The pause after a failure, which lasts until it was named twice."""

        def wait(self, timeout: float | None = None) -> bool:
            if timeout is not None:
                wait_until(lambda: len(named()) > 1)
                return self.is_set()
            return super().wait()

    def named() -> list[Any]:
        return [line for line in said if line["event"] == "processes are not ready"]

    async def start() -> bool:
        household.start()
        wait_until(lambda: [status.state for status in household.statuses()] == [PartState.RUNNING, PartState.FAILED])
        return await group_supervisor._wait_until_ready(household, asyncio.Event())

    household._runners[1]._stop = NamedTwice()
    with capture_logs() as said:
        assert asyncio.run(start())
    late = named()
    assert len(late) > 1
    assert all([*line["waiting_for"]] == ["tend"] for line in late)
    assert late[0]["waiting_for"]["tend"] == "failed: the process tend ended: exit code 1"
    assert household.stop()


PROCESSES = {"receiver": ("receiver",), "tend": ("ingest",)}


def group_in(folder: Path, **telemetry: str) -> group_supervisor.ServeGroup:
    """A group on free ports whose state is in a folder."""
    settings = Settings.model_validate(
        {
            "state": {"path": str(folder / "state.db")},
            "receiver": {"http_port": 0, "grpc_port": 0},
            "serve": {"port": 0},
            "telemetry": telemetry,
        }
    )
    return group_supervisor.ServeGroup(settings, PROCESSES, None, "host-1")


def run(group: group_supervisor.ServeGroup, monkeypatch: pytest.MonkeyPatch) -> int:
    """A group of little parts in the place of processes, of which one fails once; it ends when it is ready."""
    tend = Failing(NeveError("the process tend ended: exit code 1"), times=1, name="tend")

    def build(*given: Any) -> Supervisor:
        return Supervisor([Steady("receiver"), tend], QUICK, given[-1])

    monkeypatch.setattr(group_supervisor, "build_group", build)
    return asyncio.run(group_supervisor.supervise(group, lambda _addresses: os.kill(os.getpid(), signal.SIGTERM)))


def test_the_board_hears_of_every_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """How often it was started again and of what it ended, though it can't say so itself."""
    group = group_in(tmp_path)
    assert run(group, monkeypatch) == 0
    documents = build_documents(group.settings)
    told = [
        (part.instance, part.process, part.name, part.restarts, part.error) for part in StatusBoard(documents).all()
    ]
    documents.close()
    assert told == [
        ("host-1", "group", "receiver", 0, ""),
        ("host-1", "group", "tend", 1, "the process tend ended: exit code 1"),
    ]


def test_a_store_that_is_away_ends_no_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its processes run, and that nobody hears of them is said."""

    def away(*_given: object) -> None:
        raise LakeError("the state store does not answer")

    monkeypatch.setattr(StatusBoard, "report", away)
    with capture_logs() as said:
        assert run(group_in(tmp_path), monkeypatch) == 0
    assert [line["error"] for line in said if line["event"] == "status of the parts can't be stored"] == [
        "the state store does not answer"
    ]


@pytest.mark.parametrize("endpoint", ["self", "http://127.0.0.1:9"])
def test_the_group_sends_its_own_telemetry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, endpoint: str) -> None:
    """To the port that its receiver got; to its own receiver until that one is told to end."""
    seen: list[Any] = []
    stop = Supervisor.stop

    def setup(_config: object, process: str, address: str) -> Any:
        seen.extend([process, address.rpartition(":")[0], int(address.rpartition(":")[2]) > 0])
        return lambda: seen.append("sent")

    def stopping(household: Supervisor, *given: Any) -> bool:
        seen.append("stopping")
        return stop(household, *given)

    monkeypatch.setattr(group_supervisor, "start_telemetry", setup)
    monkeypatch.setattr(Supervisor, "stop", stopping)
    assert run(group_in(tmp_path, endpoint=endpoint), monkeypatch) == 0
    last = ["sent", "stopping"] if endpoint == "self" else ["stopping", "sent"]
    assert seen == ["group", "http://127.0.0.1", True, *last]
