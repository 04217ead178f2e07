"""What a selector in memory does with spans: late ones, too many, and those that nobody wants."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from neve.errors import ConfigError, NeveError
from neve.model.tables import SPANS
from neve.tail.memory.selector import DecisionLog
from tests.tail.lakes import ACME, ERRORS, OTHER, SLOW, Span, percentage, policies, put, tail_lake
from tests.tail.lakes import Desk as LakeDesk
from tests.tail.memory.feeds import Desk, Place, rows_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def test_kept_traces_arrive_whole_and_stamped() -> None:
    """With their adjusted count as an attribute, and the threshold in the trace state."""
    desk = Desk(policies(ERRORS, percentage(25)))
    desk.feed([Span(number, part, at=part) for number in range(60) for part in range(3)])
    result = desk.run(at=400)

    kept = {number for number, _part in desk.place.spans}
    assert 5 < len(kept) < 30
    assert desk.place.spans == [(number, part) for number in sorted(kept) for part in range(3)]
    for row in desk.place.rows:
        assert dict(row["attributes"]) == {"sampling.adjusted_count": "4"}
        assert dict(row["attribute_types"]) == {"sampling.adjusted_count": "double"}
        assert row["trace_state"].startswith("ot=th:c")
    assert result.sampled.spans == len(desk.place.spans)
    assert (result.held_spans, result.open) == (0, 0)


@pytest.mark.slow
def test_late_spans_follow_the_decision() -> None:
    """Of a kept trace they are exported, of another let go; after a while nobody knows the trace."""
    desk = Desk(late_seconds=1000)
    desk.feed([Span(1, 1, error=True), Span(2, 1)])
    desk.run(at=400)
    desk.feed([Span(1, 2, at=400), Span(2, 2, at=0.1, arrived=400)])
    result = desk.run(at=401)

    assert result.late.spans == 2
    assert desk.place.spans == [(1, 1), (1, 2)]
    desk.feed([Span(1, 3, at=1500)])
    desk.run(at=1801)
    assert desk.place.spans == [(1, 1), (1, 2)]
    assert desk.lines()[1][-1] == ("decided", "not_sampled", None)


@pytest.mark.slow
def test_late_spans_may_change_a_decision() -> None:
    """What came before is gone, and that is said."""
    desk = Desk()
    desk.feed([Span(1, 1), Span(1, 2)])
    desk.run(at=400)
    desk.feed([Span(1, 3, at=400, error=True)])
    result = desk.run(at=401)

    assert desk.lines()[1] == [("decided", "not_sampled", None), ("revised", "sampled", "errors")]
    assert desk.place.spans == [(1, 3)]
    assert "2 earlier spans are no longer in memory" in result.remarks[0]


@pytest.mark.slow
def test_a_destination_that_is_away() -> None:
    """It holds up no other, and gets what was kept for it when it is back, in order."""
    places = [Place("here"), Place("there", away=True)]
    desk = Desk(policies({"name": "all", "type": "always_sample"}), places=places)
    for turn in range(3):
        desk.feed([Span(turn * 10 + number, 1, at=turn * 400) for number in range(5)])
        result = desk.run(at=(turn + 1) * 400)
        assert "there is unavailable: nobody is there" in result.remarks
        assert len(places[0].got) == turn + 1
    places[1].away = False
    desk.run(at=2000)
    assert [batch_id for batch_id, _batch in places[1].got] == [batch_id for batch_id, _batch in places[0].got]
    assert places[1].spans == places[0].spans


@pytest.mark.slow
def test_what_can_not_be_held_for_a_destination() -> None:
    """Is counted and said, and the rest is delivered later."""
    desk = Desk(policies({"name": "all", "type": "always_sample"}), buffer_mb=1)
    desk.place.away = True
    text = {"text": "x" * 4000}
    said = []
    for turn in range(5):
        desk.feed([Span(turn * 100 + number, 1, at=turn * 400, attributes=text) for number in range(80)])
        said.append(desk.run(at=(turn + 1) * 400))
    lost = sum(result.lost.get("place", 0) for result in said)
    assert lost == desk.selector.queues[0].lost_spans > 0
    assert any("were lost for the destination place" in remark for remark in said[-1].remarks)
    assert desk.selector.is_congested
    desk.place.away = False
    desk.run(at=3000)
    assert len(desk.place.spans) == 400 - lost
    assert not desk.selector.is_congested


def test_everything_is_decided_at_the_end() -> None:
    """Also what is not complete, and that is said; more is not taken then."""
    desk = Desk()
    desk.feed([Span(1, 1, error=True), Span(2, 1)])
    result = desk.run(at=1, everything=True)
    assert result.early.traces == 2
    assert "2 traces were decided before they were complete: the selector stops" in result.remarks
    assert [row["ready_because"] for row in desk.decisions()] == ["memory", "memory"]
    assert desk.place.spans == [(1, 1)]
    assert desk.selector.stop(1) == {}
    assert desk.place.closed
    with pytest.raises(NeveError, match="is stopping"):
        desk.feed([Span(3, 1)])


@pytest.mark.slow
def test_the_oldest_decisions_are_forgotten() -> None:
    """Where there are too many: late spans of those begin a trace anew."""
    desk = Desk(most_remembered=10)
    desk.feed([Span(number, 1, error=True) for number in range(10)])
    assert desk.run(at=400).forgotten == 0
    desk.feed([Span(10 + number, 1, at=400, error=True) for number in range(4)])
    result = desk.run(at=800)
    assert result.forgotten == 4
    assert "4 decisions were forgotten before tail.late_seconds" in result.remarks[0]
    desk.feed([Span(number, 2, at=800) for number in range(14)])
    assert desk.run(at=801).late.traces == 10


def test_spans_of_no_trace_and_of_others() -> None:
    """The first are counted as refused, the second are another selector's; both are done with at once."""
    desk, done = Desk(source={"organization": ACME}), []
    rows = rows_of([Span(1, 1), Span(2, 1, organization=OTHER)])
    nameless = rows.set_column(SPANS.schema.get_field_index("trace_id"), SPANS.schema.field("trace_id"), [[b"", None]])
    desk.selector.feed(nameless, lambda: done.append("nameless"))
    assert done == ["nameless"]
    desk.selector.feed(rows, lambda: done.append("rows"))
    assert desk.run(at=400).decided.traces == 1
    assert done == ["nameless", "rows"]


