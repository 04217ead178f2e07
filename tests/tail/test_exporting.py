"""Kept traces on their way: every span of them arrives, late ones too; one that is away holds up nobody."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from prometheus_client import REGISTRY

from neve.lake.commit.append import append_once
from neve.lake.write.table_writer import Target, write_files
from neve.model.tables import SPANS
from neve.state.leases import hold_worker_lease
from neve.tail.config import DestinationConfig
from neve.tail.export import kept_spans as kept_module
from neve.tail.export import kept_spans as reading_module
from neve.tail.export.destination import Delivery, DestinationUnavailable
from neve.tail.export.exporter import Exporter
from neve.tail.export.kept_spans import KeptSpans
from neve.tail.export.storage_destinations import IcebergDestination
from tests.tail.lakes import ERRORS, START, Span, percentage, policies, put
from tests.tail.test_foreign import _foreign

if TYPE_CHECKING:
    from neve.tail.export.destination import DeliveryResult
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
            raise DestinationUnavailable("the box is shut")
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

    before = _turns_away("bad")
    results = {one.destination: one for one in _export(desk, good, bad)}
    assert (_turns_away("bad") - before, _turns_away("good")) == (1, 0)
    assert results["good"].error is None
    assert results["bad"].error is not None
    assert len(good.spans) == 28
    assert 0 < len(bad.spans) < 28

    bad.away_after = -1
    _export(desk, good, bad)
    assert sorted(bad.spans) == sorted(good.spans)
    assert len(set(bad.spans)) == 28


@pytest.mark.long
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
    table = IcebergDestination(DestinationConfig(name="table", kind="iceberg"), desk.lake)
    _export(desk, table)
    _export(desk, table)

    (found,) = desk.lake.table("sampled_spans").scan().to_arrow().to_pylist()
    (source,) = [row for row in desk.lake.table("spans").scan().to_arrow().to_pylist() if row["status_code"] == 2]
    changed = {"attributes", "attribute_types", "trace_state"}
    assert {name: found[name] for name in found if name not in changed} == {
        name: source[name] for name in source if name not in changed
    }
    assert dict(found["attributes"]) == {"a": "b", "sampling.adjusted_count": "1"}


@pytest.mark.long
def test_all_of_many_wide_spans_are_brought_at_the_default_settings(desk: Desk) -> None:
    """Whatever share is kept: memory does not grow with it."""
    desk.policies = policies(percentage(100))
    spans, traces = 60_000, 6_000
    _put_wide(desk, spans, traces)
    desk.run(at=1000)
    count = Count()
    (result,) = _export(desk, count)
    assert (count.spans, result.missing) == (spans, 0)
    assert count.traces == sorted(set(count.traces))
    assert len(count.traces) == traces


@pytest.mark.long
def test_more_lots_than_files_may_be_open(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are read some at a time, and a destination that was away in between gets each span once."""
    monkeypatch.setattr(kept_module, "BATCH_SPANS", 4)
    monkeypatch.setattr(reading_module, "SHARDS_AT_ONCE", 3)
    desk.policies = policies(ERRORS)
    sizes = {trace: 1 + trace * 7 % 11 for trace in range(30)}
    put(desk.lake, [Span(trace, part, error=True) for trace, size in sizes.items() for part in range(size)])
    desk.run(at=1000)
    box = Box()
    for stop in (1, 5, 6, 20, -1):
        box.away_after = stop
        _export(desk, box)
    assert len(box.spans) == sum(sizes.values()) == len(set(box.spans))
    assert [trace for trace, _number in box.spans] == sorted(trace for trace, _number in box.spans)


def test_what_is_decided_later_is_found_by_the_same_exporter(desk: Desk) -> None:
    """An exporter that lives on sees new decisions."""
    desk.policies = policies(ERRORS)
    box = Box()
    exporter = _exporter(desk, box)
    exporter.run()
    put(desk.lake, [Span(1, 1, error=True)])
    desk.run(at=1000)
    exporter.run()
    assert [number for _trace, number in box.spans] == [1]


def test_a_span_that_begins_after_the_end_of_its_trace_is_brought(desk: Desk) -> None:
    """One that has no end, or whose clock is ahead, may be in a file of its own."""
    desk.policies = policies(ERRORS)
    put(desk.lake, [Span(1, 1, error=True, seconds=1)])
    put(desk.lake, [Span(1, 2, at=250, seconds=-250)])
    desk.run(at=1000)
    box = Box()
    (result,) = _export(desk, box)
    assert sorted(number for _trace, number in box.spans) == [1, 2]
    assert result.missing == 0


def test_a_column_called_timestamp_that_is_no_start_hides_nothing(desk: Desk) -> None:
    """In a table of others it may be when a row was loaded."""
    start = int(START.timestamp()) * 10**9
    row = {
        "trace_id": Span(1).trace_id,
        "span_id": b"\1" * 8,
        "status_code": 2,
        "start_time_unix_nano": start,
        "end_time_unix_nano": start + 10**8,
        "timestamp": START + timedelta(days=3),
        "ingested_at": START,
    }
    time, binary = pa.timestamp("us", "UTC"), pa.binary()
    kinds = [binary, binary, pa.int32(), pa.int64(), pa.int64(), time, time]
    _foreign(desk, [row], pa.schema(list(zip(row, kinds, strict=True))))
    desk.policies = policies(ERRORS)
    desk.set(source={"table": "others.otel_spans", "organization": "acme"})
    assert desk.run(at=1000).sampled.traces == 1
    box = Box()
    (result,) = _export(desk, box)
    assert (len(box.spans), result.missing) == (1, 0)


