"""Killed at any moment: no alert is lost, and none fires twice."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from neve.app.rules.evaluation import load_all_groups, open_rule_series
from neve.rules.evaluation import EvaluationOptions
from neve.rules.simulation import simulate
from tests.query.lakes import ACME, make_lake, settings_of
from tests.rules.running.alert_receiver import Receiver, open_receiver
from tests.rules.running.desk import Desk, write_rules

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.kills
NEVE = str(Path(sys.executable).with_name("neve"))
ROUNDS, SERIES = 6, 5
STEP_MS, MINUTES = 5000, 30  # of the data; the commands take less
MISSED_MS = 200_000  # time before the first command, which the commands make up for
RULES = """
groups:
  - name: shop
    interval: 10s
    rules:
      - {record: 'load:max', expr: 'max by (pod) (load)'}
      - {alert: Busy, expr: 'load:max > 5', for: 10s}
"""
Firing = tuple[str, int]  # pod, and the time at which its alert fired


def test_killed_at_random_moments(tmp_path: Path) -> None:
    """A command that is killed again and again decides and sends the alerts of one that never stopped."""
    with open_receiver() as manager, open_receiver() as hook:
        destinations = [
            {"name": "manager", "url": manager.url},
            {"name": "hook", "kind": "webhook", "url": f"{hook.url}/hook"},
        ]
        # A slow machine skips no evaluation, which would be right, but another result.
        times = {"resend_seconds": 1, "catch_up_seconds": 3600}
        rules = {"files": {ACME: write_rules(tmp_path, RULES)}, "destinations": destinations, **times}
        desk = Desk(make_lake(tmp_path), tmp_path, rules)
        config = tmp_path / "neve.yaml"
        given = {"raw": {"location": str(tmp_path / "raw")}, "state": {"path": str(tmp_path / "state.db")}}
        config.write_text(json.dumps(settings_of(tmp_path) | given | {"rules": rules, "organization": ACME}))
        chance = random.Random(3)
        # All data is there before the first evaluation, so that none of it is late.
        start_ms = time.time_ns() // 1_000_000 - MISSED_MS
        desk.put_all("load", list(_make_points(chance, start_ms)))
        desk.run(start_ms)
        killed = sum(_kill(config, after=chance.uniform(0, 3), is_working=number % 3 > 0) for number in range(ROUNDS))
        done = subprocess.run(_command(config, "--once"), capture_output=True, text=True, check=False, timeout=600)
        assert done.returncode == 0, done.stderr
    assert killed == ROUNDS
    cycles = [row["cycle"] for row in desk.ask("SELECT DISTINCT cycle FROM recorded WHERE rule_id IS NULL ORDER BY 1")]
    assert cycles == list(range(1, len(cycles) + 1))
    expected = _replay(desk)
    assert len(expected) > SERIES
    assert sum(ended is not None for ended in expected.values()) > 0
    assert _read_table(desk) == expected.keys()
    for receiver in (manager, hook):
        assert set(_list_arrivals(receiver)) == expected.keys()
    resolved = {key for key, status in _list_arrivals(hook).items() if status == "resolved"}
    assert resolved == {key for key, ended in expected.items() if ended is not None}


def _make_points(chance: random.Random, start_ms: int) -> Iterator[tuple[int, float, dict[str, str]]]:
    """Yield a point for each pod and step. The load of a pod is high or low for 20 to 50 seconds."""
    for pod in range(SERIES):
        is_high, steps = False, 0
        for at_ms in range(start_ms - 60_000, start_ms + MINUTES * 60_000, STEP_MS):
            if not steps:
                is_high, steps = not is_high, chance.randint(4, 10)
            steps -= 1
            yield at_ms, 9.0 if is_high else 1.0, {"pod": str(pod)}


def _replay(desk: Desk) -> dict[Firing, int | None]:
    """Return the alerts of a replay over the evaluated time: when each fired, and when it ended."""
    sql = "SELECT min(timestamp) AS first, max(timestamp) AS last FROM recorded WHERE metric_name = 'load:max'"
    row = desk.ask(sql)[0]
    first, last = (round(row[name].timestamp() * 1000) for name in ("first", "last"))
    groups = list(load_all_groups(desk.settings.rules.files).values())
    with open_rule_series(desk.settings, desk.lake, ACME) as source:
        found = simulate(groups, source, first, last, EvaluationOptions())
    return {
        (dict(period.labels)["pod"], period.fired_at_ms): period.ended_at_ms
        for rule in found.rules
        for period in rule.periods
        if period.fired_at_ms is not None
    }


def _read_table(desk: Desk) -> set[Firing]:
    rows = desk.ask("SELECT labels, fired_at FROM recorded WHERE notification = 'firing' AND rule_name = 'Busy'")
    return {(dict(row["labels"])["pod"], round(row["fired_at"].timestamp() * 1000)) for row in rows}


def _list_arrivals(receiver: Receiver) -> dict[Firing, str]:
    """Return the alerts that arrived, with the last status that a webhook got."""
    found: dict[Firing, str] = {}
    for one in receiver.alerts():
        if one["labels"]["alertname"] == "Busy":
            found[one["labels"]["pod"], _parse_ms(one["startsAt"])] = one.get("status", "")
    return found


def _parse_ms(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def _command(config: Path, *arguments: str) -> list[str]:
    return [NEVE, "-c", str(config), "rules", "run", "--steal", *arguments]


def _kill(config: Path, *, after: float, is_working: bool) -> int:
    """Kill the command after some seconds, counted from its start or from the end of its first cycle."""
    process = subprocess.Popen(
        _command(config, "--json"), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
    )
    assert process.stdout is not None
    if is_working:
        process.stdout.readline()
    time.sleep(after)
    os.killpg(process.pid, signal.SIGKILL)
    process.stdout.close()
    return int(process.wait() == -signal.SIGKILL)
