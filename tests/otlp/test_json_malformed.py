"""Whatever text is transcoded, nothing is raised: each document is a message, or is refused with words."""

import json
import random
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from neve.model.signals import Signal
from neve.otlp.json import MAX_DETAIL_CHARACTERS, documents, to_json, to_protobuf
from tests.otlp.damage import damaged, whole
from tests.otlp.messages import CLASSES

WHOLE = {signal: to_json(signal, wire) for signal, wire in whole().items()}
GOOD = '{"resourceSpans": [{"scopeSpans": [{"spans": [{"name": "x"}]}]}]}'
DEEP = 100_000
each_signal = pytest.mark.parametrize("signal", list(Signal))
often = settings(
    max_examples=50, deadline=None, suppress_health_check=list(HealthCheck), phases=(Phase.generate, Phase.shrink)
)

scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
names = st.sampled_from(["resourceSpans", "resourceLogs", "scopeSpans", "spans", "traceId", "attributes", "value", "x"])
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3), max_leaves=20
)


def transcode(signal: Signal, text: bytes) -> int:
    """Transcode; every document must be there once, and every message must be one. How many were refused."""
    read = to_protobuf(signal, text)
    places = sorted([*read.index, *(bad.message for bad in read.rejected)])
    assert places == list(range(len(places)))
    for wire in read.messages.to_pylist():
        CLASSES[signal].FromString(wire)
    for bad in read.rejected:
        assert (bad.reason, bad.encoding) == ("malformed_message", "otlp_json")
        assert bad.detail.startswith(f"not OTLP JSON for {signal}: ")
        assert len(bad.detail) <= MAX_DETAIL_CHARACTERS + 1
    return len(read.rejected)


def span(fields: str) -> str:
    """A document with one span."""
    return f'{{"resourceSpans": [{{"scopeSpans": [{{"spans": [{{{fields}}}]}}]}}]}}'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1", "the document is a number (1), expected an object"),
        ("null", "the document is null, expected an object"),
        ("[]", "the document is a list, expected an object"),
        (f"[{GOOD}]", "the document is a list, expected an object"),
        ('"text"', 'the document is text ("text"), expected an object'),
        ("true", "the document is a boolean (true), expected an object"),
        ('{"resourceSpans": 5}', "resourceSpans is a number (5), expected a list"),
        ('{"resourceSpans": "[]"}', 'resourceSpans is text ("[]"), expected a list'),
        ('{"resourceSpans": [[]]}', "an element of resourceSpans is a list, expected an object"),
        (span('"traceId": 5'), "traceId is a number (5), expected hex digits as text"),
        (span('"spanId": 1234567890123456'), "spanId is a number (1234567890123456), expected hex digits as text"),
        (span('"traceId": ["00"]'), "traceId is a list, expected hex digits as text"),
        (span('"traceId": "xyz"'), "traceId is 'xyz', expected an even number of hex digits"),
        (span('"traceId": "00 11"'), "traceId is '00 11', expected an even number of hex digits"),
        (span('"kind": 1e400'), "infinity"),
        (span('"attributes": [{"key": "k", "value": {"arrayValue": 5}}]'), "arrayValue is a number (5)"),
        (span('"attributes": [{"key": "k", "value": {"kvlistValue": "x"}}]'), 'kvlistValue is text ("x")'),
        ('{"resourceSpans": [{"schemaUrl": "\\ud800"}]}', "surrogate"),
        ("[" * DEEP + "]" * DEEP, "it is nested too deep to be read"),
    ],
)
def test_what_is_wrong_is_said(text: str, words: str) -> None:
    """Alone, and between two good documents that are kept."""
    [refused] = to_protobuf(Signal.TRACES, text.encode()).rejected
    assert words in refused.detail
    assert refused.payload == text.encode()
    among = to_protobuf(Signal.TRACES, f"{GOOD}\n{text}\n{GOOD}".encode())
    assert among.index == (0, 2)
    assert [(bad.message, bad.payload) for bad in among.rejected] == [(1, text.encode())]


@pytest.mark.parametrize("text", ["{}", '{"resourceLogs": []}', '{"resourceSpans": null}', '{"resourceSpans": []}'])
def test_an_object_without_spans_is_an_empty_message(text: str) -> None:
    """As the standard has it: unknown keys are ignored, and null is nothing."""
    read = to_protobuf(Signal.TRACES, text.encode())
    assert (read.messages.to_pylist(), read.rejected) == ([b""], ())


