"""The adjusted count on every span, and nothing else changed."""

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from neve.model.signals import Signal
from neve.model.tables import SPANS
from neve.otlp import encode
from neve.tail.policy.evaluate.thresholds import ADJUSTED_COUNT, stamp_adjusted_count
from tests.tail.export.batches import any_batch, kept_traces

counts = st.none() | st.floats(1, 1e12) | st.integers(1, 10**9).map(float)


@pytest.mark.slow
@settings(max_examples=40)
@given(any_batch, st.data())
def test_the_count_replaces_what_was_there_and_nothing_else(batch: pa.RecordBatch, data: st.DataObject) -> None:
    """Whatever the attributes are, in whatever part of a batch; a row without a count is left alone."""
    begin = data.draw(st.integers(0, batch.num_rows))
    batch = batch.slice(begin)
    given_counts = data.draw(st.lists(counts, min_size=batch.num_rows, max_size=batch.num_rows))
    once = stamp_adjusted_count(batch, pa.array(given_counts, pa.float64()))
    again = stamp_adjusted_count(once, pa.array(given_counts, pa.float64()))
    assert once.schema == SPANS.schema
    assert once.to_pylist() == again.to_pylist()
    for before, after, count in zip(batch.to_pylist(), once.to_pylist(), given_counts, strict=True):
        if count is not None:
            before["attributes"] = [*before["attributes"], (ADJUSTED_COUNT, after["attributes"][-1][1])]
            before["attribute_types"] = [*before["attribute_types"], (ADJUSTED_COUNT, "double")]
            assert float(after["attributes"][-1][1]) == count
        assert before == after


def test_an_older_count_is_replaced() -> None:
    """Of whatever type it was: a trace that is sampled twice has one count."""
    batch = kept_traces(1, 2)
    column = SPANS.schema.get_field_index("attributes")
    older = pa.array([[(ADJUSTED_COUNT, "often"), ("n", "1")], None], SPANS.schema.field(column).type)
    batch = batch.set_column(column, SPANS.schema.field(column), older)
    stamped = stamp_adjusted_count(batch, pa.array([4.0, 2.5]))
    assert stamped.column("attributes").to_pylist() == [[("n", "1"), (ADJUSTED_COUNT, "4")], [(ADJUSTED_COUNT, "2.5")]]
    assert [dict(types)[ADJUSTED_COUNT] for types in stamped.column("attribute_types").to_pylist()] == ["double"] * 2


def test_the_count_is_a_double_on_the_wire() -> None:
    """A whole number, too: who reads it must not meet two types."""
    message = encode(Signal.TRACES, stamp_adjusted_count(kept_traces(1, 1), pa.array([20.0])))
    [span] = ExportTraceServiceRequest.FromString(message).resource_spans[0].scope_spans[0].spans
    assert {entry.key: entry.value.double_value for entry in span.attributes}[ADJUSTED_COUNT] == 20.0


def test_the_trace_state_is_the_given_one() -> None:
    """Where one is given; where none is, each span keeps its own."""
    batch = kept_traces(1, 2)
    states = pa.array(["ot=th:8", None], pa.string())
    assert stamp_adjusted_count(batch, pa.array([2.0, 2.0]), states).column("trace_state").to_pylist() == [
        "ot=th:8",
        None,
    ]
    assert stamp_adjusted_count(batch, pa.array([2.0, 2.0])).column("trace_state").equals(batch.column("trace_state"))


@pytest.mark.parametrize("rows", [0, 1])
def test_a_batch_may_be_empty(rows: int) -> None:
    """Nothing in, nothing out."""
    batch = kept_traces(1, 1).slice(0, rows)
    assert stamp_adjusted_count(batch, pa.array([1.0] * rows, pa.float64())).num_rows == rows
