"""The quick check agrees with decoding: it counts what is there, and refuses nothing that decoding accepts."""

import json
import random
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from neve.model.signals import Signal
from neve.otlp import Intake, decode
from neve.otlp.json import to_protobuf
from neve.otlp.protobuf import MESSAGES, message_class
from neve.otlp.values import MAX_LEVELS
from neve.receive.check import MAX_BAD_ROWS, check_message
from neve.receive.config import ReceiverConfig
from neve.receive.examine import check_json
from neve.receive.refusal import Refusal, Verdict
from tests.otlp.messages import MESSAGES as STRATEGIES
from tests.receive.doubles import NOW, deep_traces, field, span, traces_of
from tests.telemetry import logs, metrics, traces

if TYPE_CHECKING:
    from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric

INTAKE = Intake(organization_id="acme", received_unix_nano=NOW, max_future_nanos=3_600_000_000_000)
MANY = 1_000_000
SAMPLES = {Signal.TRACES: traces, Signal.LOGS: logs, Signal.METRICS: metrics}
each_signal = pytest.mark.parametrize("signal", list(Signal))
quickly = settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])

bad_ids = st.binary(max_size=20)
bad_times = st.sampled_from([0, NOW, NOW + 3_600_000_000_001, 2**63, 2**64 - 1])


def counts(signal: Signal, message: bytes) -> tuple[int, Counter[str]]:
    """How many records decoding finds, and how many it refuses, by reason."""
    decoded = decode(signal, [message], INTAKE)
    rejected = Counter(refused.reason for refused in decoded.rejected)
    return decoded.batch.num_rows + rejected.total(), rejected


def records(signal: Signal, message: Any) -> list[Any]:
    """The spans, log records or points of a message."""
    match signal:
        case Signal.TRACES:
            return [s for r in message.resource_spans for scope in r.scope_spans for s in scope.spans]
        case Signal.LOGS:
            return [s for r in message.resource_logs for scope in r.scope_logs for s in scope.log_records]
    found: list[Metric] = [m for r in message.resource_metrics for scope in r.scope_metrics for m in scope.metrics]
    return [p for m in found if m.WhichOneof("data") for p in getattr(m, m.WhichOneof("data") or "").data_points]


def spoil(draw: Any, signal: Signal, record: Any) -> None:
    """Give a record ids and times that may be wrong."""
    if signal is Signal.TRACES:
        record.trace_id, record.span_id = draw(bad_ids), draw(bad_ids)
        record.start_time_unix_nano = draw(bad_times)
    else:
        record.time_unix_nano = draw(bad_times)


@pytest.mark.slow
@each_signal
@quickly
@given(data=st.data())
def test_a_well_formed_message_is_counted_as_decoding_does(signal: Signal, data: st.DataObject) -> None:
    """Records and reasons are equal, whatever is wrong with ids, times and names."""
    message = data.draw(STRATEGIES[signal])
    for record in records(signal, message):
        if data.draw(st.booleans()):
            spoil(data.draw, signal, record)
    if signal is Signal.METRICS and data.draw(st.booleans()):
        for metric in (m for r in message.resource_metrics for scope in r.scope_metrics for m in scope.metrics):
            metric.name = data.draw(st.sampled_from(["", "name"]))
    wire = message.SerializeToString()
    checked = check_message(signal, wire, INTAKE, MANY)
    assert (checked.records, checked.rejected) == counts(signal, wire)


@pytest.mark.long
@each_signal
def test_a_damaged_message_is_never_judged_harder_than_by_decoding(signal: Signal) -> None:
    """A message that is refused whole is malformed for decoding too, and no more records are refused than there."""
    seeded = random.Random(11)
    whole = SAMPLES[signal](4)
    for _ in range(200):
        damaged = bytearray(whole)
        for _change in range(seeded.randint(1, 3)):
            damaged[seeded.randrange(len(damaged))] = seeded.randrange(256)
        wire = bytes(damaged[: seeded.choice([len(damaged), seeded.randrange(len(damaged))])])
        try:
            total, rejected = counts(signal, wire)
        except Exception:  # noqa: S112 - decoding has its own net for what nobody has foreseen
            continue
        try:
            checked = check_message(signal, wire, INTAKE, MANY)
        except Refusal:
            assert set(rejected) == {"malformed_message"}
        else:
            assert "malformed_message" not in rejected
            # A metric that can't be decoded counts once there, and with each of its points here.
            assert signal is Signal.METRICS or checked.records == total
            assert checked.records - checked.rejected.total() >= total - rejected.total()


