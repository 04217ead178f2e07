"""Cycles of a selector: what is ready when, what is read, and what is decided once and for all."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from neve.errors import ConfigError, LeaseLost
from neve.lake.commit.append import append_once
from neve.lake.write.table_writer import Target, write_files
from neve.model.tables import SPANS
from neve.tail import selector as job_module
from neve.tail.checkpoint import Checkpoint
from neve.tail.cycle_files import commit_decisions, commit_open
from tests.tail.lakes import ACME, ERRORS, OTHER, Span, percentage, policies, put

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.tail.lakes import Desk

KEPT, NOT_KEPT = ("decided", "sampled", "errors"), ("decided", "not_sampled", None)


def test_a_trace_is_decided_when_no_span_came_for_a_while(desk: Desk) -> None:
    """A trace is decided when no span came for a while."""
    put(desk.lake, [Span(1, 1, error=True), Span(1, 2, at=2), Span(2, 1, at=100)])

    assert desk.run(at=302).decided.traces == 0
    assert len(desk.open()) == 2

    result = desk.run(at=303)
    assert (result.decided.traces, result.decided.spans, result.spans) == (1, 2, 0)
    assert desk.told() == {1: [KEPT]}
    assert [row["ready_because"] for row in desk.decisions()] == ["inactive"]

    desk.run(at=500)
    assert desk.told() == {1: [KEPT], 2: [NOT_KEPT]}
    assert desk.open() == []


def test_a_trace_that_goes_on_is_decided_after_the_longest_wait(desk: Desk) -> None:
    """A trace that goes on is decided after the longest wait."""
    for minute in range(62):
        if minute in (30, 59):
            put(desk.lake, [Span(1, number, at=60.0 * number) for number in range(minute - 29, minute)])
            desk.run(at=60 * minute)
    put(desk.lake, [Span(1, 90, at=3590), Span(1, 91, at=3599)])
    desk.run(at=3700)

    (row,) = desk.decisions()
    assert row["ready_because"] == "max_duration"
    assert row["span_count"] == 60
    assert row["duration_ms"] > 1000
    assert (row["decision"], row["policy"]) == ("sampled", "slow")


def test_a_trace_is_decided_a_while_after_its_root(desk: Desk) -> None:
    """A trace is decided a while after its root."""
    desk.set(after_root_seconds=10)
    put(desk.lake, [Span(1, 1, at=0, root=True, seconds=5), Span(1, 2, at=1), Span(2, 1, at=0)])

    desk.run(at=16)
    assert desk.told() == {1: [("decided", "sampled", "slow")]}
    assert desk.decisions()[0]["ready_because"] == "root_ended"


def test_event_time_goes_by_when_spans_ended(desk: Desk) -> None:
    """Event time goes by when spans ended."""
    desk.set(clock="event")
    put(desk.lake, [Span(1, 1, at=0, arrived=9000)])

    desk.run(at=301)
    assert desk.told() == {1: [NOT_KEPT]}


def test_a_cycle_reads_only_what_is_new(desk: Desk) -> None:
    """A cycle reads only what is new."""
    put(desk.lake, [Span(number, 1) for number in range(20)])
    first = desk.run(at=1000)
    put(desk.lake, [Span(30, 1, at=900, error=True)])
    second = desk.run(at=2000)
    third = desk.run(at=3000)

    assert (first.spans, first.decided.traces) == (20, 20)
    assert "nothing was read before" in first.reason
    assert (second.spans, second.files, second.decided.traces) == (1, 1, 1)
    assert (third.committed, third.spans) == (False, 0)


def test_spans_of_a_trace_meet_over_cycles(desk: Desk) -> None:
    """Spans of a trace meet over cycles."""
    for number in range(5):
        put(desk.lake, [Span(1, number, at=200.0 * number, error=number == 2)])
        desk.run(at=200.0 * number + 1)
    desk.run(at=2000)

    (row,) = desk.decisions()
    assert (row["span_count"], row["decision"], row["has_error"]) == (5, "sampled", True)
    assert row["first_seen"] < row["last_seen"]


def test_the_root_names_a_trace_whenever_it_comes(desk: Desk) -> None:
    """The root names a trace whenever it comes."""
    put(desk.lake, [Span(1, 1, at=5, service="db")])
    desk.run(at=6)
    put(desk.lake, [Span(1, 2, at=0, arrived=7, root=True, service="shop")])
    desk.run(at=1000)

    assert [row["service_name"] for row in desk.decisions()] == ["shop"]


def test_organizations_are_apart(desk: Desk) -> None:
    """Organizations are apart."""
    put(desk.lake, [Span(1, 1, error=True), Span(1, 2, organization=OTHER)])
    desk.run(at=1000)

    found = {(row["organization_id"], row["decision"]) for row in desk.decisions()}
    assert found == {(ACME, "sampled"), (OTHER, "not_sampled")}


def test_late_spans_of_a_kept_trace_are_told(desk: Desk) -> None:
    """Late spans of a kept trace are told."""
    put(desk.lake, [Span(1, 1, error=True)])
    desk.run(at=1000)
    put(desk.lake, [Span(1, 2, at=5, arrived=1100), Span(1, 3, at=6, arrived=1100)])
    result = desk.run(at=1200)

    assert (result.late.traces, result.late.spans, result.decided.traces) == (1, 2, 0)
    assert desk.told() == {1: [KEPT, ("late", "sampled", "errors")]}
    assert [row["span_count"] for row in desk.decisions()] == [1, 3]
    assert [row["adjusted_count"] for row in desk.decisions()] == [1.0, 1.0]


def test_late_spans_change_a_decision_to_keep_it(desk: Desk) -> None:
    """Late spans change a decision to keep it."""
    put(desk.lake, [Span(1, 1), Span(2, 1)])
    desk.run(at=1000)
    put(desk.lake, [Span(1, 2, at=0.2, arrived=1100, error=True), Span(2, 2, at=0.2, arrived=1100)])
    result = desk.run(at=1200)

    assert (result.revised.traces, result.late.traces) == (1, 1)
    assert desk.told() == {
        1: [NOT_KEPT, ("revised", "sampled", "errors")],
        2: [NOT_KEPT, ("late", "not_sampled", None)],
    }
    reasons = [row["reason"] for row in desk.decisions() if row["kind"] == "revised"]
    assert reasons == [next(iter(reasons))]
    assert reasons[0].startswith("late spans changed the decision: sampled by errors")


def test_late_spans_do_not_spend_a_budget_twice(desk: Desk) -> None:
    """Late spans do not spend a budget twice."""
    limit = {"name": "limit", "type": "rate_limiting", "rate_limiting": {"spans_per_second": 1}}
    desk.policies = policies(limit)
    put(desk.lake, [Span(number, part) for number in range(200) for part in range(2)])
    desk.run(at=1000)
    kept = {number for number, lines in desk.told().items() if lines[0][1] == "sampled"}
    assert 0 < len(kept) <= 30

    put(desk.lake, [Span(number, 9, at=6, arrived=1100) for number in range(200)])
    desk.run(at=1300)
    assert {number for number, lines in desk.told().items() if lines[-1][1] == "sampled"} == kept


def test_limits_hold_over_cycles_and_wait_for_whole_windows(desk: Desk) -> None:
    """Limits hold over cycles and wait for whole windows."""
    limit = {"name": "limit", "type": "rate_limiting", "rate_limiting": {"spans_per_second": 1}}
    desk.policies = policies(limit)
    for cycle in range(3):
        put(desk.lake, [Span(100 * cycle + part, 1, at=10.0 * cycle, seconds=0) for part in range(100)])
        desk.run(at=10.0 * cycle + 300.5)
    assert desk.run(at=1000).decided.traces >= 0

    kept = [row for row in desk.decisions() if row["decision"] == "sampled"]
    by_window: dict[int, int] = {}
    for row in kept:
        window = int(row["ready_at"].timestamp()) // 60
        by_window[window] = by_window.get(window, 0) + row["span_count"]
    assert len(desk.decisions()) == 300
    assert by_window
    assert max(by_window.values()) <= 60
    estimated = sum(row["adjusted_count"] for row in kept)
    assert estimated == pytest.approx(300, rel=0.5)


def test_adjusted_counts_and_thresholds_of_a_percentage(desk: Desk) -> None:
    """Adjusted counts and thresholds of a percentage."""
    desk.policies = policies(ERRORS, percentage(25))
    put(desk.lake, [Span(number, 1, error=number % 10 == 0) for number in range(400)])
    result = desk.run(at=1000)

    rows = desk.decisions()
    assert {row["adjusted_count"] for row in rows if row["policy"] == "errors"} == {1.0}
    assert {(row["adjusted_count"], row["threshold"]) for row in rows if row["policy"] == "some"} == {(4.0, "c")}
    assert {row["adjusted_count"] for row in rows if row["decision"] == "not_sampled"} == {0.0}
    assert result.estimated_traces == pytest.approx(400, rel=0.25)


def test_other_policies_look_at_all_open_traces_again(desk: Desk) -> None:
    """Other policies look at all open traces again."""
    put(desk.lake, [Span(1, 1, attributes={"tier": "gold"}), Span(2, 1), Span(3, 1, arrived=-5000, at=-5000)])
    desk.run(at=5)
    assert desk.told() == {3: [NOT_KEPT]}

    desk.policies = policies(
        {"name": "gold", "type": "string_attribute", "string_attribute": {"key": "tier", "values": ["gold"]}}
    )
    result = desk.run(at=1000)
    assert "evaluate other conditions" in result.reason
    assert desk.told() == {1: [("decided", "sampled", "gold")], 2: [NOT_KEPT], 3: [NOT_KEPT]}


def test_a_lost_place_reads_everything_and_decides_nothing_twice(desk: Desk) -> None:
    """A lost place reads everything and decides nothing twice."""
    put(desk.lake, [Span(1, 1, error=True), Span(2, 1, at=800)])
    desk.run(at=900)
    put(desk.lake, [Span(1, 2, at=850), Span(3, 1, at=800)])
    table = desk.lake.table("spans")
    oldest = table.metadata.snapshots[0].snapshot_id
    table.maintenance.expire_snapshots().by_id(oldest).commit()

    result = desk.run(at=2000)
    assert "no longer in the history of the table" in result.reason
    assert desk.told() == {1: [KEPT, ("late", "sampled", "errors")], 2: [NOT_KEPT], 3: [NOT_KEPT]}


def test_a_selector_keeps_to_its_table(desk: Desk) -> None:
    """A selector keeps to its table."""
    put(desk.lake, [Span(1, 1)])
    desk.run(at=1000)
    desk.set(source={"table": "sampled_spans"})
    with pytest.raises(ConfigError, match=r"'tail' reads spans, but tail.source.table is sampled_spans"):
        desk.run(at=1100)


def test_selectors_with_different_names_decide_apart(desk: Desk) -> None:
    """Selectors with different names decide apart."""
    put(desk.lake, [Span(1, 1, seconds=5)])
    desk.run(at=1000)
    desk.set(name="other")
    desk.policies = policies(ERRORS)
    desk.run(at=1000)
    assert {(row["selector"], row["decision"]) for row in desk.decisions()} == {
        ("tail", "sampled"),
        ("other", "not_sampled"),
    }


@pytest.mark.parametrize("point", ["commit_decisions", "write_open", "commit_open"])
def test_a_cycle_that_dies_is_finished_by_the_next(desk: Desk, monkeypatch: pytest.MonkeyPatch, point: str) -> None:
    """A cycle that dies is finished by the next."""
    put(desk.lake, [Span(1, 1, error=True), Span(2, 1, at=800)])
    real = getattr(job_module, point)
    for dies_after in (False, True):
        with monkeypatch.context() as patched:
            patched.setattr(job_module, point, _dying(real, after=dies_after))
            with pytest.raises(KilledHereError):
                desk.run(at=900 + dies_after)
    put(desk.lake, [Span(1, 2, at=850), Span(2, 2, at=850, error=True)])
    desk.run(at=1000)
    desk.run(at=2000)

    assert desk.told()[1] == [KEPT, ("late", "sampled", "errors")]
    assert desk.told()[2] == [KEPT]
    assert [row["span_count"] for row in desk.decisions() if row["kind"] == "decided"] == [1, 2]
    assert desk.open() == []


def test_what_an_unfinished_cycle_read_may_be_gone(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """What an unfinished cycle read may be gone."""
    put(desk.lake, [Span(1, 1, error=True), Span(2, 1, at=800)])
    with monkeypatch.context() as patched:
        patched.setattr(job_module, "commit_open", _dying(commit_open, after=False))
        with pytest.raises(KilledHereError):
            desk.run(at=900)
    put(desk.lake, [Span(3, 1, at=850)])
    table = desk.lake.table("spans")
    table.maintenance.expire_snapshots().by_id(table.metadata.snapshots[0].snapshot_id).commit()
    desk.run(at=2000)
    assert desk.told() == {1: [KEPT], 2: [NOT_KEPT], 3: [NOT_KEPT]}


class KilledHereError(Exception):
    """Raised where a process would have been killed."""


def _dying(work: Callable[..., Any], *, after: bool) -> Callable[..., None]:
    def dies(*args: Any, **named: Any) -> None:
        if after:
            work(*args, **named)
        raise KilledHereError

    return dies


def test_nothing_in_the_source_is_written(desk: Desk) -> None:
    """Nothing in the source is written."""
    put(desk.lake, [Span(1, 1)])
    before = desk.lake.table("spans").metadata_location
    desk.run(at=1000)
    assert desk.lake.table("spans").metadata_location == before


@pytest.mark.long
def test_windows_of_limits_are_not_split_by_late_commits(desk: Desk) -> None:
    """Traces whose spans were committed after their window closed wait for the end of the next one."""
    limit = {"name": "limit", "type": "rate_limiting", "rate_limiting": {"spans_per_second": 1}}
    desk.policies = policies(limit)
    desk.set(after_root_seconds=5)
    for cycle in range(8):
        spans = [Span(100 * cycle + part, 1, at=10.0 * cycle, seconds=0, root=True) for part in range(100)]
        put(desk.lake, spans)
        desk.run(at=10.0 * cycle + 70)
    desk.run(at=1000)

    windows: dict[int, int] = {}
    for row in desk.decisions():
        if row["decision"] == "sampled":
            window = int(row["ready_at"].timestamp()) // 60
            windows[window] = windows.get(window, 0) + row["span_count"]
    assert len(desk.decisions()) == 800
    assert max(windows.values()) <= 60


@pytest.mark.parametrize(
    "span", [Span(1, 1, at=-1e9, seconds=3e9), Span(1, 1, seconds=-1.77e9), Span(1, 1, arrived=None)]
)
def test_odd_times_stop_nobody(desk: Desk, span: Span) -> None:
    """Spans of decades, spans that end before they begin."""
    put(desk.lake, [span, Span(2, 1, error=True)])
    desk.set(max_duration_seconds=10, inactivity_seconds=5)
    desk.run(at=4_000_000_000)
    assert set(desk.told()) == {1, 2}


def test_spans_without_an_arrival_count_as_arrived_when_they_ended(desk: Desk) -> None:
    """Rows of an older release, or of another writer."""
    table = desk.lake.table("spans")
    rows = pa.Table.from_pylist([{**Span(1, 1).row(), "ingested_at": None}], SPANS.schema)
    append_once(table, write_files(Target.of(table), rows), batch_id="null", operation="test")
    desk.run(at=1000)
    assert desk.told() == {1: [NOT_KEPT]}


def test_a_place_that_is_lost_in_both_tables_decides_nothing_twice(desk: Desk) -> None:
    """Numbers of cycles go on, so that what was decided is known and exporters miss nothing."""
    put(desk.lake, [Span(1, 1, error=True)])
    desk.run(at=1000)
    for name in ("trace_decisions", "open_traces"):
        table = desk.lake.table(name)
        append_once(table, [], batch_id=f"other {name}", operation="test")
        for snapshot in table.metadata.snapshots[:-1]:
            table.maintenance.expire_snapshots().by_id(snapshot.snapshot_id).commit()
    put(desk.lake, [Span(2, 1, at=900)])
    desk.run(at=2000)
    assert desk.told() == {1: [KEPT], 2: [NOT_KEPT]}
    assert [row["cycle"] for row in desk.decisions()] == [1, 2]


def test_other_waits_after_a_kill_decide_nothing_twice(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a killed cycle left open is looked at anew."""
    put(desk.lake, [Span(1, 1, error=True), Span(2, 1, at=800)])
    with monkeypatch.context() as patched:
        patched.setattr(job_module, "commit_open", _dying(commit_open, after=False))
        with pytest.raises(KilledHereError):
            desk.run(at=900)
    desk.set(inactivity_seconds=2000)
    desk.run(at=1000)
    desk.run(at=4000)
    assert desk.told() == {1: [KEPT], 2: [NOT_KEPT]}


