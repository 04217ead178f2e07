"""OTLP JSON: the standard's mapping, both ways."""

import json

import pytest
from google.protobuf.message import Message
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from neve.model.signals import Signal
from neve.otlp.json import to_json, to_protobuf
from tests.otlp.messages import CLASSES, MESSAGES

THOROUGH = settings(
    max_examples=40, deadline=None, suppress_health_check=list(HealthCheck), phases=(Phase.generate, Phase.shrink)
)


def _bytes(message: Message) -> bytes:
    return message.SerializeToString(deterministic=True)


@pytest.mark.slow
@pytest.mark.parametrize("signal", list(Signal))
@THOROUGH
@given(data=st.data())
def test_json_says_what_protobuf_says(signal: Signal, data: st.DataObject) -> None:
    """Any message written as JSON lines and read back is the same message."""
    messages: list[Message] = data.draw(st.lists(MESSAGES[signal], min_size=1, max_size=3))
    lines = "\n".join(to_json(signal, message.SerializeToString()) for message in messages)
    back = to_protobuf(signal, lines.encode())
    assert back.rejected == ()
    assert [_bytes(CLASSES[signal].FromString(wire)) for wire in back.messages.to_pylist()] == list(
        map(_bytes, messages)
    )


def test_integers_may_be_numbers_or_text_and_ids_are_hex() -> None:
    """Both ways of writing a 64-bit integer are read; ids of any case are hex, never base64."""
    span = {
        "traceId": "5B8EFFF798038103D269B633813FC60C",
        "spanId": "eee19b7ec3c1b174",
        "startTimeUnixNano": 1544712660000000000,
        "endTimeUnixNano": "1544712661000000000",
        "kind": 2,
    }
    text = json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]})
    [wire] = to_protobuf(Signal.TRACES, text.encode()).messages.to_pylist()
    [read] = CLASSES[Signal.TRACES].FromString(wire).resource_spans[0].scope_spans[0].spans
    assert read.trace_id.hex() == "5b8efff798038103d269b633813fc60c"
    assert (read.start_time_unix_nano, read.end_time_unix_nano) == (1544712660000000000, 1544712661000000000)


def test_enum_names_and_unknown_fields_are_read() -> None:
    """A producer that writes enums by name, or knows newer fields, is understood."""
    span = {"traceId": "0" * 31 + "1", "spanId": "0" * 15 + "1", "kind": "SPAN_KIND_SERVER", "brandNew": {"x": 1}}
    text = json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}, indent=2)
    [wire] = to_protobuf(Signal.TRACES, text.encode()).messages.to_pylist()
    assert CLASSES[Signal.TRACES].FromString(wire).resource_spans[0].scope_spans[0].spans[0].kind == 2


@pytest.mark.parametrize(
    "line",
    [
        '{"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": "xyz"}]}]}]}',
        '{"resourceSpans": [{"scopeSpans": [{"spans": {"traceId": ""}}]}]}',
        '{"resourceSpans": ',
        "[1, 2]",
    ],
)
def test_a_bad_line_costs_itself_only(line: str) -> None:
    """The lines around a malformed one are read, and the bad one is given back with its position."""
    good = '{"resourceSpans": [{"scopeSpans": [{"spans": [{"name": "x"}]}]}]}'
    read = to_protobuf(Signal.TRACES, "\n".join([good, line, good]).encode())
    assert read.index == (0, 2)
    assert [(bad.reason, bad.message, bad.payload) for bad in read.rejected] == [
        ("malformed_message", 1, line.encode())
    ]


def test_the_wrong_signal_is_an_empty_message() -> None:
    """Unknown keys are ignored, as the standard asks, so a logs file read as traces has no spans."""
    read = to_protobuf(Signal.TRACES, b'{"resourceLogs": []}')
    assert read.messages.to_pylist() == [b""]
