"""Messages with a text in every place that has room for one, and their redaction value by value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from google.protobuf.descriptor import FieldDescriptor
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue, KeyValueList

from neve.otlp.json import CLASSES

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from neve.model.signals import Signal

NOW = 1_760_000_000_000_000_000
IDS = {"trace_id": 16, "span_id": 8, "parent_span_id": 8}
LEFT_OUT = {"string_value_strindex", "key_strindex"}


def value_with(text: str, depth: int = 3) -> AnyValue:
    """A value with the text in a string, in bytes, in lists, and in keys and values of maps."""
    if depth == 0:
        return AnyValue(string_value=f"a {text} b")
    inner = value_with(text, depth - 1)
    entries = [
        KeyValue(key=f"in {text}", value=inner),
        KeyValue(key="bytes", value=AnyValue(bytes_value=b"\xff " + text.encode() + b" \x00")),
        KeyValue(key="number", value=AnyValue(int_value=7)),
    ]
    nested = AnyValue(kvlist_value=KeyValueList(values=entries))
    return AnyValue(array_value=ArrayValue(values=[inner, nested, AnyValue()]))


def fill(message: Message, text: str) -> Message:
    """Set every field that has a text, at every depth."""
    for field in message.DESCRIPTOR.fields:
        if field.name in LEFT_OUT:
            continue
        if field.name in ("attributes", "filtered_attributes", "metadata"):
            getattr(message, field.name).extend(
                [
                    KeyValue(key="plain", value=AnyValue(string_value=f"x {text} y")),
                    KeyValue(key=f"key {text}", value=AnyValue(double_value=0.5)),
                    KeyValue(key="nested", value=value_with(text)),
                ]
            )
        elif field.name == "body":
            message.body.CopyFrom(value_with(text))  # type: ignore[attr-defined]
        elif field.type == FieldDescriptor.TYPE_MESSAGE:
            _fill_message(message, field, text)
        else:
            _fill_plain(message, field, text)
    return message


def _fill_message(message: Message, field: Any, text: str) -> None:
    if field.containing_oneof is not None and field.containing_oneof.name == "data":
        return  # each metric has one kind of points
    if field.is_repeated and field.name == "metrics":
        for kind in ("gauge", "sum", "histogram", "exponential_histogram", "summary"):
            metric = getattr(message, field.name).add()
            fill(metric, text)
            fill(getattr(metric, kind), text)
    elif field.is_repeated:
        fill(getattr(message, field.name).add(), text)
    else:
        fill(getattr(message, field.name), text)


def _fill_plain(message: Message, field: Any, text: str) -> None:
    if field.name in IDS:
        setattr(message, field.name, b"\x07" * IDS[field.name])
    elif field.name.endswith("time_unix_nano"):
        setattr(message, field.name, NOW)
    elif field.type == FieldDescriptor.TYPE_STRING:
        if field.is_repeated:
            getattr(message, field.name).append(f"one {text} of many")
        else:
            setattr(message, field.name, f"the {text} of {field.name}")


def filled(signal: Signal, text: str) -> bytes:
    """A message of a signal with the text everywhere."""
    return fill(CLASSES[signal](), text).SerializeToString()
