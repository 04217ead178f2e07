"""How the processes of a group are started, and how long they may take to end."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from neve.app.serve import process_group as module
from neve.app.serve.config import ServeConfig
from neve.app.serve.process_group import DRAIN_VARIABLE, ChildProcess, Launch, ParentPipe, build_group
from tests.app.serve.little import wait_until

PROCESSES = {"receiver": ("receiver",), "tend": ("ingest", "compact")}
DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('{}', flush=True); time.sleep(3600)"


@pytest.mark.parametrize(("total", "patience", "own"), [(30.0, 25.0, 20.0), (600.0, 595.0, 590.0), (4.0, 3.0, 2.0)])
def test_a_group_has_the_time_that_is_set_for_all_of_it(
    monkeypatch: pytest.MonkeyPatch, total: float, patience: float, own: float
) -> None:
    """What a process has for itself, and what it may take before it is killed, is in it."""
    children: list[ChildProcess] = []

    def noted(*given: object) -> ChildProcess:
        children.append(ChildProcess(*given))  # type: ignore[arg-type]
        return children[-1]

    monkeypatch.setattr(module, "ChildProcess", noted)
    with ParentPipe() as lifeline:
        household = build_group(PROCESSES, ServeConfig(drain_seconds=total), Launch(None, "one"), lifeline)
    assert household.config.drain_seconds == total
    assert [(child.patience_seconds, float(child.environment[DRAIN_VARIABLE])) for child in children] == [
        (patience, own)
    ] * 2


def test_a_group_of_the_deaf_ends_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its processes are killed when their own time is over, which is before the group's."""
    monkeypatch.setattr(Launch, "command", lambda *_: [sys.executable, "-c", DEAF])
    monkeypatch.setattr(module, "ChildProcess", lambda *given: replace(ChildProcess(*given), patience_seconds=0.1))
    config = ServeConfig(drain_seconds=600)
    with ParentPipe() as lifeline:
        household = build_group({"tend": ("ingest",)}, config, Launch(None, "one"), lifeline)
        household.start()
        wait_until(lambda: household.is_running)
        with capture_logs() as said:
            assert not household.stop()
        assert household.is_empty
    assert household.statuses()[0].error == "the process tend ended: SIGKILL"
    assert "part did not end in time" not in [line["event"] for line in said]
