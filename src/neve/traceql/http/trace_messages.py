"""A trace by its id, as OTLP: found without a time range, in the bucket of its id."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from google.protobuf import json_format
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

from neve.errors import TraceMissing
from neve.model.signals import Signal
from neve.model.tables import BY_SIGNAL
from neve.otlp import encode
from neve.traceql.storage.sql import Sql

if TYPE_CHECKING:
    from neve.traceql.storage.span_reader import SpanReader, Window

__all__ = ["TraceMessage", "read_trace", "read_traces", "write_trace"]

MAX_SPANS = 100_000
# Columns that are not part of the message.
_OWN = frozenset(
    [
        *("organization_id", "timestamp", "service_name", "duration_ms", "record_id", "ingested_at"),
        *("arrival_order", "dropped_repeats"),
    ]
)
_TRACE, _STATUS, _MESSAGE, _PARTIAL = b"\x0a", b"\x18", b"\x22", b"\x01"  # fields of Tempo's TraceByIDResponse


@dataclass(frozen=True, slots=True)
class TraceMessage:
    """Trace as an OTLP message, and whether spans were left out."""

    message: bytes
    is_partial: bool = False

    @property
    def note(self) -> str:
        """Return the reason why spans were left out."""
        return f"there are more than {MAX_SPANS:,} spans: the first {MAX_SPANS:,} are shown" if self.is_partial else ""


def read_trace(reader: SpanReader, trace_id: str) -> TraceMessage:
    """Return the spans of a trace in order of time. Of a very large one, the first."""
    return read_traces(reader, Sql(f"trace_id = unhex('{trace_id}')"), None)  # digits: the caller has parsed the id


def read_traces(reader: SpanReader, condition: Sql, window: Window | None) -> TraceMessage:
    """Return the spans that fulfil a condition in order of time. Of very many, the first."""
    schema = pa.schema([one for one in BY_SIGNAL[Signal.TRACES].schema if one.name not in _OWN])
    names = ", ".join(schema.names)
    order = f"ORDER BY start_time_unix_nano, span_id LIMIT {MAX_SPANS + 1}"
    text = f"SELECT {names} FROM spans WHERE {condition.text} {order}"  # noqa: S608  # parameters
    rows = reader.table(Sql(text, condition.parameters), window)
    found = rows.slice(0, MAX_SPANS).cast(schema).combine_chunks().to_batches()
    message = encode(Signal.TRACES, found[0]) if found else b""
    return TraceMessage(message, rows.num_rows > MAX_SPANS)


def write_trace(trace: TraceMessage, trace_id: str, *, is_v2: bool, is_protobuf: bool) -> bytes:
    """Return the body of a response. The first version of the API has an error for an unknown trace.

    Raises `TraceMissing` there. The second version answers with an empty trace.
    """
    if not trace.message and not is_v2:
        raise TraceMissing(f"trace {trace_id} is not stored")
    if is_protobuf:
        return _wrap(trace) if is_v2 else trace.message
    return json.dumps(_to_document(trace, is_v2=is_v2), ensure_ascii=False, separators=(",", ":")).encode(
        errors="replace"
    )


def _wrap(trace: TraceMessage) -> bytes:
    """Return Tempo's message around a trace, which an empty one needs too."""
    body = _TRACE + _write_length(len(trace.message)) + trace.message
    if trace.is_partial:
        note = trace.note.encode()
        body += _STATUS + _PARTIAL + _MESSAGE + _write_length(len(note)) + note
    return body


def _write_length(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:  # seven bits a byte
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _to_document(trace: TraceMessage, *, is_v2: bool) -> dict[str, Any]:
    """Return a trace as protobuf's JSON, as Tempo sends it: ids in base64, names of kinds."""
    plain = json_format.MessageToDict(TracesData.FromString(trace.message))
    groups = plain.get("resourceSpans", [])
    if not is_v2:
        return {"batches": groups}
    document: dict[str, Any] = {"trace": {"resourceSpans": groups}, "metrics": {}}
    return document | ({"status": "PARTIAL", "message": trace.note} if trace.is_partial else {})