def test_late_spans_make_an_earlier_chance_certain(desk: Desk) -> None:
    """All traces have an error in the end: each stands for itself."""
    desk.policies = policies(ERRORS, percentage(30))
    put(desk.lake, [Span(number, 1) for number in range(100)])
    desk.run(at=1000)
    put(desk.lake, [Span(number, 2, at=0.2, arrived=1100, error=True) for number in range(100)])
    desk.run(at=1200)
    newest = {row["trace_id"]: row["adjusted_count"] for row in desk.decisions()}
    assert sum(newest.values()) == 100


def test_other_policies_do_not_judge_what_was_decided(desk: Desk) -> None:
    """The bits of a summary mean something else then."""
    gold = {"name": "gold", "type": "string_attribute", "string_attribute": {"key": "tier", "values": ["gold"]}}
    desk.policies = policies(gold)
    put(desk.lake, [Span(1, 1)])
    desk.run(at=1000)
    desk.policies = policies(ERRORS)
    for number in (2, 3):
        put(desk.lake, [Span(1, number, at=0.1, arrived=1000.0 + number, error=True)])
        desk.run(at=1100.0 + number)
    assert [line[1] for line in desk.told()[1]] == ["not_sampled"] * 3
    assert "by other policies than the current ones" in desk.decisions()[-1]["reason"]


def test_a_selector_may_begin_with_what_is_new(desk: Desk) -> None:
    """What was there before it is not decided about."""
    desk.set(start="new")
    put(desk.lake, [Span(1, 1)])
    assert desk.run(at=1000).spans == 0
    put(desk.lake, [Span(2, 1, at=900)])
    desk.run(at=2000)
    assert desk.told() == {2: [NOT_KEPT]}


def test_one_that_was_taken_for_dead_commits_nothing(desk: Desk) -> None:
    """Another process has decided the cycle meanwhile."""
    put(desk.lake, [Span(1, 1, error=True)])
    desk.run(at=1000)
    table = desk.lake.table("trace_decisions")
    position = Checkpoint.of(table, "tail")
    assert position is not None
    with pytest.raises(LeaseLost, match="has committed cycle 1"):
        commit_decisions(table, [], "tail", replace(position, now_us=position.now_us + 1))
