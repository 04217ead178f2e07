"""Expiry forgets what is old, and nothing that a branch, a tag or ingestion stands on."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given, settings

from neve.ingest.files import ledger as ingest_ledger
from neve.maintain import expire
from neve.maintain.expire_plan import ExpirePlan, ExpirePolicy, TableState, plan_expiry
from neve.maintain.snapshots import Ref, ancestors, find_newest_of_streams, head_of
from neve.model.commits import BATCH_ID, POSITIONS, STREAM
from tests.maintain.lines import HOUR, NOW, branch, carried, expired, histories, line, policies, snapshot

DAY = 24 * HOUR
POLICY = ExpirePolicy(max_age=5 * DAY, min_snapshots=2, floor=HOUR)


def ids(plan: ExpirePlan) -> list[int]:
    """The snapshots that a plan lets go."""
    return [one.id for one in plan.expire]


def reason(plan: ExpirePlan, snapshot_id: int) -> str:
    """Why a snapshot is kept beyond its age."""
    [entry] = [one for one in plan.entries if one.action == "keep" and f"snapshot {snapshot_id} " in one.what]
    return entry.reason


def applied(known: TableState, policy: ExpirePolicy) -> tuple[TableState, ExpirePlan]:
    """The table after a run, and the plan that was applied in the end."""
    known = carried(known, plan_expiry(known, policy, NOW))
    plan = plan_expiry(known, policy, NOW)
    assert plan.carry == ()
    return expired(known, plan), plan


@pytest.mark.slow
@settings(max_examples=250, deadline=None, derandomize=True)
@given(histories(), policies)
def test_whatever_the_history_nothing_needed_goes(known: TableState, policy: ExpirePolicy) -> None:
    """Heads, the last few of each branch, young ones, unfinished batches and every stream's position stay."""
    after, plan = applied(known, policy)
    gone = set(ids(plan))
    assert {ref.snapshot_id for ref in after.refs}.isdisjoint(gone)
    for ref in (ref for ref in after.refs if ref.is_branch):
        least = ref.min_snapshots or policy.min_snapshots
        last = [one.id for one in ancestors(known.snapshots, ref.snapshot_id)][:least]
        assert gone.isdisjoint(last)
    assert all(one.at < NOW - policy.floor for one in plan.expire)
    assert known.needed_batches.isdisjoint(one.summary.get(BATCH_ID, "") for one in plan.expire)
    before = find_newest_of_streams(known.snapshots, head_of(known.refs))
    found = find_newest_of_streams(after.snapshots, head_of(after.refs))
    positions = {stream: one.summary[POSITIONS] for stream, one in before.items()}
    assert {stream: one.summary[POSITIONS] for stream, one in found.items()} == positions


@pytest.mark.slow
@settings(max_examples=120, deadline=None, derandomize=True)
@given(histories(), policies)
def test_planning_again_finds_nothing(known: TableState, policy: ExpirePolicy) -> None:
    """A run leaves nothing for the next one at the same moment, and no snapshot without a word."""
    after, _plan = applied(known, policy)
    again = plan_expiry(after, policy, NOW)
    assert (ids(again), again.drop, again.carry) == ([], (), ())
    beyond = [one for one in after.snapshots if one.at < NOW - policy.max_age]
    assert len([entry for entry in again.entries if entry.action == "keep"]) == len(beyond)


def test_too_many_go_before_their_age() -> None:
    """The oldest first; what ingestion looks for duplicates by stays, however many that are."""
    known = TableState(line(5, 4, 3, 2, 1), (branch(5),))
    plan = plan_expiry(known, replace(POLICY, max_snapshots=3), NOW)
    assert ids(plan) == [1, 2]
    assert plan.entries[0].reason == "beyond the last 3 of its branch, and nothing needs it"
    busy = TableState(line(0.9, 0.8, 0.7, 0.6, 0.5), (branch(5),))
    assert ids(plan_expiry(busy, replace(POLICY, max_snapshots=3), NOW)) == []
    assert ids(plan_expiry(known, POLICY, NOW)) == []


def test_old_ones_go_and_the_last_few_stay() -> None:
    """By age, but never below the number that is to be kept; each with its reason."""
    plan = plan_expiry(TableState(line(400, 300, 200, 150), (branch(4),)), POLICY, NOW)
    assert ids(plan) == [1, 2]
    assert (reason(plan, 3), reason(plan, 4)) == ("one of the last 2 of branch main", "the head of branch main")
    assert plan.entries[0].reason == "older than 5 d, and nothing needs it"