def test_spans_that_are_gone_are_told(desk: Desk) -> None:
    """Kept traces whose spans were deleted before they were brought do not vanish silently."""
    desk.policies = policies(ERRORS)
    put(desk.lake, [Span(1, 1, error=True), Span(1, 2)])
    desk.run(at=1000)
    desk.lake.table("spans").delete()
    table = desk.lake.table("spans")
    expiry = table.maintenance.expire_snapshots()
    for snapshot in table.metadata.snapshots:
        if snapshot.snapshot_id != table.metadata.current_snapshot_id:
            expiry = expiry.by_id(snapshot.snapshot_id)
    expiry.commit()
    (result,) = _export(desk, Box())
    assert (result.delivery.accepted, result.missing) == (0, 2)


def test_two_processes_of_one_selector_bring_each_span_once(desk: Desk) -> None:
    """The second one leaves the destination to the first, and says so."""
    desk.policies = policies(ERRORS)
    put(desk.lake, [Span(number, 1, error=True) for number in range(10)])
    desk.run(at=1000)
    slow = Slow()
    first = threading.Thread(target=lambda: _export(desk, slow))
    first.start()
    assert slow.began.wait(600)
    (second,) = _export(desk, slow)
    slow.go_on.set()
    first.join()
    assert len(slow.spans) == len(set(slow.spans)) == 10
    assert "tail-export:tail:slow" in second.note
    assert second.error is None


def test_a_dead_process_s_lease_can_be_taken(desk: Desk) -> None:
    """As with a selector's own."""
    desk.policies = policies(ERRORS)
    put(desk.lake, [Span(1, 1, error=True)])
    desk.run(at=1000)
    box = Box()
    exporter = _exporter(desk, box)
    with hold_worker_lease(exporter.documents, "tail-export:tail:box", owner="dead", seconds=600):
        assert exporter.run()[0].note
        assert not replace(exporter, steal=True).run()[0].note
    assert len(box.spans) == 1


def test_a_cursor_that_another_moved_ends_the_turn(desk: Desk) -> None:
    """It is said in the result, and holds up no other destination."""
    desk.policies = policies(ERRORS)
    put(desk.lake, [Span(1, 1, error=True)])
    desk.run(at=1000)
    good, robbed = Box("good"), Robbed()
    robbed.rob = lambda: replace(_exporter(desk, Box("robbed")), steal=True).run()
    results = {one.destination: one for one in _export(desk, robbed, good)}
    assert "no longer at" in results["robbed"].note
    assert len(good.spans) == 1


class Slow(Box):
    """A destination that waits until it may go on."""

    def __init__(self) -> None:
        super().__init__("slow")
        self.began, self.go_on = threading.Event(), threading.Event()

    def deliver(self, batch: pa.RecordBatch, batch_id: str) -> Delivery:
        """Take a batch when it may."""
        self.began.set()
        assert self.go_on.wait(600)
        return super().deliver(batch, batch_id)


class Robbed(Box):
    """A destination that another process brings the same at the same time."""

    rob: Any

    def __init__(self) -> None:
        super().__init__("robbed")

    def deliver(self, batch: pa.RecordBatch, batch_id: str) -> Delivery:
        """Take a batch after another one did."""
        self.rob()
        return super().deliver(batch, batch_id)


class Count:
    """A destination that only counts."""

    name = "count"

    def __init__(self) -> None:
        self.spans = 0
        self.traces: list[bytes] = []

    def deliver(self, batch: pa.RecordBatch, batch_id: str) -> Delivery:
        """Count a batch."""
        assert batch_id
        self.spans += batch.num_rows
        self.traces += batch.column("trace_id").unique().to_pylist()
        return Delivery(accepted=batch.num_rows)

    def close(self) -> None:
        """Nothing to let go of."""


def _put_wide(desk: Desk, spans: int, traces: int) -> None:
    """Spans with some two kilobytes of attributes each, in no order of their traces."""
    attributes = [(f"attribute.number.{number}", f"{number:064x}") for number in range(20)]
    rows = pa.Table.from_pylist([Span(trace).row() for trace in range(traces)], SPANS.schema)
    for name in ("attributes", "resource_attrs"):
        wide = pa.array([attributes] * traces, SPANS.schema.field(name).type)
        rows = rows.set_column(rows.schema.get_field_index(name), SPANS.schema.field(name), wide)
    table = desk.lake.table("spans")
    files = write_files(Target.of(table), pa.concat_tables([rows] * (spans // traces)))
    append_once(table, files, batch_id="wide", operation="test")


def _exporter(desk: Desk, *destinations: Any) -> Exporter:
    selector = desk.selector(at=0)
    kept = KeptSpans(desk.lake, selector.source, desk.config, desk.lake.table("trace_decisions"))
    return Exporter(kept, selector.documents, destinations)


def _turns_away(destination: str) -> float:
    """How many turns were counted in which a destination was away."""
    labels = {"selector": "tail", "destination": destination}
    return REGISTRY.get_sample_value("neve_tail_away_total", labels) or 0


def _export(desk: Desk, *destinations: Any) -> list[DeliveryResult]:
    return _exporter(desk, *destinations).run()