@pytest.mark.slow
def test_a_feed_is_done_when_its_kept_spans_arrived() -> None:
    """And not before; who feeds from a topic commits its offsets then."""
    desk, done = Desk(), []
    desk.place.away = True
    desk.selector.feed(rows_of([Span(1, 1), Span(2, 1)]), lambda: done.append("dull"))
    desk.selector.feed(rows_of([Span(2, 2), Span(3, 1, error=True)]), lambda: done.append("error"))
    desk.run(at=300)
    assert done == []
    desk.run(at=400)
    assert done == ["dull"]
    desk.place.away = False
    desk.run(at=401)
    assert done == ["dull", "error"]


class Stumbling:
    """Claims that fail once."""

    trouble = ""

    def __init__(self) -> None:
        self.asked = 0

    def claim(self, _organization: str, ids: Sequence[bytes]) -> list[str]:
        """Fail, then give every other trace to another selector."""
        self.asked += 1
        if self.asked == 1:
            raise RuntimeError("no answer")
        return ["tail" if number % 2 else "another" for number, _id in enumerate(ids)]


@pytest.mark.slow
def test_a_cycle_that_fails_leaves_everything_as_it_was() -> None:
    """The next one decides; traces that another selector keeps are not exported."""
    claims = Stumbling()
    desk = Desk(claims=claims)
    desk.feed([Span(number, part, error=True) for number in range(4) for part in range(2)])
    with pytest.raises(RuntimeError, match="no answer"):
        desk.run(at=400)
    assert desk.selector.held_bytes > 0
    result = desk.run(at=401)
    assert (result.cycle, result.decided.traces, result.decided.spans, result.taken.traces) == (1, 4, 8, 2)
    assert len(desk.place.spans) == 4


