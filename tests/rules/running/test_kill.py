"""Killed at any moment: no alert is lost, and none fires twice."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.query.lakes import ACME, make_lake, settings_of
from tests.rules.running.alert_receiver import open_receiver
from tests.rules.running.desk import Desk, write_rules

pytestmark = pytest.mark.kills
NEVE = str(Path(sys.executable).with_name("neve"))
ROUNDS, SERIES = 9, 5
RULES = """
groups:
  - name: shop
    interval: 1s
    rules:
      - {record: 'load:max', expr: 'max by (pod) (load)'}
      - {alert: Busy, expr: 'load:max > 5', for: 2s}
"""


def test_killed_at_random_moments(tmp_path: Path) -> None:
    """The command is killed again and again while alerts fire: each arrives, always with the same start."""
    with open_receiver() as manager, open_receiver() as hook:
        destinations = [
            {"name": "manager", "url": manager.url},
            {"name": "hook", "kind": "webhook", "url": f"{hook.url}/hook"},
        ]
        rules = {"files": {ACME: write_rules(tmp_path, RULES)}, "destinations": destinations, "resend_seconds": 1}
        desk = Desk(make_lake(tmp_path), tmp_path, rules)
        config = tmp_path / "neve.yaml"
        given = {"raw": {"location": str(tmp_path / "raw")}, "state": {"path": str(tmp_path / "state.db")}}
        config.write_text(json.dumps(settings_of(tmp_path) | given | {"rules": rules, "organization": ACME}))
        chance, killed = random.Random(3), 0
        for number in range(ROUNDS):
            for pod in range(SERIES):
                desk.put("load", 9.0, time.time_ns() // 1_000_000, pod=str(pod))
            killed += _killed(config, after=chance.uniform(0, 3), is_working=number % 3 > 0)
        for pod in range(SERIES):
            desk.put("load", 9.0, time.time_ns() // 1_000_000, pod=str(pod))
        done = _run(config)
        assert done.returncode == 0, done.stderr
        cycles = desk.ask(
            "SELECT cycle, count(*) AS n FROM recorded WHERE rule_id IS NULL GROUP BY cycle ORDER BY cycle"
        )
        fired = desk.ask(
            "SELECT DISTINCT labels, fired_at FROM recorded WHERE notification = 'firing' AND rule_name = 'Busy'"
        )
    assert killed == ROUNDS
    assert len(cycles) >= ROUNDS // 2
    assert [row["cycle"] for row in cycles] == list(range(1, len(cycles) + 1))
    expected = sorted((dict(row["labels"])["pod"], _iso(row["fired_at"])) for row in fired)
    assert {pod for pod, _ in expected} == {str(pod) for pod in range(SERIES)}
    for receiver in (manager, hook):
        starts = {
            (one["labels"]["pod"], one["startsAt"]) for one in receiver.alerts() if one["labels"]["alertname"] == "Busy"
        }
        assert sorted(starts) == expected


def _iso(moment: object) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%S}.000Z"


def _command(config: Path, *arguments: str) -> list[str]:
    return [NEVE, "-c", str(config), "rules", "run", "--steal", *arguments]


def _killed(config: Path, *, after: float, is_working: bool) -> int:
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


def _run(config: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(_command(config, "--once"), capture_output=True, text=True, check=False, timeout=120)
