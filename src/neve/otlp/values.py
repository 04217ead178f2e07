"""Nested OTLP values as text: plain JSON if that is lossless, else the exact bytes.

Only this module works value by value. Lists and maps inside attributes are few.
"""

import base64
import json
import math
from functools import lru_cache
from typing import Any, TypeVar

from google.protobuf.message import DecodeError, Message
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue, KeyValueList

ARRAY = "array"
MAP = "map"
EXACT = "exact:"

Rendered = tuple[str, str]

CACHED_VALUES = 4096  # the same command line or the same list of hosts is in every message of a process
CACHED_BYTES = 1024  # a larger value is rarely sent twice, and thousands of them would fill the memory

# A map in a map is three messages deeper on the wire, and protobuf's readers stop at a hundred. So many levels leave
# enough for the messages around a value, wherever it is, so that every reader can read accepted values.
MAX_LEVELS = 30
LONGEST_INTEGER = 400  # digits; a double ends at 309

M = TypeVar("M", bound=Message)


class UnreadableValue(ValueError):
    """Raised when a list or map inside a value is malformed, or nested too deep."""


def render_array(wire: bytes) -> Rendered:
    """Convert an encoded `ArrayValue` to text and type; raises `UnreadableValue` if it can't be read."""
    return (_cached_array if len(wire) <= CACHED_BYTES else _render_array)(wire)


def render_map(wire: bytes) -> Rendered:
    """Convert an encoded `KeyValueList` to text and type; raises `UnreadableValue` if it can't be read."""
    return (_cached_map if len(wire) <= CACHED_BYTES else _render_map)(wire)


def _render_array(wire: bytes) -> Rendered:
    return _render(AnyValue(array_value=_read(ArrayValue, wire)), ARRAY)


def _render_map(wire: bytes) -> Rendered:
    return _render(AnyValue(kvlist_value=_read(KeyValueList, wire)), MAP)


_cached_array = lru_cache(CACHED_VALUES)(_render_array)
_cached_map = lru_cache(CACHED_VALUES)(_render_map)


def _read(message: type[M], wire: bytes) -> M:
    try:
        return message.FromString(wire)
    except DecodeError as error:
        reason = str(error).rpartition(": ")[2]
        raise UnreadableValue(
            f"a list or map inside a value is malformed, or nested more than {MAX_LEVELS} levels deep: {reason}"
        ) from None


def parse_nested(text: str, kind: str) -> AnyValue:
    """Convert the text and type of `render_array` or `render_map` back to the value."""
    if kind.startswith(EXACT):
        return AnyValue.FromString(base64.b64decode(kind.removeprefix(EXACT)))
    return to_value(json.loads(text, parse_int=_integer))


def _render(value: AnyValue, kind: str) -> Rendered:
    text = json.dumps(to_plain(value), ensure_ascii=False, separators=(",", ":"), default=_base64)
    if is_exact_in_json(value):
        return text, kind
    return text, EXACT + base64.b64encode(value.SerializeToString(deterministic=True)).decode()


def is_exact_in_json(value: AnyValue) -> bool:
    """Return whether plain JSON preserves the value: no bytes, no infinities, no duplicate key, no missing value."""
    match value.WhichOneof("value"):
        case "array_value":
            return all(map(is_exact_in_json, value.array_value.values))
        case "kvlist_value":
            entries = value.kvlist_value.values
            distinct = len({entry.key for entry in entries}) == len(entries)
            return distinct and all(entry.HasField("value") and is_exact_in_json(entry.value) for entry in entries)
        case "double_value":
            return math.isfinite(value.double_value)
        case "string_value" | "int_value" | "bool_value" | None:
            return True
    return False


def _base64(value: Any) -> str:
    return base64.b64encode(value).decode()


def to_plain(value: AnyValue, levels: int = MAX_LEVELS) -> Any:
    """Convert a value to the types of `json`; bytes stay bytes.

    Raises `UnreadableValue` below so many levels.

    >>> to_plain(AnyValue(array_value=ArrayValue(values=[AnyValue(int_value=1), AnyValue()])))
    [1, None]
    """
    match value.WhichOneof("value"):
        case None:
            return None
        case "array_value" | "kvlist_value" if levels == 0:
            raise UnreadableValue(f"a value is nested more than {MAX_LEVELS} levels deep")
        case "array_value":
            return [to_plain(item, levels - 1) for item in value.array_value.values]
        case "kvlist_value":
            return {entry.key: to_plain(entry.value, levels - 1) for entry in value.kvlist_value.values}
        case name:
            return getattr(value, name)


def to_value(plain: Any) -> AnyValue:  # noqa: PLR0911 - one way out for each type
    """Convert a JSON value to an OTLP value.

    >>> to_value({"a": 1}).kvlist_value.values[0].value.int_value
    1
    """
    match plain:
        case None:
            return AnyValue()
        case bool():
            return AnyValue(bool_value=plain)
        case int() if -(2**63) <= plain < 2**63:
            return AnyValue(int_value=plain)
        case int() | float():
            return AnyValue(double_value=_double(plain))  # OTLP has no larger integer
        case str():
            return AnyValue(string_value=plain)
        case list():
            return AnyValue(array_value=ArrayValue(values=[to_value(item) for item in plain]))
        case dict():
            entries = [KeyValue(key=key, value=to_value(item)) for key, item in plain.items()]
            return AnyValue(kvlist_value=KeyValueList(values=entries))
    raise TypeError(f"JSON can't represent {plain!r}")


def _integer(digits: str) -> int | float:
    """Parse an integer of JSON. An integer that is too long for Python's parser would not be exact in OTLP anyway."""
    return int(digits) if len(digits) <= LONGEST_INTEGER else float(digits)


def _double(number: int | float) -> float:
    """Return the nearest double, or an infinity if there is none.

    >>> _double(10**400), _double(-(10**400))
    (inf, -inf)
    """
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf
