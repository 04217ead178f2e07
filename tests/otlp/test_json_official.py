"""Documents against protobuf's own JSON reader: what it accepts is kept, what it refuses is refused.

OTLP differs from the JSON of protobuf, and each difference has its test here:

- ids are hex, not base64;
- unknown fields are ignored;
- an unknown name of an enum is refused, where protobuf's reader ignores it together with unknown fields;
- OTLP has enums as numbers and names in lowerCamelCase only; names of enums and of protobuf's fields are read, too;
- text and lists are no objects, where protobuf's reader in Python takes them for empty ones.
"""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import pytest
from google.protobuf import json_format
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from neve.model.signals import Signal
from neve.otlp.json import to_json, to_protobuf
from tests.otlp.messages import CLASSES, MESSAGES

if TYPE_CHECKING:
    from google.protobuf.message import Message

IDS = ("traceId", "spanId", "parentSpanId", "trace_id", "span_id", "parent_span_id")
OFTEN = settings(
    max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), phases=(Phase.explicit, Phase.generate)
)
scalars = st.sampled_from(
    [
        None,
        True,
        False,
        0,
        1,
        -1,
        2,
        5,
        99,
        1.5,
        2.0,
        1000.0,
        -0.0,
        2**31,
        2**32,
        2**63,
        2**64,
        1e309,
        float("nan"),
        "",
        " ",
        "5",
        "-5",
        " 5",
        "5 ",
        "05",
        "0x10",
        "1.5",
        "1e3",
        "NaN",
        "nan",
        "Infinity",
        "-Infinity",
        "true",
        "x",
        "SPAN_KIND_SERVER",
        "STATUS_CODE_ERROR",
        "SEVERITY_NUMBER_INFO",
        "AGGREGATION_TEMPORALITY_DELTA",
        "naïve",
        "ab",
    ]
)
odd_values = (
    scalars | st.lists(scalars, max_size=2) | st.dictionaries(st.sampled_from(["x", "name"]), scalars, max_size=1)
)


def official(signal: Signal, document: Any) -> bytes | None:
    """What protobuf's reader makes of a document with hex ids, or None if it refuses it."""
    try:
        message = json_format.ParseDict(_ids_in_base64(document), CLASSES[signal](), ignore_unknown_fields=True)
    except Exception:
        return None
    return bytes(message.SerializeToString(deterministic=True))


def read(signal: Signal, text: str) -> bytes | None:
    """What Neve makes of one document, or None if it refuses it with words."""
    found = to_protobuf(signal, text.encode())
    if found.rejected:
        assert all(bad.detail and bad.payload for bad in found.rejected)
        return None
    [wire] = found.messages.to_pylist()
    return bytes(CLASSES[signal].FromString(wire).SerializeToString(deterministic=True))


@pytest.mark.slow
@pytest.mark.parametrize("signal", list(Signal))
@OFTEN
@given(data=st.data())
def test_one_odd_value_is_read_or_refused_as_by_protobuf(signal: Signal, data: st.DataObject) -> None:
    """A message with one value that is replaced by another of any type, compact or indented."""
    message: Message = data.draw(MESSAGES[signal])
    document = json.loads(to_json(signal, message.SerializeToString()))
    places = [place for place in _places(document) if place]
    if places:
        *path, last = data.draw(st.sampled_from(places))
        value = data.draw(odd_values)
        _walk(document, path)[last] = value
        if _is_beyond_protobuf(signal, (*path, last), value):
            return
    text = json.dumps(document, indent=data.draw(st.sampled_from([None, 1])), ensure_ascii=data.draw(st.booleans()))
    assert read(signal, text) == official(signal, document)


