"""The program of query workers that answers requests about traces, services and fields, as JSON.

Everything that a request costs happens in a process that the server limits and can end. The server plans each statement
with the tenancy and the limits of the caller, and passes on the pieces of the body.
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from neve.explore.edges import read_edges
from neve.explore.fields import Selection, read_fields, read_histogram, read_values
from neve.explore.nearby_logs import read_nearby
from neve.explore.services import read_services
from neve.explore.source import RecordSource
from neve.explore.trace import read_trace
from neve.explore.trace_records import read_decisions, read_logs, read_span

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from neve.explore.source import Context

__all__ = ["ANSWERS", "BODY", "TABLES", "answer"]

BODY = pa.schema([pa.field("body", pa.binary())])
PIECE_BYTES = 512 * 1024

ANSWERS: dict[str, Callable[[Mapping[str, Any], RecordSource], dict[str, Any]]] = {
    "trace": lambda wanted, source: read_trace(wanted["trace_id"], source),
    "span": lambda wanted, source: read_span(wanted["trace_id"], wanted["span_id"], source),
    "logs": lambda wanted, source: read_logs(wanted["trace_id"], wanted.get("span_id"), wanted["limit"], source),
    "decisions": lambda wanted, source: read_decisions(wanted["trace_id"], source),
    "services": lambda wanted, source: read_services(source, wanted.get("service")),
    "edges": lambda _wanted, source: read_edges(source),
    "fields": lambda wanted, source: read_fields(Selection.of(wanted), source),
    "values": lambda wanted, source: read_values(Selection.of(wanted), wanted["fields"], wanted["limit"], source),
    "histogram": lambda wanted, source: read_histogram(Selection.of(wanted), wanted["by"], wanted["bars"], source),
    "nearby": lambda wanted, source: read_nearby(
        wanted["record_id"],
        datetime.fromisoformat(wanted["time"]),
        wanted.get("service"),
        wanted["limit"],
        source.context,
    ),
}
TABLES: dict[str, tuple[str, ...]] = {
    "trace": ("spans",),
    "span": ("spans",),
    "logs": ("spans", "logs"),
    "decisions": ("trace_decisions", "open_traces"),
    "services": ("spans",),
    "edges": ("spans",),
    "nearby": ("logs",),
}  # of answers about one table; others name their table


def answer(arguments: Mapping[str, Any], context: Context) -> Iterator[pa.RecordBatch]:
    """Answer a request: `answer` names it, `since` and `until` bound it, other keys are its own.

    `has_service_edges` is whether the lake has the service map, which an older one lacks.
    """
    since, until = (datetime.fromisoformat(text) if text else None for text in map(arguments.get, ("since", "until")))
    has_edges = bool(arguments.get("has_service_edges"))
    document = ANSWERS[arguments["answer"]](arguments, RecordSource(context, since, until, has_edges))
    context.check()
    text = json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=str)
    body = text.encode(errors="replace")
    for begin in range(0, len(body), PIECE_BYTES):
        yield pa.record_batch([pa.array([body[begin : begin + PIECE_BYTES]], pa.binary())], schema=BODY)
