"""Continuous evaluation: due groups, one commit for samples and state, restarts, failures."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from neve.app.query.promql import evaluate
from neve.errors import CommitConflict, QueryError
from neve.model.signals import Signal
from neve.query.request import Request, TimeRange
from neve.rules.running.group_program import NO_HISTOGRAMS
from neve.rules.running.source_alert import ALERT_NAME
from neve.rules.running.stored_state import STREAM_NAME, RulesPosition
from tests.promql.storage.otlp_metrics import COUNT, all_metrics, message, nanos
from tests.query.lakes import ACME, OTHER, put
from tests.rules.running.desk import MINUTE, START_MS, Desk, sent_kinds, write_rules

if TYPE_CHECKING:
    from pathlib import Path

    from neve.lake.lake import Lake
    from neve.rules.running.cycle_result import CycleResult

RULES = """
groups:
  - name: shop
    rules:
      - record: load:max
        expr: max by (path) (load)
      - alert: HighLoad
        expr: load:max > 5
        for: 2m
        keep_firing_for: 1m
        labels: {severity: page}
        annotations: {summary: '{{ $labels.path }} has {{ $value }}'}
"""


@pytest.fixture
def desk(lake: Lake, tmp_path: Path) -> Desk:
    """A runner of one group."""
    return Desk(lake, tmp_path, {"files": {ACME: write_rules(tmp_path, RULES)}})


def test_samples_are_recorded(desk: Desk) -> None:
    """A recording rule's samples are rows that SQL and PromQL read."""
    desk.put("load", 3.0, path="a")
    result = desk.run()
    assert (result.groups, result.rules, result.failed, result.samples) == (2, 3, 0, 1)
    rows = desk.ask("SELECT metric_name, value, labels, rule_group FROM recorded WHERE metric_name IS NOT NULL")
    assert [(row["metric_name"], row["value"], dict(row["labels"])) for row in rows] == [
        ("load:max", 3.0, {"path": "a"})
    ]
    moment = TimeRange(None, desk.ask("SELECT max(timestamp) AS at FROM recorded")[0]["at"])
    answer = evaluate(desk.service, Request("load:max + 1", ACME, time=moment))
    assert [(one.labels, one.floats[0][1]) for one in answer.series] == [((("path", "a"),), 4.0)]


def test_a_group_is_due_once_for_each_interval(desk: Desk) -> None:
    """A cycle without a new whole interval of complete data commits nothing."""
    desk.put("load", 3.0, path="a")
    assert desk.run().groups == 2
    assert desk.run(START_MS + 59_000).groups == 0
    assert desk.run(START_MS + MINUTE).groups == 2
    assert len(desk.lake.table("recorded").metadata.snapshots) == 2


def test_an_alert_survives_restarts(desk: Desk) -> None:
    """Pending, firing, kept and resolved alerts keep their times when the process restarts after each cycle."""
    values = [9, 9, 9, 9, 1, 1, 1, 1]
    expected, found, results = [], [], []
    for minute, value in enumerate(values):
        desk.restart()
        desk.put("load", float(value), START_MS + minute * MINUTE, path="a")
        results.append(desk.run(START_MS + minute * MINUTE))
        found.append(desk.states().get("HighLoad"))
    fired = START_MS + 2 * MINUTE
    expected = [["pending"], ["pending"], ["firing"], ["firing"], ["firing"], ["inactive"], ["inactive"], ["inactive"]]
    assert found == expected
    assert sent_kinds(results) == [("HighLoad", fired, False), ("HighLoad", fired, True)]


def test_missed_evaluations_are_made_up_for(desk: Desk) -> None:
    """An alert that fired and ended while no process ran is in the table, with its own times, and is sent."""
    for minute, value in enumerate([1, 9, 9, 9, 9, 1, 1, 1]):
        desk.put("load", float(value), START_MS + minute * MINUTE, path="a")
    desk.run(START_MS)
    desk.restart()
    results: list[CycleResult] = []
    desk.now_ms = START_MS + 7 * MINUTE
    with desk.lease() as lease:
        while not results or desk.runner.is_behind:
            results.append(desk.runner.run(lease))
    fired = START_MS + 3 * MINUTE
    assert sent_kinds(results) == [("HighLoad", fired, False), ("HighLoad", fired, True)]
    assert len(results) == 7


