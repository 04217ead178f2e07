"""Lossless, both ways: any valid message, decoded and encoded again, says the same."""

import pytest
from google.protobuf.message import Message
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from opentelemetry.proto.common.v1.common_pb2 import KeyValue

from neve.model.signals import Signal
from neve.otlp import Intake, decode, encode
from tests.otlp.canonical import MAPS, canonical
from tests.otlp.messages import CLASSES, MESSAGES, NOW, any_values

INTAKE = Intake(organization_id="acme", received_unix_nano=NOW)
THOROUGH = settings(
    max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), phases=(Phase.generate, Phase.shrink)
)


def same_after_a_round_trip(signal: Signal, messages: list[Message]) -> None:
    """Decode some messages together, encode the rows as one message, and compare with the messages joined."""
    decoded = decode(signal, [message.SerializeToString() for message in messages], INTAKE)
    joined = CLASSES[signal]()
    for message in messages:
        joined.MergeFrom(message)
    assert decoded.rejected == ()
    back = CLASSES[signal].FromString(encode(signal, decoded.batch))
    assert canonical(signal, back) == canonical(signal, joined)


@pytest.mark.slow
@THOROUGH
@given(st.lists(MESSAGES[Signal.TRACES], min_size=1, max_size=2))
def test_spans_come_back_as_they_went_in(messages: list[Message]) -> None:
    """Every span, event, link, resource and scope survives, bit for bit."""
    same_after_a_round_trip(Signal.TRACES, messages)


@pytest.mark.slow
@THOROUGH
@given(st.lists(MESSAGES[Signal.LOGS], min_size=1, max_size=2))
def test_logs_come_back_as_they_went_in(messages: list[Message]) -> None:
    """Every body, of any type, and every attribute survives."""
    same_after_a_round_trip(Signal.LOGS, messages)


@pytest.mark.slow
@THOROUGH
@given(st.lists(MESSAGES[Signal.METRICS], min_size=1, max_size=2))
def test_metrics_come_back_as_they_went_in(messages: list[Message]) -> None:
    """Every point of all five types survives, exemplars and empty buckets included."""
    same_after_a_round_trip(Signal.METRICS, messages)


@pytest.mark.slow
@pytest.mark.parametrize("signal", list(Signal))
@settings(THOROUGH, max_examples=30)
@given(data=st.data())
def test_attributes_with_the_same_key_come_back(signal: Signal, data: st.DataObject) -> None:
    """All of them, with values of any type, wherever attributes are."""
    message: Message = data.draw(MESSAGES[signal])
    repeat_attributes(message, data)
    same_after_a_round_trip(signal, [message])


def repeat_attributes(message: Message, data: st.DataObject) -> None:
    """Add attributes with the keys that are there, at any depth."""
    for field, value in message.ListFields():
        if field.message_type is None or field.message_type.name == "AnyValue":
            continue
        if field.name in MAPS and field.message_type.name == "KeyValue":
            more = [
                KeyValue(key=one.key, value=data.draw(any_values))
                for one in value
                for _ in range(data.draw(st.integers(0, 2)))
            ]
            value.extend(data.draw(st.permutations(more)))
        else:
            for item in value if field.is_repeated else [value]:
                repeat_attributes(item, data)


@pytest.mark.parametrize("signal", list(Signal))
def test_no_messages_give_an_empty_batch(signal: Signal) -> None:
    """Nothing in, nothing out, and the schema is the table's all the same."""
    decoded = decode(signal, [], INTAKE)
    assert decoded.batch.num_rows == 0
    assert encode(signal, decoded.batch) == b""
