"""Lossless, both ways: any valid message, decoded and encoded again, says the same."""

import pytest
from google.protobuf.message import Message
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from neve.model.signals import Signal
from neve.otlp import Intake, decode, encode
from tests.otlp.canonical import canonical
from tests.otlp.messages import CLASSES, MESSAGES, NOW

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


@THOROUGH
@given(st.lists(MESSAGES[Signal.TRACES], min_size=1, max_size=2))
def test_spans_come_back_as_they_went_in(messages: list[Message]) -> None:
    """Every span, event, link, resource and scope survives, bit for bit."""
    same_after_a_round_trip(Signal.TRACES, messages)


@THOROUGH
@given(st.lists(MESSAGES[Signal.LOGS], min_size=1, max_size=2))
def test_logs_come_back_as_they_went_in(messages: list[Message]) -> None:
    """Every body, of any type, and every attribute survives."""
    same_after_a_round_trip(Signal.LOGS, messages)


@THOROUGH
@given(st.lists(MESSAGES[Signal.METRICS], min_size=1, max_size=2))
def test_metrics_come_back_as_they_went_in(messages: list[Message]) -> None:
    """Every point of all five types survives, exemplars and empty buckets included."""
    same_after_a_round_trip(Signal.METRICS, messages)


@pytest.mark.parametrize("signal", list(Signal))
def test_no_messages_give_an_empty_batch(signal: Signal) -> None:
    """Nothing in, nothing out, and the schema is the table's all the same."""
    decoded = decode(signal, [], INTAKE)
    assert decoded.batch.num_rows == 0
    assert encode(signal, decoded.batch) == b""