@pytest.mark.slow
@pytest.mark.parametrize("signal", list(Signal))
@OFTEN
@given(data=st.data())
def test_names_of_protobuf_are_read(signal: Signal, data: st.DataObject) -> None:
    """Difference: OTLP has lowerCamelCase only. A field under the other name is read and never dropped."""
    message: Message = data.draw(MESSAGES[signal])
    document = json.loads(to_json(signal, message.SerializeToString()))
    places = [place for place in _places(document) if place and isinstance(place[-1], str)]
    if places:
        *path, last = data.draw(st.sampled_from(places))
        within = _walk(document, path)
        within["".join(f"_{one.lower()}" if one.isupper() else one for one in last)] = within.pop(last)
    text = json.dumps(document)
    assert read(signal, text) == official(signal, document) == message.SerializeToString(deterministic=True)


@pytest.mark.parametrize(
    "pair", [('"name": "a"', '"name": "b"'), ('"kind": 1', '"kind": 1'), ('"kind": 1', '"kind": null')]
)
def test_a_key_twice_is_refused(pair: tuple[str, str]) -> None:
    """By protobuf's reader too, which sees the text."""
    text = f'{{"resourceSpans": [{{"scopeSpans": [{{"spans": [{{{", ".join(pair)}}}]}}]}}]}}'
    with pytest.raises(json_format.ParseError):
        json_format.Parse(text, CLASSES[Signal.TRACES]())
    [refused] = to_protobuf(Signal.TRACES, text.encode()).rejected
    assert f"has the key '{pair[0][1:5]}' twice" in refused.detail


def test_an_escaped_name_is_the_same_name() -> None:
    """A value of another type is not converted because its field is written with an escape."""
    text = '{"resourceSpans": [{"scopeSpans": [{"spans": [{"n\\u0061me": 5}]}]}]}'
    assert read(Signal.TRACES, text) is None
    assert read(Signal.TRACES, text.replace("5", '"x"')) == official(
        Signal.TRACES, json.loads(text.replace("5", '"x"'))
    )


