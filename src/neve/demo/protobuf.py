"""Attributes in OTLP protobuf. The same few thousand pairs come again and again, so each is built once."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, InstrumentationScope, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

if TYPE_CHECKING:
    from neve.demo.attributes import Attributes, Value


def any_value(value: Value) -> AnyValue:
    """Return a value as OTLP's variant; bool comes before int, of which it is a kind."""
    match value:
        case str():
            return AnyValue(string_value=value)
        case bool():
            return AnyValue(bool_value=value)
        case int():
            return AnyValue(int_value=value)
        case float():
            return AnyValue(double_value=value)
        case _:
            return AnyValue(array_value=ArrayValue(values=[AnyValue(string_value=item) for item in value]))


@lru_cache(maxsize=16_384, typed=True)
def key_value(key: str, value: Value) -> KeyValue:
    """Return a pair; `typed` keeps 1, 1.0 and True apart."""
    return KeyValue(key=key, value=any_value(value))


def key_values(attributes: Attributes) -> list[KeyValue]:
    """Return all pairs, in the order of the attributes."""
    return [key_value(key, value) for key, value in attributes.items()]


def resource(attributes: Attributes) -> Resource:
    """Return who sends."""
    return Resource(attributes=key_values(attributes))


def scope(name: str, version: str) -> InstrumentationScope:
    """Return which library measures."""
    return InstrumentationScope(name=name, version=version)
