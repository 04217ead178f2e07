"""Late data: which evaluations it changes, and the correction of their rows."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neve.lake.time_ranges import Ranges
from neve.promql.series import STALE
from neve.rules.rule_file import Rule
from neve.rules.running.group_documents import is_stale_mark
from neve.rules.running.late_data import UNBOUNDED_MS, add_stale_marks, find_reach, list_affected_steps
from tests.query.lakes import ACME
from tests.rules.running.desk import MINUTE, START_MS, Desk, write_rules

if TYPE_CHECKING:
    from pathlib import Path

    from neve.lake.lake import Lake

RULES = """
groups:
  - name: second
    rules: [{record: 'load:half', expr: 'load:sum / 2'}]
  - name: first
    rules:
      - {record: 'load:sum', expr: 'sum by (pod) (sum_over_time(load[2m]))'}
      - {alert: Busy, expr: 'load:sum > 5'}
"""


@pytest.mark.parametrize(
    ("expression", "minutes"),
    [
        ("x", 5),
        ("rate(x[10m])", 15),
        ("x offset 1h", 65),
        ("max_over_time(rate(x[5m])[1h:1m])", 75),
        ("y + 1", 20),
        ("x @ 100", UNBOUNDED_MS / MINUTE),
    ],
)
def test_reach(expression: str, minutes: float) -> None:
    """A point reaches as far as all ranges, offsets and the rules in between."""
    recorded = {"y": Rule("y", is_alert=False, expression="rate(x[10m])")}
    assert find_reach(Rule("r", is_alert=False, expression=expression), recorded) == minutes * MINUTE


def test_rules_that_read_themselves_have_a_reach() -> None:
    """Rules in a circle end."""
    one = Rule("a", is_alert=False, expression="b")
    assert find_reach(one, {"a": one, "b": Rule("b", is_alert=False, expression="a")}) == 15 * MINUTE


@given(st.integers(0, 100), st.integers(1, 100), st.integers(0, 50), st.integers(1, 20), st.integers(0, 200))
def test_affected_steps(start: int, length: int, reach: int, step: int, until: int) -> None:
    """The steps are those that a touched time reaches, and no other."""
    touched = Ranges.of([(start * 1000, (start + length) * 1000)])
    expected = [at for at in range(0, until + 1, step) if start <= at <= start + length + reach and at > 10]
    assert list(list_affected_steps(touched, reach, step, 10, until)) == expected


def test_stale_marks() -> None:
    """A series ends with a mark, also one from before the first step, and may begin again."""
    a, b = (("x", "a"),), (("x", "b"),)
    found = add_stale_marks({(a, 10): 1.0, (a, 30): 2.0}, [10, 20, 30], [b])
    shown = {place: "stale" if is_stale_mark(value) else value for place, value in found.items()}
    assert shown == {(a, 10): 1.0, (b, 10): "stale", (a, 20): "stale", (a, 30): 2.0}
    assert math.isnan(STALE)


def read(desk: Desk, name: str = "load:sum") -> list[tuple[int, str, float | None]]:
    """Return the rows of a recorded series: minute, pod and value."""
    rows: list[dict[str, Any]] = desk.ask(
        f"SELECT timestamp, labels, value FROM recorded WHERE metric_name = '{name}' ORDER BY timestamp, value"
    )
    return [
        (round(row["timestamp"].timestamp() * 1000 - START_MS) // MINUTE, dict(row["labels"])["pod"], row["value"])
        for row in rows
    ]


def correct(desk: Desk) -> int:
    """Correct recorded values."""
    with desk.lease() as lease:
        return desk.runner.correct(lease)


@pytest.fixture
def desk(lake: Lake, tmp_path: Path) -> Desk:
    """A runner that has evaluated four minutes."""
    found = Desk(lake, tmp_path, {"files": {ACME: write_rules(tmp_path, RULES)}})
    for minute in range(4):
        found.put("load", 1.0, START_MS + minute * MINUTE, pod="a")
        found.run(START_MS + minute * MINUTE)
    return found


def test_late_points_correct_recorded_values(desk: Desk) -> None:
    """Values that a late point changes are replaced, each once, also those of rules that read them."""
    assert read(desk) == [(0, "a", 1.0), (1, "a", 2.0), (2, "a", 2.0), (3, "a", 2.0)]
    desk.put("load", 10.0, START_MS + MINUTE + 1, pod="a")
    desk.put("load", 7.0, START_MS + MINUTE + 2, pod="b")
    assert correct(desk) > 0
    expected = [(0, "a", 1.0), (1, "a", 2.0), (2, "b", 7.0), (2, "a", 12.0), (3, "b", 7.0), (3, "a", 12.0)]
    assert read(desk) == expected
    halves = [(minute, pod, value / 2) for minute, pod, value in expected if value]
    assert [one for one in read(desk, "load:half") if one[0]] == halves[1:]
    assert correct(desk) == 0
    alerts = desk.ask("SELECT * FROM recorded WHERE metric_name = 'ALERTS'")
    assert alerts == []


def test_corrected_series_end(desk: Desk) -> None:
    """A series that a correction added ends with a null value when its rule no longer has it."""
    desk.put("load", 7.0, START_MS + 2 * MINUTE + 1, pod="b")
    correct(desk)
    for minute in (4, 5):
        desk.put("load", 1.0, START_MS + minute * MINUTE, pod="a")
        desk.run(START_MS + minute * MINUTE)
    assert [(minute, value) for minute, pod, value in read(desk) if pod == "b"] == [(3, 7.0), (4, 7.0), (5, None)]


def test_skipped_evaluations_are_filled(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Values of evaluations that were skipped are recorded, too."""
    for minute in range(4, 8):
        desk.put("load", 1.0, START_MS + minute * MINUTE, pod="a")
    desk.restart()
    monkeypatch.setattr(
        "neve.rules.running.runner.RuleRunner._choose_time", lambda _self, _key, _old, newest, _step: newest
    )
    desk.run(START_MS + 7 * MINUTE)
    correct(desk)
    assert [minute for minute, _, _ in read(desk)] == list(range(8))


def test_old_data_is_not_corrected(desk: Desk) -> None:
    """Values from before the configured time stay as they are."""
    desk.put("load", 1.0, START_MS + 300 * MINUTE, pod="a")
    desk.run(START_MS + 300 * MINUTE)
    correct(desk)
    desk.put("load", 10.0, START_MS + 2 * MINUTE, pod="a")
    assert correct(desk) == 0


def test_corrections_keep_other_rows(desk: Desk) -> None:
    """The state of alerts and the rows of other groups survive a correction and a restart."""
    desk.put("load", 10.0, START_MS + 4 * MINUTE, pod="a")
    desk.run(START_MS + 4 * MINUTE)
    before = desk.ask("SELECT count(*) AS n FROM recorded WHERE metric_name IS NULL")
    desk.put("load", 10.0, START_MS + 2 * MINUTE + 1, pod="a")
    assert correct(desk) > 0
    assert desk.ask("SELECT count(*) AS n FROM recorded WHERE metric_name IS NULL") == before
    desk.restart()
    desk.runner.load()
    assert desk.states() == {"Busy": ["firing"]}
