"""The rule that says most counts, and what it lets go is said to the row."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neve.errors import LakeError
from neve.lake.calendar import Unit, from_ordinal, to_ordinal
from neve.maintain.config import MaintainConfig, RetentionRule
from neve.maintain.job import Maintainer
from neve.maintain.retention_plan import Deletion, PartitionFacts, plan_retention, rule_for, rules_for
from tests.maintain.lines import NOW

if TYPE_CHECKING:
    from neve.lake.lake import Lake

DAYS = {"acme": 3, "globex": 10}
OWNERS = st.sampled_from([None, "acme", "globex", "other"])


def rule(days: float, **parts: str) -> RetentionRule:
    """A rule."""
    return RetentionRule(days=days, **parts)


def partition(owner: str | None, age_days: float, *, unit: Unit = "day") -> PartitionFacts:
    """A partition with one file, whose first row is so many days old."""
    moment = NOW - timedelta(days=age_days)
    return PartitionFacts(owner, to_ordinal(unit, moment), 1, 10, 1000, moment)


@pytest.mark.parametrize(
    ("table", "organization", "days"),
    [
        ("spans", "acme", 5),
        ("telemetry.spans", "acme", 5),
        ("spans", "globex", 30),
        ("span_repeats", "acme", 5),
        ("span_repeats", "globex", 30),
        ("logs", "acme", 7),
        ("logs", "globex", 20),
        ("metrics", "globex", 90),
        ("metrics_1h", "globex", 0),
        ("sales.orders", None, 90),
        ("ingested_files", "globex", None),
    ],
)
def test_the_rule_that_says_most_counts(table: str, organization: str | None, days: float | None) -> None:
    """An organization before a table, a table before a signal, that before a pattern; the ledger only by name."""
    rules = [
        rule(90),
        rule(0, table="metrics_*"),
        rule(30, table="spans"),
        rule(20, signal="logs"),
        rule(7, organization="acme"),
        rule(5, organization="acme", table="spans"),
    ]
    found = rule_for(rules_for(rules, table), organization)
    assert (found.days if found else None) == days


def test_of_two_rules_alike_the_one_that_keeps_longer_counts() -> None:
    """A mistake in a file of rules must not delete."""
    found = rule_for(rules_for([rule(90, table="spans"), rule(0, table="spans"), rule(3, table="spans")], "spans"), "x")
    assert found is not None
    assert found.days == 0


def test_whole_partitions_go_by_metadata_and_the_boundary_by_the_row() -> None:
    """Organizations with the same cutoff share a statement; whole partitions come first."""
    rules = (rule(3), rule(0, organization="kept"))
    parts = [partition(owner, age) for owner in ("acme", "globex", "kept") for age in (9, 3.1, 1)]
    plan = plan_retention("spans", rules, parts, NOW, "day")
    cutoff = NOW - timedelta(days=3)
    assert plan.deletions == (
        Deletion(("acme", "globex"), cutoff.replace(hour=0, minute=0), True, 2, 20, 2000),
        Deletion(("acme", "globex"), cutoff, False, 2, 20, 2000),
    )
    assert plan.entries[-1].reason == "the rule for organization kept keeps it forever"
    assert [one.whole for one in plan_retention("spans", rules, parts, NOW, "day", exact=False).deletions] == [True]


def test_a_boundary_without_an_old_row_is_left_alone() -> None:
    """The bounds of its files say so: nothing is rewritten for nothing."""
    plan = plan_retention("spans", (rule(3),), [partition("acme", 2.99)], NOW, "day")
    assert (plan.deletions, plan.entries[0].reason) == ((), "nothing is older than 3 days")


def test_a_table_without_time_partitions_is_deleted_by_the_row() -> None:
    """Where a file has no bounds, it may hold anything."""
    plan = plan_retention("spans", (rule(3),), [PartitionFacts(None, None, 1, 10, 1000, mixed=True)], NOW, None)
    assert plan.deletions == (Deletion(None, NOW - timedelta(days=3), False, 1, 10, 1000),)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(
    st.lists(st.tuples(st.sampled_from(["acme", "globex", "other"]), st.integers(0, 20 * 86_400)), max_size=30),
    st.sampled_from(["hour", "day", "month", "year"]),
)
def test_the_statements_together_delete_exactly_what_is_past(rows: list[tuple[str, int]], unit: Unit) -> None:
    """For any rows and any partitioning: what the rules say, to the row, and whole partitions never cut one in two."""
    moments = [(owner, NOW - timedelta(seconds=age)) for owner, age in rows]
    facts = [PartitionFacts(owner, to_ordinal(unit, at), 1, 1, 1, at) for owner, at in moments]
    plan = plan_retention("spans", [rule(days, organization=owner) for owner, days in DAYS.items()], facts, NOW, unit)

    def past(owner: str, at: datetime) -> bool:
        return owner in DAYS and at < NOW - timedelta(days=DAYS[owner])

    def deleted(owner: str, at: datetime) -> bool:
        return any(owner in (one.organizations or ()) and at < one.before for one in plan.deletions)

    assert [deleted(*row) for row in moments] == [past(*row) for row in moments]
    assert all(from_ordinal(unit, to_ordinal(unit, one.before)) == one.before for one in plan.deletions if one.whole)


def test_rows_without_an_organization_are_named_beside_others() -> None:
    """They are not left out of a statement, and it is not made one for everybody."""
    parts = [partition(owner, 9) for owner in (None, "acme", "globex")]
    plan = plan_retention("spans", (rule(3), rule(365, organization="acme")), parts, NOW, "day")
    before = (NOW - timedelta(days=3)).replace(hour=0, minute=0)
    assert plan.deletions == (Deletion((None, "globex"), before, True, 2, 20, 2000),)


@pytest.mark.slow
@settings(max_examples=300, deadline=None, derandomize=True)
@given(
    st.lists(st.tuples(OWNERS, st.integers(0, 20 * 86_400), st.booleans()), max_size=20),
    st.lists(st.tuples(st.sampled_from(["", "", "acme", "globex"]), st.sampled_from([0, 3, 10])), max_size=3),
    st.booleans(),
)
def test_no_row_goes_by_the_rule_of_another(
    rows: list[tuple[str | None, int, bool]], said: list[tuple[str, int]], old_files: bool
) -> None:
    """For any owners, nobody too, and any rules: what its own rule says; or all is refused, where files do not say."""
    rules = [rule(days, organization=owner) for owner, days in said]
    known = [(owner, NOW - timedelta(seconds=age), mixed and old_files) for owner, age, mixed in rows]
    facts = [
        PartitionFacts(None if mixed else owner, None if mixed else to_ordinal("day", at), 1, 1, 1, at, mixed)
        for owner, at, mixed in known
    ]
    if any(mixed for *_, mixed in known) and any(owner for owner, _ in said):
        with pytest.raises(LakeError, match=r"^spans has .* of a partition spec without organization_id"):
            plan_retention("spans", rules, facts, NOW, "day")
        return
    plan = plan_retention("spans", rules, facts, NOW, "day")

    def past(owner: str | None, at: datetime) -> bool:
        own = rule_for(rules, owner)
        return own is not None and own.days > 0 and at < NOW - timedelta(days=own.days)

    def deleted(owner: str | None, at: datetime) -> bool:
        return any(
            (one.organizations is None or owner in one.organizations) and at < one.before for one in plan.deletions
        )

    assert [deleted(owner, at) for owner, at, _ in known] == [past(owner, at) for owner, at, _ in known]
    if any(owner for owner, _ in said):
        assert all(one.organizations for one in plan.deletions)


def test_a_table_that_rules_can_not_be_applied_to_is_said(lake: Lake) -> None:
    """No time column of that name; nothing is deleted."""
    config = MaintainConfig(retention=(rule(1, table="logs", column="message"),))
    [result] = Maintainer(lake, config).run("logs", ["retention"], dry_run=True)
    assert result.error == "telemetry.logs has no time column for retention (message)"
