"""The rules part: idle without files, standby, cycles and alerts in a service, recovery after errors."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from neve.app.rules.service import LEASE, RuleService
from neve.app.serve.parts.announcer import ChangedTables
from neve.app.serve.parts.rules import IDLE, RulesPart
from neve.errors import LakeError
from neve.state.leases import hold_worker_lease
from tests.query.lakes import ACME
from tests.rules.running.alert_receiver import open_receiver
from tests.rules.running.desk import Desk, write_rules

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from neve.lake.lake import Lake

RULES = "groups: [{name: g, interval: 1s, rules: [{alert: Busy, expr: load > 5}]}]"


class Running:
    """A thread that runs until its test has seen enough."""

    def __init__(self, run: Callable[[threading.Event, Callable[[Any], None]], None]) -> None:
        self.stop, self.reports = threading.Event(), list[dict[str, Any]]()
        self.thread = threading.Thread(target=run, args=(self.stop, lambda one: self.reports.append(dict(one))))
        self.thread.start()

    def wait(self, is_done: Callable[[], bool]) -> None:
        """Wait until something happened, then end the thread."""
        deadline = time.monotonic() + 120
        while not is_done() and time.monotonic() < deadline:
            time.sleep(0.02)
        done = is_done()
        self.stop.set()
        self.thread.join(60)
        assert done, self.reports
        assert not self.thread.is_alive()


def test_idle_without_files(lake: Lake, tmp_path: Path) -> None:
    """Without rule files the part waits, and starts no worker."""
    running = Running(RulesPart(Desk(lake, tmp_path).settings, lake, ChangedTables()).run)
    running.wait(lambda: running.reports == [{"idle": IDLE}])


@pytest.mark.slow
def test_alerts_of_a_part(lake: Lake, tmp_path: Path) -> None:
    """The part evaluates in a query worker, notes its commit, and sends the alert."""
    with open_receiver() as receiver:
        rules = {"files": {ACME: write_rules(tmp_path, RULES)}, "destinations": [{"name": "m", "url": receiver.url}]}
        desk, changed = Desk(lake, tmp_path, rules), ChangedTables()
        desk.put("load", 9.0, time.time_ns() // 1_000_000 - 5000)
        running = Running(RulesPart(desk.settings, lake, changed).run)
        running.wait(lambda: bool(receiver.alerts()))
        assert {one["labels"]["alertname"] for one in receiver.alerts()} == {"Busy"}
        assert changed.take(0) == ["recorded"]
        assert not any("error" in one for one in running.reports)


def test_standby(lake: Lake, tmp_path: Path) -> None:
    """While another process holds the lease, nothing is evaluated."""
    desk = Desk(lake, tmp_path, {"files": {ACME: write_rules(tmp_path, RULES)}})
    service = RuleService(desk.runner, desk.documents)
    with hold_worker_lease(desk.documents, LEASE, seconds=60, owner="another"):
        running = Running(service.run_forever)
        running.wait(lambda: bool(running.reports))
    assert "another" in running.reports[0]["standby"]
    assert lake.table("recorded").metadata.snapshots == []


def test_errors_are_reported_and_retried(lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cycle that fails is reported, and the next one loads the state again."""
    desk = Desk(lake, tmp_path, {"files": {ACME: write_rules(tmp_path, RULES)}})
    desk.put("load", 9.0)
    service = RuleService(desk.runner, desk.documents)
    failures = iter([LakeError("the catalog is away")])
    original = desk.runner._commit

    def commit(*arguments: Any) -> int:
        for error in failures:
            raise error
        return original(*arguments)

    monkeypatch.setattr(desk.runner, "_commit", commit)
    running = Running(service.run_forever)
    running.wait(lambda: any("cycle" in one for one in running.reports))
    assert running.reports[0] == {"error": "the catalog is away"}
    assert running.reports[-1]["cycle"]["firing"] == 1
