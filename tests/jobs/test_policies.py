"""Policies together: which rule wins, how they are written and read, who may change them, and what has no effect."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from neve.errors import ConfigError
from neve.jobs.job import Task
from neve.jobs.policies import MatchedRule, Policies, PolicyConflict, PolicyStore, load_policies, read_policies
from neve.jobs.policy import BUILT_IN, Batch, Policy, Rule, build_default_policy
from tests.compact.tables import documents_in

if TYPE_CHECKING:
    from pathlib import Path

TABLES = ["logs", "metrics", "metrics_1m", "spans"]
NOON = datetime(2026, 3, 10, 12, tzinfo=UTC)


def policy(name: str, **values: Any) -> Policy:
    """A policy, as it comes out of YAML."""
    return Policy.model_validate({"name": name, **values})


def hourly(name: str, *tables: str, task: str = "compact", hours: int = 1) -> Policy:
    """A policy with a rule for one task."""
    return policy(name, tables=tables or ["*"], tasks={task: {"every": f"{hours}h"}})


def test_the_first_that_matches_and_names_the_task_wins() -> None:
    """A policy that matches, but says nothing of the task, is passed over; the built-in one comes last."""
    policies = Policies((hourly("a", "logs", task="maintain"), hourly("b", "lo*"), hourly("c", hours=2)))
    assert policies.rule(Task.COMPACT, "logs") == MatchedRule("b", Rule(every="1h"))
    assert policies.rule(Task.COMPACT, "spans") == MatchedRule("c", Rule(every="2h"))
    assert policies.rule(Task.MAINTAIN, "logs") == MatchedRule("a", Rule(every="1h"))
    assert policies.rule(Task.MAINTAIN, "spans") == MatchedRule(BUILT_IN, Rule(cron="30 3 * * *"))


def test_patterns_are_of_whole_names_and_of_their_case() -> None:
    """On every system."""
    policies = Policies((hourly("a", "metrics_?[mh]", "LOGS"),))
    own = MatchedRule("a", Rule(every="1h"))
    matched = [name for name in (*TABLES, "metrics_1d", "metrics_1h") if policies.rule(Task.COMPACT, name) == own]
    assert matched == ["metrics_1m", "metrics_1h"]


def test_what_applies_without_policies() -> None:
    """Each task has a rule; the autopilot's is off until somebody sets it up."""
    without, configured = Policies(), Policies((), build_default_policy(4))
    assert without.batch(Task.COMPACT, "logs") == Batch(count=200, bytes=256 * 1024 * 1024, age_seconds=120)
    assert without.batch(Task.ROLLUP, "metrics_1m") == Batch(age_seconds=20)
    assert without.batch(Task.SEARCH, "logs") == Batch(age_seconds=60)
    assert without.batch(Task.MAINTAIN, "logs") is None
    assert without.rule(Task.AUTOPILOT, "") == MatchedRule(BUILT_IN, Rule(enabled=False))
    assert configured.rule(Task.AUTOPILOT, "") == MatchedRule(BUILT_IN, Rule(cron="0 4 * * *"))


def test_what_is_disabled_is_not_started_by_commits() -> None:
    """Though it says how it would be."""
    off = policy("off", tasks={"compact": {"enabled": False, "batch": {}}})
    assert Policies((off,)).batch(Task.COMPACT, "logs") is None


def test_names_are_there_once() -> None:
    """And the built-in policy's is taken."""
    with pytest.raises(ConfigError, match="it is used twice"):
        Policies((hourly("a"), hourly("a")))
    with pytest.raises(ConfigError, match="it is reserved"):
        Policies((hourly(BUILT_IN),))


def test_quiet_hours_are_those_of_all_policies_that_match() -> None:
    """Also of one whose rules do not win; said with its name and when they end."""
    office = {"start": "08:00", "end": "17:00", "zone": "Europe/Zurich", "tasks": ["compact"]}
    policies = Policies((hourly("first"), policy("office", tables=["l*"], quiet=[office])))
    assert policies.quiet(Task.COMPACT, "logs", NOON) == "quiet hours of policy office until 17:00 Europe/Zurich"
    assert policies.quiet(Task.MAINTAIN, "logs", NOON) is None
    assert policies.quiet(Task.COMPACT, "spans", NOON) is None
    assert policies.quiet(Task.COMPACT, "logs", NOON.replace(hour=16)) is None


def test_quiet_hours_without_end() -> None:
    """Are said to be so."""
    always = policy("holiday", quiet=[{"start": "00:00", "end": "24:00"}])
    assert Policies((always,)).quiet(Task.AUTOPILOT, "", NOON) == "quiet hours of policy holiday without end"


def test_budgets_of_all_policies_in_order() -> None:
    """So that a policy before another one has the first word."""
    one = policy("a", budgets=[{"organization": "acme", "dollars_per_day": 1}])
    two = policy("b", budgets=[{"bytes_per_day": 5}])
    assert [budget.organization for budget in Policies((one, two)).budgets()] == ["acme", "*"]


def test_what_has_no_effect_is_said() -> None:
    """A policy for no table, a pattern for none, a task that is about other tables, one that others decide."""
    found = Policies(
        (
            hourly("gone", "lgs"),
            hourly("half", "logs", "metrix_*"),
            hourly("wrong", "spans", task="rollup"),
            hourly("late", "logs"),
            hourly("night", "*", task="autopilot"),
        )
    ).warnings(TABLES)
    assert found == [
        "policy gone: no table of the lake matches lgs",
        "policy half: no table of the lake matches metrix_*",
        "policy wrong: rollup applies to none of its tables",
        "policy late: earlier policies have the rules for compact of its tables",
    ]


