"""A batch in requests: nothing lost, nothing twice, and traces whole where they fit."""

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from neve.tail.export.destination import SendResult, send_in_pieces, split_batch
from tests.tail.export.batches import kept_traces


def batch_of(sizes: list[int]) -> pa.RecordBatch:
    """Traces of so many spans each."""
    ids = [trace.to_bytes(16, "big") for trace, size in enumerate(sizes) for _ in range(size)]
    spans = [number.to_bytes(8, "big") for number in range(len(ids))]
    return pa.RecordBatch.from_pydict({"trace_id": pa.array(ids, pa.binary()), "span_id": pa.array(spans, pa.binary())})


@settings(max_examples=200)
@given(st.lists(st.integers(1, 9), max_size=12), st.integers(1, 12))
def test_pieces_are_the_batch_and_divide_only_large_traces(sizes: list[int], most: int) -> None:
    """In order, none larger than asked for; a trace that fits one piece is in one piece."""
    batch = batch_of(sizes)
    pieces = split_batch(batch, most)
    assert [span for piece in pieces for span in piece.column("span_id").to_pylist()] == batch["span_id"].to_pylist()
    assert all(0 < piece.num_rows <= most for piece in pieces)
    for trace, size in enumerate(sizes):
        holders = [piece for piece in pieces if trace.to_bytes(16, "big") in piece.column("trace_id").to_pylist()]
        assert len(holders) == 1 or size > most


@settings(max_examples=100)
@given(st.lists(st.integers(1, 9), max_size=8), st.integers(1, 50), st.sets(st.integers(0, 40)), st.integers(1, 10))
def test_what_is_too_large_is_divided_until_it_fits(sizes: list[int], most: int, poison: set[int], limit: int) -> None:
    """A span that no request can hold is refused alone; all others arrive once."""
    batch, arrived = batch_of(sizes), []

    def send(piece: pa.RecordBatch) -> SendResult:
        numbers = [int.from_bytes(span, "big") for span in piece.column("span_id").to_pylist()]
        if piece.num_rows > limit or poison & set(numbers):
            return SendResult(rejected=piece.num_rows, message="too large", divide=True, attempts=1)
        arrived.extend(numbers)
        return SendResult(attempts=1)

    delivery = send_in_pieces(batch, most, send)
    everything = set(range(batch.num_rows))
    assert sorted(arrived) == sorted(everything - poison)
    assert (delivery.accepted, delivery.rejected) == (len(everything - poison), len(everything & poison))


def test_a_server_that_counts_wrong_does_not_make_spans() -> None:
    """More refused spans than were sent are all of them; fewer than none are none."""
    batch = kept_traces(1, 4)
    assert send_in_pieces(batch, 10, lambda _piece: SendResult(rejected=99)).rejected == 4
    assert send_in_pieces(batch, 10, lambda _piece: SendResult(rejected=-5)).accepted == 4
