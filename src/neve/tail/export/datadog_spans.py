"""Spans as Datadog's agent takes them (`/v0.4/traces`): traces as lists of spans, in msgpack.

The document has a map of tags for each span, so that it is made span by span. Kept traces are a few percent of all.
"""

from __future__ import annotations

from functools import lru_cache
from http import HTTPStatus
from itertools import islice
from typing import TYPE_CHECKING, Any

import msgpack  # type: ignore[import-untyped]
import numpy as np

from neve.tail.export.datadog_events import event_tags, link_tags
from neve.tail.export.datadog_names import KINDS, Words, operation_of, resource_of, type_of, words_of
from neve.tail.export.pieces import Unsayable, trace_starts
from neve.tail.export.stamp import ADJUSTED_COUNT

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa

Row = dict[str, Any]
Span = dict[str, Any]
Entries = tuple[tuple[str, str], ...]

COLUMNS = (
    *("trace_id", "span_id", "parent_span_id", "service_name", "operation_name", "span_kind", "status_code"),
    *("start_time_unix_nano", "end_time_unix_nano", "status_message", "trace_state", "attributes", "attribute_types"),
    *("events", "links", "resource_attrs", "scope_name", "scope_version", "scope_attrs"),
)
NAMELESS_SERVICE = "otlpresourcenoservicename"  # Datadog's word for a resource without a service's name
USER_KEEP = 2.0  # Datadog's word for a trace that was kept on purpose: its agent does not sample it again
ERROR = 2
STATUSES = ("Unset", "Ok", "Error")
NUMBERS = ("int", "double")
SPOKEN_FOR = ("service.name", "operation.name", "resource.name", "span.type")  # these are fields of the span
HEADER, DATADOG_HEADER = "http.request.header.", "http.request.headers."
RENAMED = {
    "client.address": "http.client_ip",
    "http.response.body.size": "http.response.content_length",
    "http.response.status_code": "http.status_code",
    "http.request.body.size": "http.request.content_length",
    "http.request.header.referrer": "http.referrer",
    "http.request.method": "http.method",
    "network.protocol.version": "http.version",
    "server.address": "http.server_name",
    "url.full": "http.url",
    "user_agent.original": "http.useragent",
}


def datadog_document(batch: pa.RecordBatch) -> tuple[bytes, int]:
    """The document of a batch that is sorted by trace, and how many traces it has; raises `Unsayable`."""
    columns = (batch.column(name).to_pylist() for name in COLUMNS)
    rows = (dict(zip(COLUMNS, values, strict=True)) for values in zip(*columns, strict=True))
    sizes = np.diff(trace_starts(batch), append=batch.num_rows).tolist()
    packer = msgpack.Packer(autoreset=False)
    packer.pack_array_header(len(sizes))
    try:
        for size in sizes:  # packed one by one: the maps of a whole batch would be many times its size
            packer.pack([span_of(row) for row in islice(rows, size)])
    except (ValueError, TypeError, OverflowError) as error:
        raise Unsayable(f"can't be said in Datadog's format: {error}") from error
    return packer.bytes(), len(sizes)


def span_of(row: Row) -> Span:
    """One row of the table `spans` as Datadog has it."""
    attributes, types = row["attributes"] or (), dict(row["attribute_types"] or ())
    shared_words, shared_tags = _surroundings(tuple(row["resource_attrs"] or ()), tuple(row["scope_attrs"] or ()))
    words = {**shared_words, **words_of(attributes)}
    kind = row["span_kind"] if row["span_kind"] in range(len(KINDS)) else 0
    texts = {tag_of(key): text for key, text in attributes if types.get(key) not in NUMBERS and text is not None}
    meta = {**shared_tags, **texts, **_own_tags(row, words, kind)}
    if row["status_code"] == ERROR and "error.msg" not in meta:
        meta |= _error_message(row["status_message"], words)
    meta.pop("", None)
    return {
        "service": words.get("service") or row["service_name"] or NAMELESS_SERVICE,
        "name": operation_of(words, kind),
        "resource": resource_of(words, kind, row["operation_name"] or ""),
        "type": type_of(words, kind),
        "trace_id": _number(row["trace_id"]),
        "span_id": _number(row["span_id"]),
        "parent_id": _number(row["parent_span_id"]),
        "start": row["start_time_unix_nano"] or 0,
        "duration": max(0, (row["end_time_unix_nano"] or 0) - (row["start_time_unix_nano"] or 0)),
        "error": int(row["status_code"] == ERROR),
        "meta": meta,
        "metrics": _metrics(attributes, types, words),
    }


@lru_cache(4096)
def tag_of(key: str) -> str:
    """The tag that an attribute becomes; empty where a field of the span says it.

    >>> tag_of("url.full"), tag_of("http.request.header.accept"), tag_of("a.b"), tag_of("span.type")
    ('http.url', 'http.request.headers.accept', 'a.b', '')
    """
    if key in SPOKEN_FOR:
        return ""
    if key in RENAMED:
        return RENAMED[key]
    return DATADOG_HEADER + key.removeprefix(HEADER) if key.startswith(HEADER) else key


@lru_cache(256)
def _surroundings(resource: Entries, scope: Entries) -> tuple[dict[str, str], dict[str, str]]:
    """What a resource and a scope say, in words and as tags; a batch repeats the same few thousands of times."""
    return words_of(resource), {tag_of(key): text for key, text in (*scope, *resource) if text is not None}


def _own_tags(row: Row, words: Words, kind: int) -> dict[str, str]:
    """What is said beside the attributes, and wins over them."""
    trace_id: bytes = row["trace_id"] or b""
    tags = {
        "span.kind": KINDS[kind],
        "otel.trace_id": trace_id.hex(),
        "_dd.p.tid": trace_id[:-8].hex(),  # the half of the id that `trace_id` has no room for
        "otel.status_code": STATUSES[row["status_code"] if row["status_code"] in range(len(STATUSES)) else 0],
        "otel.status_description": row["status_message"],
        "w3c.tracestate": row["trace_state"],
        "env": words.get("env"),
        "version": words.get("version"),
    }
    for name, value in (("name", row["scope_name"]), ("version", row["scope_version"])):
        if value:
            tags |= {f"otel.scope.{name}": value, f"otel.library.{name}": value}
    if row["events"]:
        tags |= event_tags(row["events"], failed=row["status_code"] == ERROR)
    if row["links"]:
        tags |= link_tags(row["links"])
    return {key: text for key, text in tags.items() if text}


def _metrics(attributes: Iterable[tuple[str, str]], types: dict[str, str], words: Words) -> dict[str, float]:
    """Attributes that are numbers, and by what share the trace was sampled: Datadog scales its statistics by it."""
    found = {tag_of(key): float(text) for key, text in attributes if types.get(key) in NUMBERS}
    found.pop("", None)
    if words.get("status", "").isdecimal():
        found["http.status_code"] = float(words["status"])
    if found.get(ADJUSTED_COUNT, 0.0) >= 1:
        found["_sample_rate"] = 1 / found[ADJUSTED_COUNT]
    return {**found, "_sampling_priority_v1": USER_KEEP}


def _error_message(status: str | None, words: Words) -> dict[str, str]:
    """What went wrong, where no exception says it: the status, or else the code of an HTTP answer in words."""
    code = words.get("status", "")
    try:
        return {"error.msg": status or f"{code} {HTTPStatus(int(code)).phrase}"}
    except ValueError:
        return {"error.msg": code} if code else {}


def _number(identifier: bytes | None) -> int:
    """The last 64 bits of an id; 0 for none."""
    return int.from_bytes((identifier or b"")[-8:], "big")
