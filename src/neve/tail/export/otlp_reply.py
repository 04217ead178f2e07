"""What a server says that took an OTLP message: all of it, or all but some spans."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import structlog
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from neve.tail.export.http_reply import MOST_SAID
from neve.tail.export.pieces import Sent

if TYPE_CHECKING:
    from neve.tail.export.http_client import HttpReply

log = structlog.get_logger(__name__)


def read_http(reply: HttpReply, _spans: int) -> Sent:
    """The partial success of an answer; one that can't be read came with a status that says "taken" all the same."""
    kind = reply.headers.get("content-type", "").partition(";")[0].strip().lower()
    try:
        if kind == "application/json":
            return _partial(*_json(reply.body))
        return read(ExportTraceServiceResponse.FromString(reply.body))
    except (DecodeError, ValueError, AttributeError):
        log.warning("answer of a destination could not be read", content_type=kind, size=len(reply.body))
        return Sent()


def read(response: ExportTraceServiceResponse) -> Sent:
    """The partial success of a response."""
    return _partial(response.partial_success.rejected_spans, response.partial_success.error_message)


def _json(body: bytes) -> tuple[int, str]:
    partial = (json.loads(body or b"{}").get("partialSuccess")) or {}
    return int(partial.get("rejectedSpans") or 0), str(partial.get("errorMessage") or "")


def _partial(rejected: int, message: str) -> Sent:
    """A message without refused spans is a warning, which the standard has for servers that took all."""
    return Sent(rejected, message[:MOST_SAID] or ("no reason was given" if rejected else ""))