def test_who_reads_what_changed_finds_the_way() -> None:
    """The snapshots since its last time stay, unless it was away for more than a week."""
    young = TableState(line(400, 160, 150, 140, 1), (branch(5),), readers=(("metrics_1m", 2),))
    plan = plan_expiry(young, POLICY, NOW)
    assert ids(plan) == [1]
    assert (reason(plan, 2), reason(plan, 3)) == ("metrics_1m continues from there",) * 2
    away = TableState(line(400, 180, 150, 140, 1), (branch(5),), readers=(("metrics_1m", 2),))
    assert ids(plan_expiry(away, POLICY, NOW)) == [1, 2, 3]


def test_tags_and_branches_hold_their_snapshots() -> None:
    """A tag its one, a branch what its own settings say; a tag past its own age is dropped."""
    refs = (
        branch(5),
        Ref("release", 1, is_branch=False),
        Ref("old", 2, is_branch=False, max_age=DAY),
        Ref("staged", 4, is_branch=True, min_snapshots=1, max_snapshot_age=DAY),
    )
    plan = plan_expiry(TableState(line(500, 400, 300, 200, 1), refs), POLICY, NOW)
    assert (ids(plan), [ref.name for ref in plan.drop]) == ([2, 3], ["old"])
    assert (reason(plan, 1), reason(plan, 4)) == ("tag release points to it", "the head of branch staged")


def test_an_old_snapshot_that_is_held_says_what_it_costs() -> None:
    """At most the bytes that were taken out of the table since."""
    first, second, third = line(500, 400, 1)
    third = replace(third, summary={"removed-files-size": "700"})
    known = TableState((first, second, third), (branch(3), Ref("release", 1, is_branch=False)))
    [held] = [
        entry for entry in plan_expiry(known, replace(POLICY, min_snapshots=1), NOW).entries if entry.action == "keep"
    ]
    assert (held.reason, held.bytes) == ("tag release points to it", 700)


def test_the_position_of_a_resting_stream_is_carried() -> None:
    """Its last commit is old: the position goes into a new snapshot, then the old one can go."""
    rest = snapshot(1, 500, {STREAM: "kafka", POSITIONS: '{"t:0":7}'})
    known = TableState((rest, *line(500, 400, 300, 1)[1:]), (branch(4),))
    plan = plan_expiry(known, POLICY, NOW)
    assert ([one.stream for one in plan.carry], ids(plan)) == (["kafka"], [1, 2])
    assert plan.entries[0].what == "position of stream kafka"
    kept = plan_expiry(known, replace(POLICY, carry=False), NOW)
    assert (ids(kept), kept.carry) == ([], ())
    assert reason(kept, 1) == "stream kafka continues from it"
    assert reason(kept, 2) == "stream kafka finds its position through it"


def test_a_tag_on_a_streams_snapshot_is_no_way_to_it() -> None:
    """A stream walks from parent to parent: what lies behind a gap it does not find, tag or not."""
    rest = snapshot(1, 500, {STREAM: "kafka", POSITIONS: "{}"})
    refs = (branch(4), Ref("release", 1, is_branch=False))
    plan = plan_expiry(TableState((rest, *line(500, 400, 300, 1)[1:]), refs), POLICY, NOW)
    assert ([one.stream for one in plan.carry], ids(plan)) == (["kafka"], [2])


def test_unfinished_batches_and_the_horizon_of_duplicates_stay() -> None:
    """Whoever finishes the batch must find its id; ingestion looks at manifests of young snapshots."""
    first, *others = line(500, 400, 300, 200, 1)
    known = TableState(
        (replace(first, summary={BATCH_ID: "b"}), *others), (branch(5),), needed_batches=frozenset({"b"})
    )
    plan = plan_expiry(known, replace(POLICY, floor=timedelta(hours=350)), NOW)
    assert ids(plan) == [2]
    assert reason(plan, 1) == "batch b is unfinished, and recognized by it"
    assert reason(plan, 3) == "so young that ingestion may still need it"


def test_a_branch_that_would_forget_too_much_is_refused() -> None:
    """Iceberg obeys a branch's own age whatever list it gets, so the run must not begin."""
    hasty = Ref("main", 3, is_branch=True, max_snapshot_age=HOUR, min_snapshots=1)
    plan = plan_expiry(TableState(line(50, 40, 30), (hasty,)), replace(POLICY, floor=timedelta(hours=45)), NOW)
    assert plan.refused.startswith("a branch's own max-snapshot-age would expire snapshot 2, which must stay")


@pytest.mark.parametrize(("hours", "gone"), [(121, [1]), (119, [])])
def test_a_snapshot_that_nothing_leads_to_goes_by_its_age(hours: float, gone: list[int]) -> None:
    """An abandoned line, say after a rollback, is kept as long as others are."""
    known = TableState((snapshot(1, hours), snapshot(2, 1)), (branch(2),))
    assert ids(plan_expiry(known, POLICY, NOW)) == gone


def test_the_ledger_is_read_in_its_own_words() -> None:
    """The rooms do not know each other, and must mean the same by planned."""
    assert expire.PLANNED == ingest_ledger.PLANNED
