"""Why a trace was kept or not, on a lake that a selector has worked on."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from neve.cli.sampling.tail_explain import show_explanation
from neve.tail.explain import explain_trace, open_trace_judge
from tests.tail.simulate.lakes import (
    ACME,
    DROP,
    ERRORS,
    FEW,
    LIMIT,
    OTHER,
    REST,
    SLOW,
    START,
    Trace,
    decided,
    policies,
    put,
    selector_of,
    some_traces,
)

if TYPE_CHECKING:
    from pathlib import Path

    from neve.lake.lake import Lake

POLICIES = policies(ERRORS, SLOW, DROP)
READY = START + timedelta(minutes=10)
KEPT, DROPPED, LEFT = Trace(0, spans=3, error=True), Trace(2, duration_ms=900), Trace(1, spans=2)


@pytest.fixture
def worked(lake: Lake, tmp_path: Path) -> Lake:
    """A lake with a trace that is kept, one that is dropped and one that is neither."""
    put(lake, [KEPT, DROPPED, LEFT])
    selector_of(lake, tmp_path, POLICIES, READY).run()
    return lake


def test_a_kept_trace(worked: Lake, tmp_path: Path) -> None:
    """Its decision, and the votes of all policies, which come to the same."""
    told = explain_trace(selector_of(worked, tmp_path, POLICIES, READY), ACME, KEPT.id)
    (made,) = told.decisions
    assert (told.state, told.open, told.notes) == ("decided", (), ())
    assert (made.decision, made.policy, made.kind, made.revision) == ("sampled", "errors", "decided", 0)
    assert (made.span_count, made.adjusted_count, made.decided_at) == (3, 1.0, READY)
    now = told.now
    assert now is not None
    assert (now.decision, now.policy, now.reason) == (made.decision, made.policy, made.reason)
    assert (now.spans, now.has_error, now.service, now.operation) == (3, True, "cart", "GET /cart")
    assert now.duration_ms == KEPT.duration_ms
    assert [(vote.policy, vote.vote) for vote in now.votes] == [
        ("no-search", "not_sampled"),
        ("errors", "sampled"),
        ("slow", "not_sampled"),
    ]


def test_a_dropped_trace_and_one_that_is_not_sampled(worked: Lake, tmp_path: Path) -> None:
    """What was decided is told, and who would have said what."""
    selector = selector_of(worked, tmp_path, POLICIES, READY)
    dropped, left = (explain_trace(selector, ACME, trace.id) for trace in (DROPPED, LEFT))
    assert [(one.decision, one.policy) for one in dropped.decisions] == [("dropped", "no-search")]
    assert [(one.decision, one.policy) for one in left.decisions] == [("not_sampled", None)]
    assert dropped.now is not None
    assert [vote.vote for vote in dropped.now.votes] == ["dropped", "not_asked", "not_asked"]
    assert left.now is not None
    assert {vote.vote for vote in left.now.votes} == {"not_sampled"}


def test_late_spans_and_a_revision(worked: Lake, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every revision is told, in its order; spans that no cycle has read are noted."""
    later = READY + timedelta(minutes=5)
    put(worked, [Trace(0, seconds=400, late=True), Trace(1, seconds=400, error=True, late=True)], READY)
    selector = selector_of(worked, tmp_path, POLICIES, later)
    assert explain_trace(selector, ACME, KEPT.id).notes == ("1 more span arrived after its last decision",)
    selector.run()
    kept, revised = (explain_trace(selector, ACME, trace.id) for trace in (KEPT, LEFT))
    assert [(one.revision, one.kind, one.late_spans) for one in kept.decisions] == [(0, "decided", 0), (1, "late", 1)]
    assert [(one.kind, one.decision) for one in revised.decisions] == [
        ("decided", "not_sampled"),
        ("revised", "sampled"),
    ]
    assert kept.notes == revised.notes == ()
    show_explanation(kept)
    assert (
        capsys.readouterr()
        .out.splitlines()[0]
        .endswith(
            "sampled by errors: a span matches its error; then 1 late span of a trace that was sampled before: "
            "they are exported, too"
        )
    )
    show_explanation(revised)
    assert "late spans changed the decision" in capsys.readouterr().out.splitlines()[0]