def test_a_folder_of_files(tmp_path: Path) -> None:
    """After the settings, by the names of the files: a list, one policy alone, or below `policies`."""
    (tmp_path / "20-b.yaml").write_text("name: b\ntasks: {compact: {every: 1h}}\n")
    (tmp_path / "10-a.yml").write_text("- {name: a, quiet: [{start: 22:00, end: 06:00}]}\n")
    (tmp_path / "30-c.yaml").write_text('policies:\n  - {name: c, tables: ["*"], tasks: {search: {every: 5m}}}\n')
    (tmp_path / "40-empty.yaml").write_text("# nothing yet\n")
    (tmp_path / "readme.md").write_text("not YAML: [")
    found = load_policies([hourly("z")], str(tmp_path), build_default_policy(None))
    assert [one.name for one in found.written] == ["z", "a", "b", "c"]
    assert found.written[1].quiet[0].start == "22:00"


def test_what_is_wrong_with_a_file_is_said(tmp_path: Path) -> None:
    """The file, the policy, the key, the value, what was expected: all at once."""
    path = tmp_path / "a.yaml"
    path.write_text(
        "- {name: nightly, tasks: {compact: {cron: 61 * * * *}, compactt: {every: 1h}}}\n- {tables: 3, quite: []}\n"
    )
    with pytest.raises(ConfigError) as caught:
        load_policies([], str(tmp_path), build_default_policy(None))
    lines = caught.value.message.splitlines()
    assert all(line.startswith(f"{path}: policy ") for line in lines)
    assert (
        f"{path}: policy 'nightly': tasks.compact.cron: got '61 * * * *', which is not a cron expression (bad minute), "
        "expected five: minute, hour, day of month, month, day of week, as in 30 3 * * mon-fri" in lines
    )
    assert any("policy 'nightly': tasks.compactt: got 'compactt', which should be 'compact'" in line for line in lines)
    assert f"{path}: policy 1: quite: unknown key" in lines
    assert f"{path}: policy 1: name: is missing" in lines


@pytest.mark.parametrize(
    ("text", "words"),
    [("- {cron: *x}", r"is not YAML \(line 1\)"), ("just words", "got 'just words', which should be a valid tuple")],
)
def test_what_is_no_list_of_policies(tmp_path: Path, text: str, words: str) -> None:
    """A star without quotes is a common one."""
    (tmp_path / "a.yaml").write_text(text)
    with pytest.raises(ConfigError, match=words):
        load_policies([], str(tmp_path), build_default_policy(None))


def test_a_name_in_two_files_is_refused(tmp_path: Path) -> None:
    """With both places."""
    for name in ("a", "b"):
        (tmp_path / f"{name}.yaml").write_text("name: same\ntasks: {compact: {every: 1h}}\n")
    with pytest.raises(ConfigError, match=r"b.yaml: policy 'same' is in .*a.yaml already"):
        load_policies([], str(tmp_path), build_default_policy(None))


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    """A typing error must not mean that no policy applies."""
    with pytest.raises(ConfigError, match="expected a folder of YAML files"):
        load_policies([], str(tmp_path / "none"), build_default_policy(None))


def test_what_was_written_wins_until_it_is_cleared(tmp_path: Path) -> None:
    """Over the files, for all who share the store; it comes back as it was written."""
    given = Policies((hourly("file"),), build_default_policy(3))
    store, other = PolicyStore(documents_in(tmp_path), given), PolicyStore(documents_in(tmp_path), given)
    assert store.load() == given
    assert store.source() == "the configuration"
    written = policy(
        "rest", tables=["logs"], tasks={"compact": {"batch": {"count": 3}}}, quiet=[{"start": 60, "end": 120}]
    )
    version = store.save(Policies((written,)), by="ann")
    assert other.version() == version
    assert other.load() == Policies((written,), build_default_policy(3))
    assert other.source().startswith("written by ann at 20")
    assert other.clear(expected=version) == PolicyStore(documents_in(tmp_path), given).version()
    assert store.load() == given


def test_of_two_who_change_at_once_one_is_told(tmp_path: Path) -> None:
    """Nobody writes over what he has not seen; the built-in policies have a version, too."""
    store = PolicyStore(documents_in(tmp_path), Policies())
    assert store.source() == "built in"
    seen = store.version()
    store.save(Policies((hourly("a"),)), by="ann", expected=seen)
    with pytest.raises(PolicyConflict, match="they were changed meanwhile"):
        store.save(Policies((hourly("b"),)), by="bob", expected=seen)
    with pytest.raises(PolicyConflict):
        store.clear(expected=seen)
    assert [one.name for one in store.load().written] == ["a"]


def test_policies_of_a_program(tmp_path: Path) -> None:
    """The same words, with another place; none is a list, too."""
    with pytest.raises(ConfigError, match=r"^the request: policy 'a': tasks.compact.every: got '5'"):
        read_policies([{"name": "a", "tasks": {"compact": {"every": "5"}}}], "the request")
    assert read_policies(None, "the request") == ()
    assert read_policies(Policies((hourly("a"),)).plain, "the request") == (hourly("a"),)