@pytest.mark.slow
def test_many_threads_feed_while_it_decides() -> None:
    """Every span is decided about once."""
    desk = Desk(policies({"name": "all", "type": "always_sample"}), buffer_mb=1, inactivity_seconds=1)

    def feed(first: int) -> None:
        for number in range(first, first + 40):
            desk.feed([Span(number, part, attributes={"text": "x" * 500}) for part in range(4)])

    threads = [threading.Thread(target=feed, args=(1000 * place,)) for place in range(3)]
    for thread in threads:
        thread.start()
    for at in range(2, 12):
        desk.run(at=at)
    for thread in threads:
        thread.join()
    desk.run(at=100, everything=True)
    assert len(desk.place.spans) == len(set(desk.place.spans)) == 480
    assert (
        sum(row["span_count"] for row in desk.decisions() if row["kind"] == "decided")
        + sum(row["late_spans"] for row in desk.decisions())
        == 480
    )


@pytest.mark.lake
def test_decisions_in_the_lake(tmp_path: Path) -> None:
    """The rows that a cycle gives are in the table; a new process counts its cycles on."""
    lake = tail_lake(tmp_path)
    desk = Desk(log=DecisionLog(lake, "tail"))
    desk.feed([Span(1, 1, error=True), Span(2, 1)])
    result = desk.run(at=400)
    stored = LakeDesk(lake, tmp_path).decisions()
    assert stored == desk.decisions()
    assert {(row["source"], row["source_snapshot_id"]) for row in stored} == {("memory", None)}
    assert result.snapshot

    again = Desk(log=DecisionLog(lake, "tail"))
    again.feed([Span(3, 1)])
    assert again.run(at=800).cycle == 2
    assert len(LakeDesk(lake, tmp_path).decisions()) == 3
    with pytest.raises(ConfigError, match=r"reads memory, but tail.source.table is spans"):
        LakeDesk(lake, tmp_path).run(at=900)


@pytest.mark.lake
def test_a_selector_of_a_table_is_not_taken_over(tmp_path: Path) -> None:
    """Its name stands for the table that it read."""
    desk = LakeDesk(tail_lake(tmp_path), tmp_path)
    put(desk.lake, [Span(1, 1)])
    desk.run(at=400)
    with pytest.raises(ConfigError, match=r"reads spans, but tail.storage is memory"):
        Desk(log=DecisionLog(desk.lake, "tail"))


@pytest.mark.lake
def test_a_lake_that_can_not_be_written_to(tmp_path: Path) -> None:
    """Stops no decision: they wait, and are written with the next."""
    lake = tail_lake(tmp_path)
    desk = Desk(log=DecisionLog(lake, "tail"))
    data = next((tmp_path / "warehouse").rglob("trace_decisions*"))
    hidden = data.rename(tmp_path / "hidden")
    data.touch()
    desk.feed([Span(1, 1, error=True)])
    result = desk.run(at=400)
    assert "1 decisions are not yet written to trace_decisions" in result.remarks[0]
    assert desk.place.spans == [(1, 1)]
    data.unlink()
    hidden.rename(data)
    desk.feed([Span(2, 1, at=400)])
    assert desk.run(at=800).remarks == ()
    assert LakeDesk(lake, tmp_path).decisions() == desk.decisions()


def test_results_are_documents() -> None:
    """As the command says them with --json."""
    desk = Desk(policies(ERRORS, SLOW))
    desk.feed([Span(1, 1, error=True)])
    document: dict[str, Any] = desk.run(at=400).as_document()
    assert document["decided"] == {"traces": 1, "spans": 1}
    assert document["policies"] == {"errors": {"traces": 1, "spans": 1}}
    assert (document["source"], document["engine"], document["held_bytes"]) == ("memory", "duckdb", 0)
    assert "decisions" not in document
