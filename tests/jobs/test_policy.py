"""A policy: what may be written, and what is said of what may not."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from neve.jobs.job import SCHEDULED_TASKS, Task
from neve.jobs.policy import DAYS, Batch, Budget, Policy, Quiet, Rule


def refusal(kind: type[Any], **values: Any) -> str:
    """What is said of wrong values."""
    with pytest.raises(ValidationError) as caught:
        kind(**values)
    return "\n".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in caught.value.errors())


def test_a_whole_policy() -> None:
    """As it comes out of YAML."""
    policy = Policy.model_validate(
        {
            "name": "nightly",
            "tables": ["metrics_*", "logs"],
            "tasks": {
                "compact": {"every": "10m", "batch": {"count": 20}},
                "maintain": {"cron": " 30 3  * * mon-fri", "zone": "Europe/Zurich"},
                "autopilot": {"enabled": False},
            },
            "quiet": [{"start": "08:00", "end": "17:00", "days": ["mon", "tue"], "tasks": ["compact"]}],
        }
    )
    assert policy.tasks[Task.COMPACT].batch == Batch(count=20)
    assert policy.tasks[Task.MAINTAIN].clock == "30 3 * * mon-fri Europe/Zurich"
    assert not policy.tasks[Task.AUTOPILOT].enabled
    assert policy.quiet[0].tasks == (Task.COMPACT,)


@pytest.mark.parametrize(
    ("written", "read"), [(22 * 60, "22:00"), (0, "00:00"), (24 * 60, "24:00"), ("07:30", "07:30")]
)
def test_times_that_yaml_takes_for_numbers(written: int | str, read: str) -> None:
    """22:00 without quotes is the number of its minutes to YAML."""
    assert Quiet.model_validate({"start": written, "end": "06:00"}).start == read


@pytest.mark.parametrize("written", ["7:30", "25:00", "24:01", "12:60", "noon", 1441, -1, True])
def test_what_is_no_time_of_day(written: object) -> None:
    """Nothing is guessed."""
    assert refusal(Quiet, start=written, end="06:00").startswith("start: ")


def test_every_day_and_every_task_are_quiet_by_default() -> None:
    """Whoever wants less says so."""
    quiet = Quiet(start="08:00", end="17:00")
    assert (quiet.days, quiet.tasks, quiet.zone) == (DAYS, SCHEDULED_TASKS, "UTC")


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"cron": "61 * * * *"}, "cron: Value error, is not a cron expression (bad minute), expected five"),
        ({"cron": "0 0 30 feb *"}, "cron: Value error, is not a cron expression (bad day-of-month)"),
        ({"every": "10"}, "every: Value error, is not an interval, expected a number and a unit"),
        ({"every": "1h", "zone": "Mars"}, "zone: Value error, is not a time zone, expected an IANA name"),
        ({}, "is a rule that never starts its task, expected every, cron, batch, or enabled: false"),
        ({"every": "1h", "evry": "1h"}, "evry: Extra inputs are not permitted"),
        ({"batch": {"count": 0}}, "batch.count: Input should be greater than or equal to 1"),
    ],
)
def test_wrong_rules(values: dict[str, Any], words: str) -> None:
    """With the key and what was expected."""
    assert words in refusal(Rule, **values)


def test_a_budget_has_a_limit() -> None:
    """Without one it would only look like one; and it is a number."""
    assert "without a limit" in refusal(Budget, organization="acme")
    assert "finite" in refusal(Budget, dollars_per_day=float("nan"))


def test_budgets_count_over_all_tables() -> None:
    """A budget in a policy for some tables would not mean what it seems to."""
    budget = Budget(organization="acme", dollars_per_day=1)
    assert 'expected tables: ["*"]' in refusal(Policy, name="a", tables=["logs"], budgets=[budget])
    assert Policy(name="a", budgets=(budget,)).tables == ("*",)


@pytest.mark.parametrize("name", ["", "Nightly", "a b", "-a", "a" * 64])
def test_names_are_plain(name: str) -> None:
    """They are said in reasons, and written in files."""
    assert refusal(Policy, name=name, tasks={"compact": {"every": "1h"}}).startswith("name: ")


def test_a_policy_says_something() -> None:
    """One that is only a name is a mistake."""
    assert "has no content" in refusal(Policy, name="a")
    assert "tables: " in refusal(Policy, name="a", tables=[], tasks={"compact": {"every": "1h"}})
