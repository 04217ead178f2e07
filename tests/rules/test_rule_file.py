"""Rule files: what is read, and problems with their places."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neve.errors import InvalidRules
from neve.rules.rule_file import load_rules, parse_rules, read_rules

CASES = Path(__file__).parent / "cases"


def problems(text: str) -> list[str]:
    """Return the problems of a rule file."""
    return [str(one) for one in parse_rules(text, "r.yml").problems]


def rule(*lines: str) -> str:
    """Return a rule file with one rule."""
    return "groups:\n- name: g\n  rules:\n  - " + "\n    ".join(lines) + "\n"


def test_groups() -> None:
    """Groups have their intervals, offsets, limits and rules, with the labels of the group."""
    file = read_rules(CASES / "shop.yml")
    assert not file.problems
    recordings, alerts = file.groups
    assert (recordings.name, recordings.interval_ms) == ("recordings", 30_000)
    assert recordings.rules[1].labels == (("level", "job"), ("team", "shop"))
    assert [(one.name, one.kind) for one in alerts.rules] == [("HighErrors", "alerting"), ("Down", "alerting")]
    first = alerts.rules[0]
    assert (first.hold_ms, first.keep_firing_ms, first.line) == (120_000, 180_000, 17)
    assert parse_rules("groups:\n- {name: g, query_offset: 1m, limit: 3}", "r").groups[0].query_offset_ms == 60_000
    assert parse_rules("", "r").groups == ()


def test_scalars_are_text() -> None:
    """Values of labels are the text in the file, whatever YAML takes them for."""
    text = rule("alert: a", "expr: 1", "labels: {on: yes, version: 1.10, none: null, day: 2026-01-31}")
    labels = parse_rules(text, "r.yml").groups[0].rules[0].labels
    assert dict(labels) == {"on": "yes", "version": "1.10", "none": "", "day": "2026-01-31"}


def test_merged_keys() -> None:
    """Anchors and merged keys are read, and the keys of the rule win."""
    text = """
groups:
- name: g
  rules:
  - &base {alert: a, expr: up == 0, labels: {x: y}}
  - {<<: *base, alert: b}
"""
    rules = parse_rules(text, "r.yml").groups[0].rules
    assert [(one.name, one.expression, one.labels) for one in rules] == [
        ("a", "up == 0", (("x", "y"),)),
        ("b", "up == 0", (("x", "y"),)),
    ]


WRONG = [
    ("groups: 3", 'r.yml:1:9: expected a list, got "3"'),
    ("groups:\n- name: ''", "r.yml:2:3: a group needs a name"),
    ("groups:\n- name: g\n- name: g", 'r.yml:3:3: group name "g" is repeated'),
    ("group: []", 'r.yml:1:1: unknown key "group", expected one of groups'),
    ("groups: [", "r.yml:1:10: no valid YAML"),
    ("groups:\n- {name: g, interval: 5}", 'r.yml:2:23: group "g": not a valid duration string: "5"'),
    ("groups:\n- {name: g, limit: x}", 'r.yml:2:20: group "g": expected an integer, got "x"'),
    ("groups:\n- {name: g, name: h}", 'r.yml:2:13: key "name" is repeated'),
    ("groups:\n- {name: g, labels: {__name__: x}}", 'group "g": invalid label name "__name__"'),
    (rule("alert: a"), 'r.yml:4:5: group "g", rule 1 "a": a rule needs expr'),
    (rule("expr: x"), 'r.yml:4:5: group "g", rule 1: a rule needs record or alert'),
    (rule("record: r", "alert: a", "expr: x"), "a rule has either record or alert, this one has both"),
    (
        rule("record: r", "expr: sum("),
        'r.yml:5:11: group "g", rule 1 "r": could not parse expression: 1:5: ',
    ),
    (rule("record: r", "expr: x[5m]"), "expr is a range vector, expected an instant vector or a scalar"),
    (rule("record: r", "expr: '\"text\"'"), "expr is a string, expected an instant vector or a scalar"),
    (rule("record: r", "expr: x", "for: 5m"), 'r.yml:6:10: group "g", rule 1 "r": for is for alerting rules'),
    (rule("record: r", "expr: x", "annotations: {a: b}"), "annotations is for alerting rules"),
    (rule("record: 'sum{a}'", "expr: x"), "braces in the name of a recording rule"),
    (rule("alert: a", "expr: x", "four: 5m"), 'r.yml:6:5: unknown key "four"'),
    (
        rule("alert: a", "expr: x", "for: soon"),
        'r.yml:6:10: group "g", rule 1 "a": not a valid duration string',
    ),
    (rule("alert: a", "expr: x", "labels: [b]"), "expected keys and values, got a list"),
    (rule("alert: a", "expr: x", "labels: {__name__: b}"), 'invalid label name "__name__"'),
    (
        rule("alert: a", "expr: x", "annotations:", "  b: '{{ $label.x }}'"),
        'r.yml:7:10: group "g", rule 1 "a": annotation "b": template: 1:4: undefined variable "$label"',
    ),
    (rule("alert: a", "expr: x", "labels: {b: '{{ nope }}'}"), 'label "b": template: 1:4: function "nope" not defined'),
]


@pytest.mark.parametrize(("text", "message"), WRONG)
def test_problems(text: str, message: str) -> None:
    """A wrong file is reported with line, group, rule and the reason."""
    found = problems(text)
    assert any(message in one for one in found), found
    assert parse_rules(text, "r.yml").groups == ()


def test_duplicates_are_warnings() -> None:
    """Rules with the same name and labels are reported, and the file is read."""
    file = read_rules(CASES / "twice.yml")
    assert [one.is_warning for one in file.problems] == [True]
    assert 'the same name and labels as in group "twice", rule 1' in str(file.problems[0])
    assert len(file.groups[0].rules) == 2


def test_load(tmp_path: Path) -> None:
    """Several files are loaded together, or refused with all their errors."""
    assert [one.name for one in load_rules([CASES / "shop.yml", CASES / "twice.yml"])] == [
        "recordings",
        "alerts",
        "twice",
    ]
    (tmp_path / "a.yml").write_text(rule("alert: a"))
    (tmp_path / "b.yml").write_bytes(b"\xff\xfe\xff")
    with pytest.raises(InvalidRules) as error:
        load_rules([tmp_path / "a.yml", tmp_path / "b.yml", tmp_path / "c.yml"])
    assert error.value.message.count("\n") == 2
    assert "expected UTF-8" in error.value.message


@given(st.text(alphabet="groups:- namerlxp{}[]&*!|>'\"\n 5#", max_size=80))
def test_any_text(text: str) -> None:
    """Any text is a rule file or has problems."""
    parse_rules(text, "r.yml")
