"""Tags are set when they are due, taken away when they are past, and a user's own are never touched."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from neve.maintain.expire_plan import find_expired_refs
from neve.maintain.snapshots import Ref
from neve.maintain.tags import NewTag, TagPlan, make_series, plan_tags
from tests.maintain.lines import HOUR, NOW, branch, line

SERIES = make_series(24, 7, 12)
TABLE = line(2000, 30, 5, 1, 0.1)


def after(refs: tuple[Ref, ...], plan: TagPlan) -> tuple[Ref, ...]:
    """The branches and tags after a plan was applied."""
    new = [Ref(tag.name, tag.snapshot_id, is_branch=False, max_age=tag.retain_hours * HOUR) for tag in plan.create]
    return (*(ref for ref in refs if ref.name not in plan.drop), *new)


def test_each_series_gets_the_newest_snapshot_before_its_boundary() -> None:
    """At 03:20: the table as it was at 03:00, at midnight and at the beginning of the month."""
    plan = plan_tags(TABLE, (branch(5),), SERIES, NOW)
    assert plan.create == (
        NewTag("neve-hourly-2026-11-16T03", 4, 25),
        NewTag("neve-daily-2026-11-16", 3, 7 * 24 + 2),
        NewTag("neve-monthly-2026-11", 1, 10_397),
    )
    assert plan.entries[0].reason.startswith(
        "the table as it was at 2026-11-16 03:00:00: snapshot 4 of 2026-11-16 02:20"
    )


def test_tags_past_their_time_go_and_others_stay() -> None:
    """Only those whose names Neve itself would give."""
    names = ("neve-hourly-2026-11-15T03", "neve-hourly-2026-11-15T04", "neve-daily-2026-11-01", "neve-daily-mine")
    users = ("release", "neve-hourly-2026-11-15", "neve-hourly-2020-1-1T1", "xneve-daily-2020-01-01")
    refs = (branch(5), *(Ref(name, 3, is_branch=False) for name in (*names, *users)))
    refs += (Ref("neve-daily-2020-01-01", 3, is_branch=True),)
    assert plan_tags(TABLE, refs, SERIES, NOW).drop == ("neve-hourly-2026-11-15T03", "neve-daily-2026-11-01")


def test_a_series_of_none_sets_none() -> None:
    """And takes away what it had."""
    refs = (branch(5), Ref("neve-hourly-2026-11-16T03", 4, is_branch=False))
    plan = plan_tags(TABLE, refs, make_series(0, 0, 0), NOW)
    assert (plan.create, plan.drop) == ((), ("neve-hourly-2026-11-16T03",))


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.lists(st.integers(0, 300_000), max_size=6), st.tuples(*[st.integers(0, 40)] * 3))
def test_planning_again_is_empty_at_any_time(steps: list[int], keep: tuple[int, int, int]) -> None:
    """Run after run, whatever time passes: nothing is due twice, and Iceberg drops no tag before its time."""
    now, series = NOW, make_series(*keep)
    refs: tuple[Ref, ...] = (branch(5), Ref("release", 1, is_branch=False))
    for seconds in [0, *steps]:
        now += timedelta(seconds=seconds)
        refs = after(refs, plan_tags(TABLE, refs, series, now))
        again = plan_tags(TABLE, refs, series, now)
        assert (again.create, again.drop) == ((), ())
        assert find_expired_refs(TABLE, refs, now) == ()
        assert "release" in {ref.name for ref in refs}
    for one in series:
        assert len([ref for ref in refs if one.moment(ref.name)]) <= one.keep
