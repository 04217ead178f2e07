"""`neve rules run`, `status` and `explain`, as a user runs them."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import pytest

from tests.cli.runner import Ran, run
from tests.query.lakes import ACME, make_lake, settings_of
from tests.rules.running.desk import Desk, write_rules

if TYPE_CHECKING:
    from pathlib import Path

RULES = """
groups:
  - name: shop
    interval: 1s
    rules:
      - {record: 'load:max', expr: 'max by (pod) (load)'}
      - {alert: Busy, expr: 'load:max > 5'}
      - {alert: Slow, expr: 'load:max > 5', for: 1h}
      - {alert: Never, expr: 'load:max > 50'}
"""


@pytest.fixture
def config(tmp_path: Path, iceberg: None) -> str:
    """A configuration of a lake with a point of now."""
    given = {"raw": {"location": str(tmp_path / "raw")}, "state": {"path": str(tmp_path / "state.db")}}
    Desk(make_lake(tmp_path), tmp_path).put("load", 9.0, time.time_ns() // 1_000_000 - 3000, pod="a")
    path = tmp_path / "neve.yaml"
    path.write_text(json.dumps(settings_of(tmp_path) | given | {"organization": ACME}))
    return str(path)


def neve_rules(config: str, *arguments: str) -> Ran:
    """Run a command about rules."""
    return run("-c", config, "rules", *arguments)


@pytest.mark.slow
def test_run_status_and_explain(config: str, tmp_path: Path) -> None:
    """A cycle is evaluated once, and its decisions are shown as text and as JSON."""
    assert neve_rules(config, "run", "--once").code == 2
    assert "no rules were evaluated yet" in neve_rules(config, "status").text
    done = neve_rules(config, "run", "--once", "--json", write_rules(tmp_path, RULES))
    assert done.code == 0, done.errors
    assert {name: done.json[name] for name in ("cycle", "rules", "failed", "firing", "pending", "notifications")} == {
        "cycle": 1, "rules": 5, "failed": 0, "firing": 1, "pending": 1, "notifications": 1,
    }  # fmt: skip
    text = neve_rules(config, "status").text
    assert 'Busy{pod="a"}' in text
    assert [one["alert"] for one in neve_rules(config, "status", "--json", "--org", ACME).json["alerts"]] == [
        "Busy",
        "Slow",
    ]
    assert neve_rules(config, "status", "--json", "--org", "other").json["groups"] == []

    busy = neve_rules(config, "explain", "Busy", "--json").json[0]
    assert (busy["state"], busy["expression"], busy["alerts"][0]["value"]) == ("firing", "load:max > 5", 9.0)
    assert int(busy["metrics_snapshot"]) > 0
    assert [note["kind"] for note in busy["notifications"]] == ["firing"]
    assert "the alert fires after 60 min" in neve_rules(config, "explain", "Slow").text
    assert "the expression has no sample" in neve_rules(config, "explain", "Never").text
    assert neve_rules(config, "explain", "Unknown").code == 1
    assert neve_rules(config, "explain", "Busy", "--org", "other").code == 1
