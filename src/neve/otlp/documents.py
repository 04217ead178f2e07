"""OTLP JSON documents one by one, with Python's and protobuf's own readers: slow and patient, with words for errors."""

import base64
import json
import re
from typing import Any

import pyarrow as pa
from google.protobuf import json_format
from google.protobuf.message import Message
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from neve.model.signals import Signal
from neve.otlp.batch import Rejected, Transcoded

CLASSES: dict[Signal, type[Message]] = {
    Signal.TRACES: ExportTraceServiceRequest,
    Signal.LOGS: ExportLogsServiceRequest,
    Signal.METRICS: ExportMetricsServiceRequest,
}
IDS = ("trace_id", "span_id", "parent_span_id")
SPACE = re.compile(r"\s*")
MOST_SAID = 500  # characters of an error; some repeat the whole document
KINDS = {dict: "an object", list: "a list", str: "text", bool: "a boolean", int: "a number", float: "a number"}


def documents(text: bytes) -> list[bytes]:
    """The documents of a text, one after the other; its lines where one of them is not JSON."""
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
    """The messages of a JSON text, and the documents that are none."""
    messages, index, rejected = [], [], []
    for position, document in enumerate(documents(text)):
        try:
            message = _read(signal, document)
        except Exception as error:  # readers raise what they like, and whatever it is costs this document only
            words = "it is nested too deep to be read" if isinstance(error, RecursionError) else error
            detail = f"not OTLP JSON for {signal}: {words}"
            said = detail if len(detail) <= MOST_SAID else detail[:MOST_SAID] + "…"
            rejected.append(Rejected("malformed_message", said, position, document, "otlp_json"))
        else:
            messages.append(message)
            index.append(position)
    return Transcoded(pa.array(messages, pa.binary()), tuple(index), tuple(rejected))


def _skip(text: str, at: int) -> int:
    match = SPACE.match(text, at)
    return match.end() if match else at


def _read(signal: Signal, document: bytes) -> bytes:
    return fill(CLASSES[signal](), json.loads(document), "the document")


def fill(message: Message, plain: Any, place: str) -> bytes:
    """What a JSON value says as a message, encoded; raises all sorts of errors when it says something else."""
    json_format.ParseDict(_object(plain, message.DESCRIPTOR, place), message, ignore_unknown_fields=True)
    return message.SerializeToString()


def _object(plain: Any, message: Any, place: str) -> dict[str, Any]:
    """An object as protobuf's reader wants it: ids in base64. That reader takes lists and text for empty objects."""
    if not isinstance(plain, dict):
        raise ValueError(_unexpected(place, plain, "an object"))
    by_json, by_name = message.fields_by_camelcase_name, message.fields_by_name
    return {key: _field(value, by_json.get(key) or by_name.get(key), key) for key, value in plain.items()}


def _field(value: Any, field: Any, place: str) -> Any:
    if field is None or value is None:
        return value
    if not field.is_repeated:
        return _single(value, field, place)
    if not isinstance(value, list):
        raise ValueError(_unexpected(place, value, "a list"))
    return [_single(item, field, f"an element of {place}") for item in value]


def _single(value: Any, field: Any, place: str) -> Any:
    if field.message_type is not None:
        return None if value is None else _object(value, field.message_type, place)
    if field.name not in IDS:
        return value
    if not isinstance(value, str):
        raise ValueError(_unexpected(place, value, "hex digits as text"))
    return _hex_to_base64(value, place)


def _hex_to_base64(text: str, place: str) -> str:
    try:
        return base64.b64encode(base64.b16decode(text, casefold=True)).decode()
    except ValueError:
        raise ValueError(f"{place} is {text[:64]!r}, expected an even number of hex digits") from None


def _unexpected(place: str, value: Any, expected: str) -> str:
    said = json.dumps(value) if isinstance(value, bool | int | float | str) else ""
    kind = KINDS.get(type(value), "null")
    return f"{place} is {kind}{f' ({said[:64]})' if said else ''}, expected {expected}"
