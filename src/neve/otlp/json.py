"""OTLP JSON to OTLP protobuf, and back, as the standard maps them: hex ids, enums as numbers, 64-bit integers as text.

`json_columns.py` reads whole files at a time. Text that this fast path rejects (an enum by its name, say) is read again
here, document by document, with Python's and protobuf's own JSON readers. These are slower, accept more and explain
errors. A document is accepted if protobuf's reader accepts it, with the differences of OTLP: ids are hex, unknown
fields are ignored, and an unknown name of an enum rejects its record.

The size of a text is measured before any parser runs, because parsers recurse and make hundreds of bytes of an
object that has two. Brackets are counted by their depth. In OTLP JSON the depth of a brace determines its meaning:
a message holds a list of resources, each a list of scopes, each a list of records, and every list and object is one
level.
"""

from __future__ import annotations

import base64
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from google.protobuf import json_format
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from neve.model.signals import Signal
from neve.otlp.bounds import Entry, TooMany
from neve.otlp.decode_result import Rejected, Transcoded
from neve.otlp.json_columns import IDS, transcode_all
from neve.otlp.json_enums import UNKNOWN_ENUM, UnknownEnum, split_unknown_enums
from neve.otlp.validation import BYTES_OMITTED, MAX_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt
    from google.protobuf.message import Message

    from neve.otlp.bounds import Bounds


QUOTE, BRACE = ord('"'), ord("{")
CHUNK = 1024 * 1024  # bytes scanned together; one depth and one bit are carried over
STEPS = np.zeros(256, dtype=np.int8)
STEPS[list(b"[{")] = 1
STEPS[list(b"]}")] = -1
RESOURCES, SCOPES = 3, 5  # the depths at which they begin
DEEPEST = 16  # depths that are counted separately
VALUES_EACH = 2  # commas for each object; a normal attribute is two objects with three commas


@dataclass(frozen=True)
class JsonShape:
    """Nesting depth of a text, the objects that begin at each depth, and an upper bound of the number of its values."""

    depth: int
    objects: tuple[int, ...]
    values: int


def measure_json(text: bytes) -> JsonShape:
    r"""Count the brackets of a text outside of strings.

    >>> shape = measure_json(b'{"a": [1, {}, "[[[", "\\"["]}')
    >>> shape.depth, shape.objects[:5]
    (3, (0, 1, 0, 1, 0))
    """
    plain = np.frombuffer(text.replace(b"\\\\", b"").replace(b'\\"', b""), dtype=np.uint8)
    objects = np.zeros(DEEPEST + 1, dtype=np.int64)
    deepest, now, inside = 0, 0, False
    for start in range(0, len(plain), CHUNK):
        chunk = plain[start : start + CHUNK]
        quoted = np.logical_xor.accumulate(chunk == QUOTE) ^ inside
        inside = bool(quoted[-1])
        steps = STEPS[chunk]
        chosen = np.flatnonzero((steps != 0) & ~quoted)
        if len(chosen):
            depths = np.cumsum(steps[chosen], dtype=np.int64) + now
            deepest, now = max(deepest, int(depths.max())), int(depths[-1])
            objects += _histogram(depths[chunk[chosen] == BRACE])
    return JsonShape(deepest, tuple(objects.tolist()), text.count(b",") + int(objects.sum()) + 1)


def check_json_bounds(shape: JsonShape, bounds: Bounds) -> None:
    """Raise `TooMany` for a text that exceeds its bounds.

    The counts are never below those of the message that a reader would make. Records are counted after the conversion
    to a message: here all objects together are bounded.
    """
    if shape.objects[RESOURCES] + shape.objects[SCOPES] > bounds.groups:
        raise TooMany(Entry.GROUP, bounds.groups)
    if sum(shape.objects) > bounds.records + bounds.attributes:
        raise TooMany(Entry.PART, bounds.attributes)
    if shape.values > VALUES_EACH * (bounds.records + bounds.attributes):
        raise TooMany(Entry.PART, bounds.attributes)


