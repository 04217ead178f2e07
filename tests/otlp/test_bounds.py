"""What a message holds is counted before anyone decodes it."""

import random
from typing import Any

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue, KeyValueList
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ResourceLogs, ScopeLogs
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    ExponentialHistogram,
    ExponentialHistogramDataPoint,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Summary,
    SummaryDataPoint,
)
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span

from neve.model.signals import Signal
from neve.otlp.bounds import (
    WHOLE,
    Bounds,
    Entry,
    TooMany,
    check_bounds,
    count_entries,
    count_groups,
    max_entries,
    max_objects,
)
from tests.receive.doubles import field
from tests.telemetry import logs, metrics, traces

NO_BOUNDS = Bounds(10**9, 10**9, 10**9)
TIGHT = Bounds(groups=5, records=5, attributes=5)
EMPTY = {Signal.TRACES: b"\x4a\x00", Signal.LOGS: b"\x32\x00"}  # an attribute without key and value


def counted(signal: Signal, message: bytes) -> list[int]:
    """Groups, records and parts of a message."""
    return count_entries(message, WHOLE[signal], NO_BOUNDS)


def attributes(*names: str) -> list[KeyValue]:
    """Attributes without values."""
    return [KeyValue(key=name) for name in names]


def test_every_part_of_a_span_counts() -> None:
    """Attributes of the span, its events and links, the events and links themselves, and values inside of values."""
    nested = AnyValue(array_value=ArrayValue(values=[AnyValue(kvlist_value=KeyValueList(values=attributes("x", "y")))]))
    span = Span(
        attributes=[KeyValue(key="a", value=nested)],
        events=[Span.Event(attributes=attributes("b"))],
        links=[Span.Link(attributes=attributes("c", "d"))],
    )
    message = ExportTraceServiceRequest(resource_spans=[ResourceSpans(scope_spans=[ScopeSpans(spans=[span])])])
    assert counted(Signal.TRACES, message.SerializeToString()) == [2, 1, 1 + 3 + 2 + 3]


def test_every_type_of_point_counts() -> None:
    """A metric is a group; points are records; attributes and exemplars are parts."""
    metrics_ = [
        Metric(gauge=Gauge(data_points=[NumberDataPoint(attributes=attributes("a"))] * 2), metadata=attributes("m")),
        Metric(histogram=Histogram(data_points=[HistogramDataPoint(attributes=attributes("a"))])),
        Metric(
            exponential_histogram=ExponentialHistogram(
                data_points=[ExponentialHistogramDataPoint(attributes=attributes("a", "b"))]
            )
        ),
        Metric(
            summary=Summary(
                data_points=[SummaryDataPoint(quantile_values=[SummaryDataPoint.ValueAtQuantile(quantile=0.5)])]
            )
        ),
    ]
    message = ExportMetricsServiceRequest(
        resource_metrics=[ResourceMetrics(scope_metrics=[ScopeMetrics(metrics=metrics_)])]
    )
    assert counted(Signal.METRICS, message.SerializeToString()) == [6, 5, 3 + 1 + 2 + 1]


def test_a_body_of_a_log_record_counts() -> None:
    """Each value of a list in it."""
    body = AnyValue(array_value=ArrayValue(values=[AnyValue()] * 7))
    message = ExportLogsServiceRequest(
        resource_logs=[ResourceLogs(scope_logs=[ScopeLogs(log_records=[LogRecord(body=body)])])]
    )
    assert counted(Signal.LOGS, message.SerializeToString()) == [2, 1, 7]


@pytest.mark.parametrize(
    ("signal", "message", "setting"),
    [
        (Signal.TRACES, b"\x0a\x00" * 6, "max_groups"),
        (Signal.LOGS, logs(1) + field(1, b"\x12\x00" * 6), "max_groups"),
        (Signal.METRICS, field(1, field(2, b"\x12\x00" * 6)), "max_groups"),
        (Signal.TRACES, field(1, field(2, b"\x12\x00" * 6)), "max_records"),
        (Signal.LOGS, logs(6), "max_records"),
        (Signal.METRICS, metrics(6), "max_records"),
        (Signal.TRACES, field(1, field(2, field(2, b"\x4a\x00" * 6))), "max_attributes"),
        (Signal.LOGS, field(1, field(1, b"\x0a\x00" * 6)), "max_attributes"),
        (Signal.METRICS, field(1, field(2, field(1, b"\x1a\x00" * 6))), "max_attributes"),
        # Tags and lengths in more bytes than they need, and a protobuf group in front.
        (Signal.TRACES, b"\x8a\x00\x80\x00" * 6, "max_groups"),
        (Signal.TRACES, b"\x8a\x80\x80\x00\x80\x80\x00" * 6, "max_groups"),
        (Signal.LOGS, b"\x0b\x12\x00\x0c" + b"\x0a\x00" * 6, "max_groups"),
        # Malformed, but only behind what is too much.
        (Signal.LOGS, b"\x0a\x00" * 6 + b"\xff", "max_groups"),
        (Signal.LOGS, field(1, b"\x12\x00" * 6 + b"\x0a\x7f"), "max_groups"),
    ],
)
def test_too_many_are_refused(signal: Signal, message: bytes, setting: str) -> None:
    """With the bound that they are over."""
    with pytest.raises(TooMany, match="more than 5 ") as caught:
        check_bounds(signal, message, TIGHT)
    assert caught.value.setting == setting
    check_bounds(signal, message, NO_BOUNDS)


@pytest.mark.parametrize("signal", list(Signal))
def test_a_short_message_is_not_even_scanned(signal: Signal, monkeypatch: pytest.MonkeyPatch) -> None:
    """An entry takes two bytes, so that nothing needs to be counted."""
    message = {Signal.TRACES: traces, Signal.LOGS: logs, Signal.METRICS: metrics}[signal](500)
    monkeypatch.setattr("neve.otlp.bounds.count_entries", lambda *_arguments: pytest.fail("it was scanned"))
    check_bounds(signal, message, Bounds())


def test_the_scan_ends_at_the_bound() -> None:
    """However much follows: a decoder would have to hold thirty million groups."""
    message = memoryview(logs(1) + field(1, b"\x12\x00" * 1_000_000))
    seen = Touched(bytes(message))
    with pytest.raises(TooMany):
        count_groups(Signal.LOGS, seen, Bounds(groups=1000))  # type: ignore[arg-type]
    assert seen.touched < 10_000


@pytest.mark.parametrize("signal", list(Signal))
def test_the_scan_ends_at_a_number_of_unknown_fields(signal: Signal) -> None:
    """They are no groups, but to step over twenty million of them takes as long."""
    unknown = b"\xc0\x3e\x00"
    check_bounds(signal, unknown * 1000, Bounds(groups=100))
    for message in (unknown * 1_000_000, field(1, unknown * 1_000_000)):
        seen = CountedBytes(message)
        with pytest.raises(TooMany, match="more than 100 groups"):
            check_bounds(signal, seen, Bounds(groups=100))
        assert seen.reads < 10_000


@pytest.mark.parametrize("signal", list(Signal))
def test_the_scan_of_records_ends_at_a_number_of_fields(signal: Signal, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fields of records that no bound counts, such as empty data of a metric: thirty million of them took seconds."""
    monkeypatch.setattr("neve.otlp.bounds.MOST_FIELDS", 1000)
    uncounted = b"\x52\x00" if signal is Signal.METRICS else b"\x7a\x00"
    message = field(1, field(2, field(2, uncounted * 100_000)))
    seen = CountedBytes(message)
    with pytest.raises(TooMany, match="attributes, events"):
        count_entries(seen, WHOLE[signal], NO_BOUNDS)
    assert seen.reads < 10_000
    count_entries(field(1, field(2, field(2, uncounted * 900))), WHOLE[signal], NO_BOUNDS)
    many = field(1, field(2, field(2, b"\x08\x01" * 20) * 1000))
    assert sum(count_entries(many, WHOLE[signal], NO_BOUNDS)) == 1002


class Touched:
    """Bytes that count how often they are looked at."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.touched = 0

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, place: int) -> int:
        self.touched += 1
        return self.data[place]


