"""Kept traces on their way: every span of them arrives, late ones too; one that is away holds up nobody."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from neve.tail import cycle_spans as kept_module
from neve.tail.export.config import DestinationConfig
from neve.tail.export.iceberg import IcebergTable
from neve.tail.export.port import Delivery, DestinationAway
from neve.tail.exporting import Exporter
from neve.tail.kept import Kept
from tests.tail.lakes import ERRORS, Span, percentage, policies, put

if TYPE_CHECKING:
    import pyarrow as pa
    import pytest

    from neve.tail.export.pump import PumpResult
    from tests.tail.lakes import Desk


class Box:
    """A destination that keeps what it is brought, and is away when it is told so."""

    def __init__(self, name: str = "box") -> None:
        self.name = name
        self.batches: list[pa.RecordBatch] = []
        self.away_after = -1

    def deliver(self, batch: pa.RecordBatch, batch_id: str) -> Delivery:
        """Take a batch."""
        assert batch_id
        if 0 <= self.away_after <= len(self.batches):
            raise DestinationAway("the box is shut")
        self.batches.append(batch)
        return Delivery(accepted=batch.num_rows)

    def close(self) -> None:
        """Nothing to let go of."""

    @property
    def spans(self) -> list[tuple[bytes, int]]:
        """The spans that it has, by trace and number."""
        return [
            (row["trace_id"], int.from_bytes(row["span_id"], "big"))
            for batch in self.batches
            for row in batch.to_pylist()
        ]


def test_whole_traces_arrive_with_what_they_stand_for(desk: Desk) -> None:
    """Whole traces arrive with what they stand for."""
    desk.policies = policies(ERRORS, percentage(50))
    spans = [Span(number, part, error=number == 3 and part == 1) for number in range(20) for part in range(3)]
    put(desk.lake, spans[:30])
    desk.run(at=1)
    put(desk.lake, spans[30:])
    desk.run(at=1000)
    box = Box()
    _export(desk, box)

    kept = {row["trace_id"]: row["adjusted_count"] for row in desk.decisions() if row["decision"] == "sampled"}
    assert sorted(box.spans) == sorted((span.trace_id, span.number) for span in spans if span.trace_id in kept)
    rows = [row for batch in box.batches for row in batch.to_pylist()]
    for row in rows:
        assert float(dict(row["attributes"])["sampling.adjusted_count"]) == kept[row["trace_id"]]
        assert row["trace_state"] == ("ot=th:0" if kept[row["trace_id"]] == 1 else "ot=th:8")
    _export(desk, box)
    assert len(box.spans) == len(rows)


def test_late_spans_and_revised_traces_follow(desk: Desk) -> None:
    """Late spans and revised traces follow."""
    desk.policies = policies(ERRORS)
    put(desk.lake, [Span(1, 1, error=True), Span(2, 1)])
    desk.run(at=1000)
    box = Box()
    _export(desk, box)
    assert [number for _trace, number in box.spans] == [1]

    put(desk.lake, [Span(1, 2, arrived=1100), Span(2, 2, arrived=1100, error=True), Span(3, 1, at=1000)])
    desk.run(at=1200)
    _export(desk, box)
    assert sorted(box.spans) == sorted(
        [(Span(1).trace_id, 1), (Span(1).trace_id, 2), (Span(2).trace_id, 1), (Span(2).trace_id, 2)]
    )


def test_one_that_is_away_holds_up_no_other_and_gets_the_rest_later(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is away holds up no other and gets the rest later."""
    monkeypatch.setattr(kept_module, "BATCH_SPANS", 4)
    desk.policies = policies(ERRORS)
    put(desk.lake, [Span(number, part, error=True) for number in range(10) for part in range(2)])
    desk.run(at=1000)
    put(desk.lake, [Span(number, part, at=900, error=True) for number in range(20, 24) for part in range(2)])
    desk.run(at=2000)
    good, bad = Box("good"), Box("bad")
    bad.away_after = 2

    results = {one.destination: one for one in _export(desk, good, bad)}
    assert results["good"].away is None
    assert results["bad"].away is not None
    assert len(good.spans) == 28
    assert 0 < len(bad.spans) < 28

    bad.away_after = -1
    _export(desk, good, bad)
    assert sorted(bad.spans) == sorted(good.spans)
    assert len(set(bad.spans)) == 28


def test_a_trace_that_is_too_large_for_a_batch_comes_in_parts(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """A trace that is too large for a batch comes in parts."""
    monkeypatch.setattr(kept_module, "BATCH_SPANS", 4)
    desk.policies = policies(ERRORS)
    sizes = {1: 3, 2: 30, 3: 2, 4: 25, 5: 1}
    put(desk.lake, [Span(trace, part, error=True) for trace, size in sizes.items() for part in range(size)])
    desk.run(at=1000)
    box = Box()
    everything = sum(sizes.values())
    for stop in (1, 3, 4, 9, 30):
        box.away_after = stop
        _export(desk, box)
    assert len(box.spans) == everything == len(set(box.spans))
    assert max(batch.num_rows for batch in box.batches) <= 8


def test_rows_in_a_table_are_those_of_the_source(desk: Desk) -> None:
    """Rows in a table are those of the source."""
    desk.policies = policies(ERRORS)
    put(desk.lake, [Span(1, 1, error=True, attributes={"a": "b"}), Span(2, 1)])
    desk.run(at=1000)
    table = IcebergTable(DestinationConfig(name="table", kind="iceberg"), desk.lake)
    _export(desk, table)
    _export(desk, table)

    (found,) = desk.lake.table("sampled_spans").scan().to_arrow().to_pylist()
    (source,) = [row for row in desk.lake.table("spans").scan().to_arrow().to_pylist() if row["status_code"] == 2]
    changed = {"attributes", "attribute_types", "trace_state"}
    assert {name: found[name] for name in found if name not in changed} == {
        name: source[name] for name in source if name not in changed
    }
    assert dict(found["attributes"]) == {"a": "b", "sampling.adjusted_count": "1"}


def _export(desk: Desk, *destinations: Any) -> list[PumpResult]:
    selector = desk.selector(at=0)
    kept = Kept(desk.lake, selector.source, desk.config, desk.lake.table("trace_decisions"))
    return Exporter(kept, selector.documents, destinations).run()
