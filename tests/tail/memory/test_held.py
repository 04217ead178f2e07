"""What is held, and who is told when it is not any more."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from neve.tail.memory.kafka_feed import OffsetTracker
from neve.tail.memory.span_buffer import SMALL_ROWS, FeedLedger, SpanBuffer, build_trace_keys, measure_batch, split_rows
from tests.tail.lakes import ACME, OTHER, Span
from tests.tail.memory.feeds import NUMBERS, rows_of

TRACES = st.lists(st.tuples(st.sampled_from([ACME, OTHER]), st.integers(0, 5)), min_size=1, max_size=12)


def spans_of(rows: pa.Table) -> list[tuple[str, int, int]]:
    """Organization, trace and number of each span."""
    columns = [rows.column(name).to_pylist() for name in ("organization_id", "trace_id", "span_id")]
    return sorted((owner, NUMBERS[trace], int.from_bytes(span)) for owner, trace, span in zip(*columns, strict=True))


@settings(max_examples=30)
@given(feeds=st.lists(TRACES, min_size=1, max_size=6), grown=st.integers(0, 6), gone=TRACES)
def test_traces_go_and_others_stay(feeds: list[list[tuple[str, int]]], grown: int, gone: list[tuple[str, int]]) -> None:
    """However rows came, and wherever cycles were among them; one trace id may be two organizations'."""
    held, every = SpanBuffer(), []
    for place, feed in enumerate(feeds):
        spans = [Span(trace, 100 * place + number, organization=owner) for number, (owner, trace) in enumerate(feed)]
        every += [(span.organization, span.trace, span.number) for span in spans]
        for piece in split_rows(rows_of(spans), place, 10**6):
            held.add(piece)
        if place < grown:
            held.mark_seen()
    keys = build_trace_keys(rows_of([Span(trace, 0, organization=owner) for owner, trace in gone])).combine_chunks()
    taken = held.take(keys)
    assert spans_of(taken) == sorted(span for span in every if span[:2] in gone)
    left = sorted(span for span in every if span[:2] not in gone)
    assert held.rows == len(left)
    new, old = held.state()
    assert spans_of(pa.Table.from_batches([*new, *old], taken.schema)) == left
    assert held.bytes == sum(map(measure_batch, (*new, *old)))


def test_small_batches_become_large_ones() -> None:
    """Each costs far more than its values: a thousand feeds of one span are a few batches."""
    held = SpanBuffer()
    piece = next(split_rows(rows_of([Span(1, 1)]), 0, 10**6))
    for _ in range(1000):
        held.add(piece)
    new, _old = held.state()
    assert held.rows == 1000
    assert len(new) < 100
    held.mark_seen()
    new, old = held.state()
    assert (len(new), len(old)) == (0, 1)
    assert SMALL_ROWS > 1000


def test_a_slice_does_not_hold_the_whole() -> None:
    """What is held is what is counted."""
    rows = rows_of([Span(1, number, attributes={"text": "x" * 1000}) for number in range(500)])
    held = SpanBuffer()
    held.add(next(split_rows(rows.slice(0, 1), 0, 10**6)))
    assert held.bytes < 20_000


def test_a_feed_is_done_when_all_its_rows_are() -> None:
    """At once where it has none."""
    ledger, done = FeedLedger(), []
    assert ledger.open(0, lambda: done.append("none")) == -1
    first, second = ledger.open(3, lambda: done.append("first")), ledger.open(1, lambda: done.append("second"))
    ledger.settle(pa.array([first, -1, first]).to_numpy())
    assert done == ["none"]
    ledger.settle(pa.array([second, first]).to_numpy())
    assert sorted(done) == ["first", "none", "second"]
    assert len(ledger) == 0


@settings(max_examples=50)
@given(sizes=st.lists(st.integers(1, 9), min_size=1, max_size=20), order=st.randoms(use_true_random=False))
def test_offsets_pass_nothing_that_is_not_done(sizes: list[int], order: object) -> None:
    """Whatever is done first, the committed offset is that of the oldest lot which is not."""
    offsets, lots, begin = OffsetTracker(), {}, 40
    for size in sizes:
        lots[begin] = offsets.begin(("t", 0), begin, begin + size)
        begin += size
    left = list(lots)
    order.shuffle(left)  # type: ignore[attr-defined]
    while left:
        assert offsets.committable() == {("t", 0): min(left)}
        lots[left.pop()]()
    assert offsets.committable() == {("t", 0): begin}
    offsets.forget([("t", 0)])
    assert offsets.committable() == {}