def test_names_of_fields_may_be_those_of_protobuf() -> None:
    """Also the one at the top, which the fast way does not know."""
    text = GOOD.replace("resourceSpans", "resource_spans").replace("scopeSpans", "scope_spans")
    assert to_protobuf(Signal.TRACES, text.encode()).messages == to_protobuf(Signal.TRACES, GOOD.encode()).messages


def test_an_absent_id_may_be_null() -> None:
    """On both ways."""
    for kind in ("1", '"SPAN_KIND_INTERNAL"'):
        [wire] = to_protobuf(Signal.TRACES, span(f'"parentSpanId": null, "kind": {kind}').encode()).messages.to_pylist()
        [read] = CLASSES[Signal.TRACES].FromString(wire).resource_spans[0].scope_spans[0].spans
        assert (read.parent_span_id, read.kind) == (b"", 1)


@pytest.mark.parametrize("text", [b"", b" \n ", b"\r\n\t"])
def test_no_text_is_no_message(text: bytes) -> None:
    """And no error."""
    assert len(to_protobuf(Signal.LOGS, text).messages) == transcode(Signal.LOGS, text) == 0


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ("[" * DEEP, 1),
        ("[" * DEEP + "]" * DEEP, 1),
        ('{"a":' * DEEP, 1),
        ('{"a":' * DEEP + "1" + "}" * DEEP, 1),
        ('{"resourceSpans": [{"schemaUrl": ' + "[" * DEEP + "]" * DEEP + "}]}", 1),
        (span('"attributes": [{"key": "k", "value": ' + '{"arrayValue": {"values": [' * DEEP), 1),
        (span('"attributes": [{"value": ' + '{"arrayValue": {"values": [' * DEEP + "]}}" * DEEP + "}]"), 1),
    ],
    ids=["open lists", "lists", "open objects", "objects", "text", "open values", "values"],
)
def test_deep_text_does_not_end_the_process(text: str, refused: int) -> None:
    """A hundred thousand levels of anything; the documents around them are read."""
    assert transcode(Signal.TRACES, text.encode()) == refused
    among = to_protobuf(Signal.TRACES, f"{GOOD}\n{text}\n{GOOD}".encode())
    assert {0, 2} <= set(among.index)


@pytest.mark.slow
@each_signal
@often
@given(text=st.binary(max_size=60))
def test_any_bytes(signal: Signal, text: bytes) -> None:
    """Are transcoded or refused."""
    transcode(signal, text)


@pytest.mark.slow
@each_signal
@often
@given(value=values)
def test_any_json(signal: Signal, value: Any) -> None:
    """Is transcoded or refused, and only an object is transcoded."""
    refused = transcode(signal, json.dumps(value).encode())
    assert refused == 1 or isinstance(value, dict)


@pytest.mark.long
@each_signal
@often
@given(data=st.data())
def test_any_value_in_the_place_of_another(signal: Signal, data: st.DataObject) -> None:
    """A document of which one part, however small, is something else."""
    document = json.loads(WHOLE[signal])
    holder: Any = {"top": document}
    key: Any = "top"
    while isinstance(holder[key], dict | list) and holder[key] and data.draw(st.integers(0, 9)):
        holder = holder[key]
        key = data.draw(st.sampled_from(range(len(holder)) if isinstance(holder, list) else sorted(holder)))
    holder[key] = data.draw(values)
    transcode(signal, json.dumps(document).encode())


@pytest.mark.slow
@each_signal
def test_any_damage(signal: Signal) -> None:
    """Bits flipped, bytes cut off, put in and doubled, in one of three documents."""
    seeded = random.Random(f"json {signal}")
    text = WHOLE[signal].encode()
    for _ in range(40):
        transcode(signal, damaged(seeded, text))
        spoilt = damaged(seeded, text).replace(b"\n", b" ").replace(b"\r", b" ")
        read = to_protobuf(signal, b"\n".join([text, spoilt, text]))
        assert read.index[0] == 0
        assert len(read.messages) >= 2


def test_many_documents_take_as_long_as_their_bytes() -> None:
    """Each is cut off once: the text behind it is not copied for each."""
    assert len(documents(b'{"a": 1}\n' * 100_000)) == 100_000