def _histogram(depths: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    return np.bincount(np.clip(depths, 0, DEEPEST), minlength=DEEPEST + 1).astype(np.int64)


CLASSES: dict[Signal, type[Message]] = {
    Signal.TRACES: ExportTraceServiceRequest,
    Signal.LOGS: ExportLogsServiceRequest,
    Signal.METRICS: ExportMetricsServiceRequest,
}
ID_BYTES = (16, 8)  # of a trace and of a span
SPACE = re.compile(r"\s*")
MAX_DETAIL_CHARACTERS = 500  # characters of an error; some repeat the whole document
KINDS = {dict: "an object", list: "a list", str: "text", bool: "a boolean", int: "a number", float: "a number"}


def documents(text: bytes) -> list[bytes]:
    """Split a text into its consecutive documents, or into its lines if one of them is not JSON."""
    decoder = json.JSONDecoder()
    found = []
    try:
        decoded = text.decode()
        at = _skip(decoded, 0)
        while at < len(decoded):
            _value, end = decoder.raw_decode(decoded, at)
            found.append(decoded[at:end].encode())
            at = _skip(decoded, end)
    except (ValueError, RecursionError):
        return [line for line in text.splitlines() if line.strip()]
    return found


def transcode_each(signal: Signal, text: bytes) -> Transcoded:
    """Convert each document of a JSON text, and return the messages and the documents that are none."""
    messages, index, rejected = [], [], []
    for position, document in enumerate(documents(text)):
        try:
            plain = json.loads(document, object_pairs_hook=_distinct_keys)
            refused = split_unknown_enums(signal, plain, CLASSES[signal].DESCRIPTOR)
            message = fill(CLASSES[signal](), plain, "the document")
        except Exception as error:  # readers raise errors of any type, and an error affects this document only
            reason = "it is nested too deep to be read" if isinstance(error, RecursionError) else error
            detail = _shorten(f"not OTLP JSON for {signal}: {reason}")
            rejected.append(Rejected("malformed_message", detail, position, document, "otlp_json"))
        else:
            messages.append(message)
            index.append(position)
            rejected += _reject_unknown_enums(refused, position)
    return Transcoded(pa.array(messages, pa.binary()), tuple(index), tuple(rejected))


def _reject_unknown_enums(refused: list[UnknownEnum], position: int) -> Iterator[Rejected]:
    """Reject records of a document. Each contains its resource, so bytes beyond a limit are omitted."""
    size = 0
    for each in refused:
        payload = json.dumps(each.document).encode() if size <= MAX_BYTES else b""
        size += len(payload)
        detail = _shorten(each.detail) if payload else f"{_shorten(each.detail)}; {BYTES_OMITTED}"
        yield Rejected(UNKNOWN_ENUM, detail, position, payload, "otlp_json", each.records)


def _skip(text: str, at: int) -> int:
    match = SPACE.match(text, at)
    return match.end() if match else at


def _shorten(text: str) -> str:
    return text if len(text) <= MAX_DETAIL_CHARACTERS else text[:MAX_DETAIL_CHARACTERS] + "…"


def _distinct_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build an object. Raises `ValueError` for a repeated key, because readers disagree on its meaning."""
    found = dict(pairs)
    if len(found) < len(pairs):
        repeated = next(key for place, (key, _value) in enumerate(pairs) if key in dict(pairs[:place]))
        raise ValueError(f"an object has the key {repeated[:64]!r} twice")
    return found


def fill(message: Message, plain: Any, place: str) -> bytes:
    """Convert a JSON value to an encoded message; raises errors of many types if it does not fit."""
    json_format.ParseDict(_object(plain, message.DESCRIPTOR, place), message, ignore_unknown_fields=True)
    return message.SerializeToString()


def _fill_text(message: Message, text: str, place: str) -> bytes:
    return fill(message, json.loads(text, object_pairs_hook=_distinct_keys), place)


def _object(plain: Any, message: Any, place: str) -> dict[str, Any]:
    """Convert an object for protobuf's reader: ids in base64. That reader accepts lists and text as empty objects."""
    if not isinstance(plain, dict):
        raise ValueError(_describe_unexpected(place, plain, "an object"))
    by_json, by_name = message.fields_by_camelcase_name, message.fields_by_name
    return {key: _field(value, by_json.get(key) or by_name.get(key), key) for key, value in plain.items()}


def _field(value: Any, field: Any, place: str) -> Any:
    if field is None or value is None:
        return value
    if not field.is_repeated:
        return _single(value, field, place)
    if not isinstance(value, list):
        raise ValueError(_describe_unexpected(place, value, "a list"))
    return [_single(item, field, f"an element of {place}") for item in value]


def _single(value: Any, field: Any, place: str) -> Any:
    if field.message_type is not None:
        return None if value is None else _object(value, field.message_type, place)
    if field.name not in IDS:
        return value
    if not isinstance(value, str):
        raise ValueError(_describe_unexpected(place, value, "hex digits as text"))
    return _hex_to_base64(value, place)


def _hex_to_base64(text: str, place: str) -> str:
    try:
        return base64.b64encode(base64.b16decode(text, casefold=True)).decode()
    except ValueError:
        raise ValueError(f"{place} is {text[:64]!r}, {_explain_id(text)}") from None


def _explain_id(text: str) -> str:
    """Return what an id should be. Protobuf's own JSON has ids in base64, which OTLP JSON does not allow."""
    try:
        decoded = base64.b64decode(text, validate=True)
    except ValueError:
        decoded = b""
    if len(decoded) in ID_BYTES and text.endswith("="):
        return f"which is base64, expected hex digits: {decoded.hex()!r}; encode ids as hex, or send OTLP protobuf"
    return "expected an even number of hex digits"


def _describe_unexpected(place: str, value: Any, expected: str) -> str:
    text = json.dumps(value) if isinstance(value, bool | int | float | str) else ""
    kind = KINDS.get(type(value), "null")
    return f"{place} is {kind}{f' ({text[:64]})' if text else ''}, expected {expected}"


__all__ = ["CLASSES", "Transcoded", "documents", "to_json", "to_protobuf"]

JSON_IDS = ("traceId", "spanId", "parentSpanId")


def to_protobuf(signal: Signal, text: bytes) -> Transcoded:
    """Convert a JSON text to messages: one document, or one a line. It raises no error, whatever the text is."""
    messages = transcode_all(signal, text, _fill_text)
    if messages is None:
        return transcode_each(signal, text)
    return Transcoded(messages, tuple(range(len(messages))))


def to_json(signal: Signal, message: bytes) -> str:
    """Convert a protobuf message to one line of OTLP JSON."""
    plain = json_format.MessageToDict(CLASSES[signal].FromString(message), use_integers_for_enums=True)
    return json.dumps(_ids_as_hex(plain), ensure_ascii=False, separators=(",", ":"))


def _ids_as_hex(plain: Any) -> Any:
    if isinstance(plain, dict):
        return {
            key: base64.b64decode(item).hex() if key in JSON_IDS else _ids_as_hex(item) for key, item in plain.items()
        }
    if isinstance(plain, list):
        return [_ids_as_hex(item) for item in plain]
    return plain