def test_malformed_records_are_counted_alone() -> None:
    """Their neighbours are not."""
    message: Any = message_class(MESSAGES[Signal.TRACES])()
    message.ParseFromString(traces_of(span(), span(trace_id=b"short")))
    message.resource_spans[0].scope_spans[0].spans.insert(1, b"\xff\xff")
    checked = check_message(Signal.TRACES, message.SerializeToString(), INTAKE, MANY)
    assert (checked.records, checked.rejected) == (3, {"malformed_record": 1, "invalid_trace_id": 1})


def test_malformed_points_are_counted_alone() -> None:
    """Inside a metric too."""
    message: Any = message_class(MESSAGES[Signal.METRICS])()
    message.ParseFromString(metrics(3))
    scope = message.resource_metrics[0].scope_metrics[0]
    metric = message_class("metrics.v1.Metric").FromString(scope.metrics[0])
    metric.gauge.data_points.append(b"\xff")  # type: ignore[attr-defined]
    scope.metrics[0] = metric.SerializeToString()
    scope.metrics.append(b"\xff")
    wire = message.SerializeToString()
    checked = check_message(Signal.METRICS, wire, INTAKE, MANY)
    assert (checked.records, checked.rejected) == (5, {"malformed_record": 2})
    assert counts(Signal.METRICS, wire) == (5, {"malformed_record": 2})


def test_a_message_of_many_malformed_records_is_malformed() -> None:
    """Telling each of them apart would take as long as an attacker likes."""
    spans = field(2, span().SerializeToString()) + field(2, b"\xff") * (MAX_BAD_ROWS + 1)
    with pytest.raises(Refusal, match="more than 100 records") as caught:
        check_message(Signal.TRACES, field(1, field(2, spans)), INTAKE, MANY)
    assert caught.value.verdict is Verdict.MALFORMED


@each_signal
@pytest.mark.parametrize("count", [0, 1])
def test_few_records_are_counted(signal: Signal, count: int) -> None:
    """None and one."""
    assert check_message(signal, SAMPLES[signal](count), INTAKE, MANY).records == count


@each_signal
def test_too_many_records_are_refused(signal: Signal) -> None:
    """With their number and the setting."""
    with pytest.raises(Refusal, match=r"has 5 records, receiver\.max_records is 4") as caught:
        check_message(signal, SAMPLES[signal](5), INTAKE, 4)
    assert caught.value.verdict is Verdict.TOO_LARGE


@each_signal
def test_a_large_message_is_counted_like_a_small_one(signal: Signal, monkeypatch: pytest.MonkeyPatch) -> None:
    """Above a size, records are parted before they are parsed."""
    wire = SAMPLES[signal](50) + SAMPLES[signal](2)
    small = check_message(signal, wire, INTAKE, MANY)
    monkeypatch.setattr("neve.receive.check.LARGE", 100)
    assert check_message(signal, wire, INTAKE, MANY) == small
    assert small.records == 52


@pytest.mark.slow
def test_empty_records_are_counted_before_they_are_parsed() -> None:
    """A record may be two bytes on the wire: millions of them are refused, not unfolded."""
    with pytest.raises(Refusal, match="has 4000000 records"):
        check_message(Signal.TRACES, field(1, field(2, b"\x12\x00" * 4_000_000)), INTAKE, MANY)


def test_json_may_nest_maps_as_deep_as_protobuf() -> None:
    """An attribute of an event with maps of all levels that the tables can store passes by default, and is stored."""
    value: dict[str, Any] = {"stringValue": "x"}
    for _level in range(MAX_LEVELS):
        value = {"kvlistValue": {"values": [{"key": "k", "value": value}]}}
    event = {"name": "e", "attributes": [{"key": "a", "value": value}]}
    one = {"traceId": "01" * 16, "spanId": "01" * 8, "startTimeUnixNano": str(NOW), "events": [event]}
    text = json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [one]}]}]}).encode()
    check_json(text, ReceiverConfig().max_nesting)
    decoded = decode(Signal.TRACES, to_protobuf(Signal.TRACES, text).messages, INTAKE)
    assert (decoded.batch.num_rows, decoded.rejected) == (1, ())


def test_deep_values_cost_nothing() -> None:
    """Values are stepped over: 10,000 levels are a few bytes more."""
    assert check_message(Signal.TRACES, deep_traces(10_000), INTAKE, MANY).records == 1