@given(
    count=st.integers(0, 40),
    extra=st.lists(st.sampled_from([b"\x4a\x00", b"\xca\x00\x00", b"\x4a\x80\x00", b"\x5a\x02\x1a\x00", b"\x0a\x01b"])),
)
def test_what_may_be_entries_is_never_fewer_than_entries(count: int, extra: list[bytes]) -> None:
    """The quick count is above the true one, whatever way entries are written."""
    message = traces(count) + field(1, field(2, field(2, b"".join(extra))))
    assert max_entries(message) >= sum(counted(Signal.TRACES, message))


@pytest.mark.parametrize("signal", list(Signal))
@given(count=st.integers(0, 40), extra=st.lists(st.sampled_from([b"\x0a\x00", b"\x92\x00\x00", b"\x12\x80\x00"])))
def test_what_readers_may_build_is_never_fewer_than_groups_and_records(
    signal: Signal, count: int, extra: list[bytes]
) -> None:
    """Whatever way their tags are written."""
    make = {Signal.TRACES: traces, Signal.LOGS: logs, Signal.METRICS: metrics}[signal]
    message = make(count) + field(1, field(2, b"".join(extra))) + b"".join(extra)
    found = counted(signal, message)
    assert max_objects(message) >= found[Entry.GROUP] + found[Entry.RECORD]


@given(seed=st.integers(0, 2**32), size=st.integers(0, 300))
def test_any_bytes_can_be_scanned(seed: int, size: int) -> None:
    """Nothing but too much is an error, and the quick count holds for garbage as well."""
    message = random.Random(seed).randbytes(size)
    for signal in Signal:
        found = counted(signal, message)
        assert sum(found) <= max_entries(message)
        assert found[Entry.GROUP] + found[Entry.RECORD] <= max_objects(message)


def test_groups_of_protobuf_end_the_scan_where_readers_refuse_them() -> None:
    """A message of nothing but their starts would take a step for each byte."""
    message = CountedBytes(b"\x0b" * 3_000_000 + traces(2))
    assert count_entries(message, WHOLE[Signal.TRACES], Bounds()) == [0, 0, 0]
    assert message.reads <= 101
    with pytest.raises(DecodeError):
        ExportTraceServiceRequest.FromString(b"\x0b" * 101 + b"\x0c" * 101)
    assert counted(Signal.TRACES, b"\x0b" * 99 + b"\x0c" * 99 + traces(2))[Entry.RECORD] == 2


def test_deep_values_do_not_recurse() -> None:
    """Below a hundred levels nothing is counted: no reader of values goes there."""
    value = b""
    for _ in range(5000):
        value = field(5, field(1, value))
    message = field(1, field(2, field(2, field(5, value))))
    assert counted(Signal.LOGS, message)[Entry.PART] <= 100


class CountedBytes(bytes):
    """Bytes that count how often one of them is read."""

    reads = 0

    def __getitem__(self, index: Any) -> Any:
        """Read one."""
        self.reads += 1
        return super().__getitem__(index)


@pytest.mark.parametrize("start", [b"", field(1, b"")[:1]])
def test_a_number_without_an_end_is_malformed(start: bytes) -> None:
    """A tag or a length has ten bytes at most: adding up a longer one would take quadratic time."""
    message = CountedBytes(start + b"\xff" * 3_000_000)
    assert count_entries(message, WHOLE[Signal.TRACES], Bounds()) == [0, 0, 0]
    assert message.reads <= len(start) + 11