def test_an_open_trace(lake: Lake, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """When it will be ready, and why; another selector's waits are not known."""
    put(lake, [Trace(5, spans=2)], START)
    soon = START + timedelta(seconds=30)
    selector_of(lake, tmp_path, POLICIES, soon).run()
    selector_of(lake, tmp_path, POLICIES, soon, name="other", inactivity_seconds=400).run()
    told = explain_trace(selector_of(lake, tmp_path, POLICIES, soon), ACME, Trace(5).id)
    assert told.state == "open"
    other, mine = told.open
    assert (mine.selector, mine.span_count, mine.last_seen) == ("tail", 2, START)
    assert (mine.ready_at, mine.ready_because) == (START + timedelta(seconds=300), "inactive")
    assert (other.selector, other.ready_at, other.ready_because) == ("other", None, "")
    show_explanation(told)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith(": not decided yet")
    assert lines[3] == (
        "  open for tail: 2 spans, the last one seen at 2026-02-02 09:00:00, ready at 2026-02-02 09:05:00 "
        "(no span arrived within the idle time)"
    )
    quick = explain_trace(selector_of(lake, tmp_path, POLICIES, soon, after_root_seconds=60), ACME, Trace(5).id)
    ready = {one.selector: (one.ready_at, one.ready_because) for one in quick.open}
    assert ready["tail"] == (START + timedelta(seconds=60), "root_ended")


def test_a_trace_that_no_cycle_has_read(lake: Lake, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its spans are there, and tell when it is ready."""
    put(lake, [Trace(5)], START)
    told = explain_trace(selector_of(lake, tmp_path, POLICIES), ACME, Trace(5).id)
    assert told.state == "unseen"
    assert told.now is not None
    assert (told.now.ready_at, told.now.ready_because) == (START + timedelta(seconds=300), "inactive")
    show_explanation(told)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith(": its spans are stored, but no cycle has read them yet")
    assert lines[2] == "  ready at 2026-02-02 09:05:00 (no span arrived within the idle time)"


def test_an_unknown_trace(worked: Lake, tmp_path: Path) -> None:
    """The tables that were looked at are named; the organization counts."""
    selector = selector_of(worked, tmp_path, POLICIES)
    for organization, trace in ((ACME, Trace(77)), (OTHER, KEPT)):
        told = explain_trace(selector, organization, trace.id)
        assert told.state == "unknown"
        assert told.tables == ("spans", "trace_decisions", "open_traces")


def test_other_policies_are_noted(worked: Lake, tmp_path: Path) -> None:
    """And so is it that a limit is asked about one trace alone."""
    told = explain_trace(selector_of(worked, tmp_path, policies(LIMIT), READY), ACME, LEFT.id)
    assert [note.split(":")[0] for note in told.notes] == [
        "the trace was decided by other policies than the current ones",
        "limits and rates by key depend on other traces",
    ]


def test_spans_that_are_gone(worked: Lake, tmp_path: Path) -> None:
    """The decision stays, and policies can't be asked."""
    worked.table("spans").delete()
    told = explain_trace(selector_of(worked, tmp_path, POLICIES, READY), ACME, KEPT.id)
    assert (told.state, told.now) == ("decided", None)
    assert told.notes == ("its spans are no longer in the table: the policies can't be evaluated",)


@pytest.mark.long
def test_all_traces_one_by_one_are_judged_as_together(lake: Lake, tmp_path: Path) -> None:
    """With one connection for all of them."""
    stated = policies(ERRORS, SLOW, REST, FEW, DROP)
    put(lake, some_traces(40))
    selector = selector_of(lake, tmp_path, stated)
    selector.run()
    rows = decided(lake)
    with open_trace_judge(selector) as opened:
        for trace in some_traces(40):
            found = opened.evaluate(trace.owner, trace.id)
            row = rows[trace.owner, trace.id]
            assert found is not None
            assert (found.decision, found.policy, found.reason) == (row["decision"], row["policy"], row["reason"])
            assert found.probability == pytest.approx(row["probability"])
            assert found.spans == row["span_count"]
            assert (found.ready_at, found.ready_because) == (row["ready_at"], row["ready_because"])


def test_what_comes_meanwhile_is_seen(lake: Lake, tmp_path: Path) -> None:
    """The list of files is kept only as long as the table does not change."""
    put(lake, [Trace(1)])
    selector = selector_of(lake, tmp_path, POLICIES)
    with open_trace_judge(selector) as opened:
        first = opened.evaluate(ACME, Trace(1).id)
        put(lake, [Trace(1, seconds=9, spans=2, late=True, error=True)])
        second = opened.evaluate(ACME, Trace(1).id)
    assert first is not None
    assert second is not None
    assert (first.spans, second.spans, first.decision, second.decision) == (1, 3, "not_sampled", "sampled")


def test_the_answer_as_json(worked: Lake, tmp_path: Path) -> None:
    """Times are texts, and the state is told."""
    document = explain_trace(selector_of(worked, tmp_path, POLICIES, READY), ACME, KEPT.id).as_document()
    assert document["state"] == "decided"
    assert document["decisions"][0]["decided_at"] == READY.isoformat()
    assert document["now"]["votes"][1]["policy"] == "errors"