def test_ids_are_hex() -> None:
    """Difference: protobuf's JSON has bytes in base64."""
    document = {"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": "5b8efff798038103d269b633813fc60c"}]}]}]}
    wire = read(Signal.TRACES, json.dumps(document))
    assert wire is not None
    assert bytes.fromhex("5b8efff798038103d269b633813fc60c") in wire
    document["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["traceId"] = "W47/95gDgQPSabYzgT/GDA=="
    assert read(Signal.TRACES, json.dumps(document)) is None


@pytest.mark.parametrize("value", ["text", [], ["x"]])
def test_text_and_lists_are_no_objects(value: Any) -> None:
    """Difference: protobuf's reader in Python takes them for an empty resource."""
    document = {"resourceSpans": [{"resource": value}]}
    assert read(Signal.TRACES, json.dumps(document)) is None


CASES = {
    "kind": (Signal.TRACES, {"kind": "SPAN_KIND_BROKER"}, ["SPAN_KIND_SERVER", 2, "2", 77]),
    "code": (Signal.TRACES, {"status": {"code": "STATUS_CODE_BAD"}}, ["STATUS_CODE_ERROR", 2, "2", 77]),
    "severityNumber": (Signal.LOGS, {"severityNumber": "LOUD"}, ["SEVERITY_NUMBER_INFO", 9, "9", 77]),
    "aggregationTemporality": (
        Signal.METRICS,
        {"name": "m", "sum": {"aggregationTemporality": "BOTH", "dataPoints": [{"asInt": "1"}]}},
        ["AGGREGATION_TEMPORALITY_DELTA", 1, "1", 77],
    ),
}
LISTS = {
    Signal.TRACES: ("resourceSpans", "scopeSpans", "spans"),
    Signal.LOGS: ("resourceLogs", "scopeLogs", "logRecords"),
    Signal.METRICS: ("resourceMetrics", "scopeMetrics", "metrics"),
}


@pytest.mark.parametrize("key", CASES)
def test_an_unknown_name_of_an_enum_rejects_its_record_alone(key: str) -> None:
    """Difference: protobuf's reader ignores the name, and the value is 0. The other records are kept."""
    signal, bad, _others = CASES[key]
    resources, scopes, records = LISTS[signal]
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": "shop"}}]}
    good = [{"name": "a"}, {"name": "b"}] if signal is not Signal.LOGS else [{"eventName": "a"}, {"eventName": "b"}]
    document: dict[str, Any] = {
        resources: [{"resource": resource, scopes: [{"scope": {"name": "s"}, records: [good[0], bad, good[1]]}]}]
    }
    found = to_protobuf(signal, json.dumps(document).encode())
    [refused] = found.rejected
    assert (refused.reason, refused.message, refused.encoding) == ("unknown_enum", 0, "otlp_json")
    name = next(text for text in ("SPAN_KIND_BROKER", "STATUS_CODE_BAD", "LOUD", "BOTH") if text in json.dumps(bad))
    assert refused.detail.startswith(f"{key} is {name!r}, expected a number or one of ")
    alone = json.loads(refused.payload)
    assert alone == {resources: [{"resource": resource, scopes: [{"scope": {"name": "s"}, records: [bad]}]}]}
    document[resources][0][scopes][0][records] = good
    [wire] = found.messages.to_pylist()
    assert CLASSES[signal].FromString(wire).SerializeToString(deterministic=True) == official(signal, document)


def test_bytes_of_records_beyond_a_limit_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each rejected record contains its resource, so that many would exceed the memory."""
    monkeypatch.setattr("neve.otlp.json.MAX_BYTES", 1000)
    resource = {"schemaUrl": "x" * 600, "scopeLogs": [{"logRecords": [{"severityNumber": "LOUD"}] * 5}]}
    found = to_protobuf(Signal.LOGS, json.dumps({"resourceLogs": [resource]}).encode()).rejected
    assert [bool(bad.payload) for bad in found] == [True, True, False, False, False]
    assert all(("its bytes are omitted" in bad.detail) is not bool(bad.payload) for bad in found)


@pytest.mark.parametrize("key", CASES)
def test_numbers_and_names_of_enums_are_kept(key: str) -> None:
    """Difference: OTLP has numbers only, names are read too. A number that the enum does not have stays as it is."""
    signal, bad, values = CASES[key]
    resources, scopes, records = LISTS[signal]
    for value in values:
        record = json.loads(json.dumps(bad), object_hook=lambda each: {**each, **({key: value} if key in each else {})})  # noqa: B023
        document = {resources: [{scopes: [{records: [record]}]}]}
        wire = read(signal, json.dumps(document))
        assert wire is not None
        assert wire == official(signal, document)
        assert to_json(signal, wire).count(f'"{key}":{77 if value == 77 else ""}') == 1


def _is_beyond_protobuf(signal: Signal, path: tuple[Any, ...], value: Any) -> bool:
    """Whether OTLP differs here: ids, unknown names of enums, and what is no object."""
    name = next((part for part in reversed(path) if isinstance(part, str)), "")
    if name in IDS or name in {"kind", "code", "severityNumber", "aggregationTemporality"}:
        return isinstance(value, str | list | dict) or name in IDS
    field = _find_field(CLASSES[signal].DESCRIPTOR, path)
    is_element = isinstance(path[-1], int)
    is_message = field is not None and field.message_type is not None and (is_element or not field.is_repeated)
    return (is_message and isinstance(value, str | list)) or (
        field is not None and field.is_repeated and isinstance(value, dict | str | list)
    )


def _find_field(message: Any, path: tuple[Any, ...]) -> Any:
    """The descriptor of the field that a path leads to."""
    field = None
    for part in path:
        if isinstance(part, str):
            field = message.fields_by_camelcase_name.get(part) if message is not None else None
            message = field.message_type if field is not None else None
    return field


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths to all values of a document."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, each in inner for place in _places(each, (*path, key)))]


def _walk(value: Any, path: list[Any]) -> Any:
    for part in path:
        value = value[part]
    return value


def _ids_in_base64(value: Any) -> Any:
    if isinstance(value, list):
        return [_ids_in_base64(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        key: base64.b64encode(bytes.fromhex(each)).decode()
        if key in IDS and isinstance(each, str)
        else _ids_in_base64(each)
        for key, each in value.items()
    }