def test_slow_groups_catch_up_by_the_newest(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Evaluations that take too long to be made up for are skipped, so that the newest one is not late."""
    desk.put("load", 3.0, path="a")
    desk.run(START_MS)
    monkeypatch.setattr("neve.rules.running.runner.time.monotonic", iter(range(0, 10**6, 40)).__next__)
    desk.run(START_MS + MINUTE)
    monkeypatch.undo()
    with desk.lease() as lease:
        desk.now_ms = START_MS + 4 * MINUTE
        result = desk.runner.run(lease)
    assert not desk.runner.is_behind
    assert {one.time_ms for one in result.results if one.key.name == "shop"} == {desk.now_ms}


def test_series_of_alerts_end(desk: Desk) -> None:
    """ALERTS has a sample while an alert is active, and a null value when its series ends."""
    for minute, value in enumerate([9.0, 1.0]):
        desk.restart()
        desk.put("load", value, START_MS + minute * MINUTE, path="a")
        desk.run(START_MS + minute * MINUTE)
    rows = desk.ask("SELECT value, labels FROM recorded WHERE metric_name = 'ALERTS' ORDER BY timestamp")
    assert [(row["value"], dict(row["labels"])["alertstate"]) for row in rows] == [(1.0, "pending"), (None, "pending")]


def test_a_failed_query_resolves_nothing(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """While queries fail, alerts stay as they are, also over a restart, and one alert reports the failure."""
    for minute in range(3):
        desk.put("load", 9.0, START_MS + minute * MINUTE, path="a")
        desk.run(START_MS + minute * MINUTE)
    assert desk.states() == {"HighLoad": ["firing"]}

    def fail(*_arguments: object) -> None:
        raise QueryError("the storage is gone")

    with monkeypatch.context() as patched:
        patched.setattr("neve.app.rules.evaluation.evaluate_group", fail)
        results = []
        for minute in range(3, 20):
            desk.restart()
            results.append(desk.run(START_MS + minute * MINUTE))
            assert desk.states()["HighLoad"] == ["firing"]
    assert desk.states() == {"HighLoad": ["firing"], ALERT_NAME: ["firing"]}
    assert sent_kinds(results) == [(ALERT_NAME, START_MS + 4 * MINUTE + 2000, False)]
    desk.restart()
    desk.put("load", 9.0, START_MS + 20 * MINUTE, path="a")
    last = desk.run(START_MS + 20 * MINUTE)
    assert sent_kinds([last]) == [(ALERT_NAME, START_MS + 4 * MINUTE + 2000, True)]
    assert desk.states() == {"HighLoad": ["firing"], ALERT_NAME: ["inactive"]}


def test_a_failing_rule_leaves_the_others(lake: Lake, tmp_path: Path) -> None:
    """A rule that fails keeps its state, and the other rules of its group go on."""
    text = RULES + "      - {record: broken, expr: 'load * on() load'}\n"
    desk = Desk(lake, tmp_path, {"files": {ACME: write_rules(tmp_path, text)}})
    for name in "ab":
        desk.put("load", 9.0, path=name)
    result = desk.run()
    assert (result.failed, result.samples) == (1, 8)  # two recorded, two of each pending alert, also of the failure
    failures = desk.ask("SELECT failures FROM recorded WHERE rule_id IS NULL AND rule_group = 'shop'")[0]["failures"]
    assert len(failures) == 1


def test_native_histograms_are_refused(lake: Lake, tmp_path: Path) -> None:
    """A recording rule with native histograms fails with a reason."""
    put(lake, ACME, Signal.METRICS, message(all_metrics(), "cart"))
    text = "groups: [{name: g, rules: [{record: x, expr: size_bytes}]}]"
    desk = Desk(lake, tmp_path, {"files": {ACME: write_rules(tmp_path, text)}}, nanos(COUNT - 1) // 1_000_000)
    assert desk.run().failed == 1
    rows = desk.ask("SELECT failures FROM recorded WHERE rule_group = 'g'")
    assert [list(dict(row["failures"]).values()) for row in rows] == [[NO_HISTOGRAMS]]


def test_organizations_are_apart(lake: Lake, tmp_path: Path) -> None:
    """Rules of an organization see its own series, and their results are its own rows."""
    path = write_rules(tmp_path, RULES)
    desk = Desk(lake, tmp_path, {"files": {ACME: path, OTHER: path}})
    desk.put("load", 9.0, path="secret", org=OTHER)
    desk.put("load", 3.0, path="a")
    desk.run()
    assert {
        dict(row["labels"])["path"] for row in desk.ask("SELECT labels FROM recorded WHERE metric_name = 'load:max'")
    } == {"a"}
    assert desk.ask("SELECT * FROM recorded WHERE alert_state IS NOT NULL") == []
    assert len(desk.ask("SELECT * FROM recorded WHERE alert_state = 'pending'", OTHER)) == 1


def test_an_old_leader_can_not_commit(desk: Desk) -> None:
    """A runner whose state is outdated commits nothing, and goes on from the state of the other one."""
    desk.put("load", 9.0, path="a")
    desk.run()
    other = desk.open_runner()
    other.load()
    desk.put("load", 9.0, START_MS + MINUTE, path="a")
    desk.run(START_MS + MINUTE)
    desk.now_ms = START_MS + 2 * MINUTE
    desk.put("load", 9.0, path="a")
    with desk.lease() as lease, pytest.raises(CommitConflict, match="the last cycle is 2, expected 1"):
        other.run(lease)
    with desk.lease() as lease:
        assert other.run(lease).cycle == 3
    position = RulesPosition.load(desk.lake.table("recorded"), STREAM_NAME)
    assert position is not None
    assert position.cycle == 3
