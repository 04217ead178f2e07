"""Datadog destination: send traces as msgpack to the agent's `/v0.4/traces`, which the collector also receives.

Operation, resource and type of a span follow the rules of Datadog's own OTLP intake. Events and links become tags.
The document has a map of tags for each span, so that it is built span by span. Kept traces are a few percent of all.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from http import HTTPStatus
from itertools import islice
from typing import TYPE_CHECKING, Any

import msgpack  # type: ignore[import-untyped]
import numpy as np

from neve import __version__
from neve.tail.export.destination import SendResult, SpanEncodingError, find_trace_starts
from neve.tail.export.http_destination import HttpDestination, interpret_reply
from neve.tail.policy.evaluate.thresholds import ADJUSTED_COUNT

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    from neve.http_client import HttpReply


INTERNAL, SERVER, CLIENT, PRODUCER, CONSUMER = range(1, 6)
SPAN_KINDS = ("unspecified", "internal", "server", "client", "producer", "consumer")

# Concepts that the rules use, and the attributes for them. Older and newer conventions have different names.
CONCEPT_ATTRIBUTES = {
    "operation": ("operation.name",),
    "resource": ("resource.name",),
    "type": ("span.type",),
    "service": ("service.name",),
    "method": ("http.request.method", "http.method"),
    "route": ("http.route",),
    "status": ("http.response.status_code", "http.status_code"),
    "database": ("db.system.name", "db.system"),
    "statement": ("db.query.text", "db.statement"),
    "messaging": ("messaging.system",),
    "messaging_operation": ("messaging.operation.type", "messaging.operation"),
    "topic": ("messaging.destination.name", "messaging.destination"),
    "rpc": ("rpc.system",),
    "rpc_method": ("rpc.method",),
    "rpc_service": ("rpc.service",),
    "provider": ("faas.invoked_provider",),
    "function": ("faas.invoked_name",),
    "trigger": ("faas.trigger",),
    "graphql": ("graphql.operation.type",),
    "graphql_name": ("graphql.operation.name",),
    "protocol": ("network.protocol.name",),
    "env": ("deployment.environment.name", "deployment.environment", "env"),
    "version": ("service.version", "version"),
}
CONCEPT_OF = {key: concept for concept, keys in CONCEPT_ATTRIBUTES.items() for key in keys}

DATABASE_TYPES = ("cassandra", "redis", "memcached", "mongodb", "elasticsearch", "opensearch")
SQL_SYSTEMS = (
    *("other_sql", "postgresql", "mysql", "mariadb", "sqlite", "oracle", "oracle.db", "mssql", "microsoft.sql_server"),
    *("db2", "ibm.db2", "redshift", "aws.redshift", "cockroachdb", "clickhouse", "teradata", "vertica", "hanadb"),
    *("sap.hana", "maxdb", "sap.maxdb", "informix", "ibm.informix", "netezza", "ibm.netezza", "sybase", "derby"),
    *("h2", "h2database", "hsqldb", "firebird", "firebirdsql", "ingres", "actian.ingres", "interbase", "edb", "cache"),
    *("intersystems_cache", "adabas", "softwareag.adabas", "cloudscape", "firstsql", "coldfusion", "filemaker"),
    *("instantdb", "pervasive", "pointbase", "progress"),
)
INVALID_TAG_CHARS = re.compile(r"[^a-z0-9_\-:./]+")

Concepts = Mapping[str, str]


def extract_concepts(attributes: Iterable[tuple[str, str | None]]) -> dict[str, str]:
    """Extract the concepts that the rules use from attributes, without empty values.

    >>> extract_concepts([("http.method", "GET"), ("colour", "red"), ("rpc.method", "")])
    {'method': 'GET'}
    """
    return {CONCEPT_OF[key]: text for key, text in attributes if text and key in CONCEPT_OF}


def name_operation(concepts: Concepts, kind: int) -> str:
    """Return the operation of a span, by which spans can be compared."""
    if "operation" in concepts:
        return _normalize_tag(concepts["operation"])
    if kind in (SERVER, CLIENT) and "method" in concepts:
        return f"http.{SPAN_KINDS[kind]}.request"
    if kind == CLIENT and "database" in concepts:
        return f"{_normalize_tag(concepts['database'])}.query"
    if kind > INTERNAL and "messaging" in concepts and "messaging_operation" in concepts:
        return f"{_normalize_tag(concepts['messaging'])}.{_normalize_tag(concepts['messaging_operation'])}"
    return _name_remote_operation(concepts, kind) or _name_plain_operation(concepts, kind)


def _name_remote_operation(concepts: Concepts, kind: int) -> str:
    """Return the operation of a call (RPC, function, GraphQL), or empty for other spans."""
    system = _normalize_tag(concepts.get("rpc", ""))
    if system == "aws-api" and kind == CLIENT:
        return f"aws.{_normalize_tag(concepts.get('rpc_service', 'client'))}.request"
    if system and kind in (SERVER, CLIENT):
        return f"{system}.{SPAN_KINDS[kind]}.request"
    if kind == CLIENT and "provider" in concepts and "function" in concepts:
        return f"{_normalize_tag(concepts['provider'])}.{_normalize_tag(concepts['function'])}.invoke"
    if kind == SERVER and "trigger" in concepts:
        return f"{_normalize_tag(concepts['trigger'])}.invoke"
    return "graphql.server.request" if "graphql" in concepts else ""


def _name_plain_operation(concepts: Concepts, kind: int) -> str:
    if kind in (SERVER, CLIENT):
        return (
            f"{_normalize_tag(concepts['protocol'])}.{SPAN_KINDS[kind]}.request"
            if "protocol" in concepts
            else f"{SPAN_KINDS[kind]}.request"
        )
    return SPAN_KINDS[kind].capitalize() if kind in (PRODUCER, CONSUMER) else "Internal"


def name_resource(concepts: Concepts, kind: int, name: str) -> str:
    """Return the resource of a span: a route, a queue or a statement, otherwise the span's name."""
    if "resource" in concepts:
        return concepts["resource"]
    if "method" in concepts:
        verb = "HTTP" if concepts["method"] == "_OTHER" else concepts["method"]
        return f"{verb} {concepts['route']}" if kind == SERVER and "route" in concepts else verb
    for first, second in (("messaging_operation", "topic"), ("rpc_method", "rpc_service"), ("graphql", "graphql_name")):
        if first in concepts:
            return f"{concepts[first]} {concepts[second]}" if second in concepts else concepts[first]
    return concepts.get("statement", name) if "database" in concepts else name


def find_span_type(concepts: Concepts, kind: int) -> str:
    """Return the type of service: web, http, a type of database, or custom."""
    if "type" in concepts:
        return concepts["type"]
    if kind != CLIENT:
        return "web" if kind == SERVER else "custom"
    if "database" not in concepts:
        return "http"
    system = _normalize_tag(concepts["database"])
    if system in DATABASE_TYPES:
        return system
    return "sql" if system in SQL_SYSTEMS else "db"


def _normalize_tag(text: str) -> str:
    """Normalize a text to a Datadog tag: lower case, with an underscore for each character that is not allowed."""
    return INVALID_TAG_CHARS.sub("_", text.lower())


Item = dict[str, Any]

EXCEPTION_TAGS = {
    "exception.message": "error.msg",
    "exception.type": "error.type",
    "exception.stacktrace": "error.stack",
}
NUMBER_PARSERS = {"int": int, "double": float}


def build_event_tags(events: list[Item], *, failed: bool) -> dict[str, str]:
    """Build tags for all events, and for the last exception of a failed span."""
    tags = {"events": _to_json(list(map(_build_event, events)))}
    exceptions = [event for event in events if (event["name"] or "").lower() == "exception"]
    if exceptions:
        tags["_dd.span_events.has_exception"] = "true"
    for event in exceptions if failed else ():
        values = dict(event["attributes"] or ())
        tags |= {tag: values[key] for key, tag in EXCEPTION_TAGS.items() if key in values}
    return tags


def build_link_tags(links: list[Item]) -> dict[str, str]:
    """Build tags for all links."""
    return {"_dd.span_links": _to_json(list(map(_build_link, links)))}


def _build_event(event: Item) -> Item:
    attributes, types = dict(event["attributes"] or ()), dict(event["attribute_types"] or ())
    return _drop_empty(
        time_unix_nano=event["time_unix_nano"],
        name=event["name"],
        attributes={key: _parse_value(text, types.get(key)) for key, text in attributes.items()},
        dropped_attributes_count=event["dropped_attributes_count"],
    )


def _build_link(link: Item) -> Item:
    return _drop_empty(
        trace_id=(link["trace_id"] or b"").hex(),
        span_id=(link["span_id"] or b"").hex(),
        tracestate=link["trace_state"],
        attributes=dict(link["attributes"] or ()),
        dropped_attributes_count=link["dropped_attributes_count"],
    )


def _parse_value(text: str, kind: str | None) -> object:
    """Parse a value as JSON, where a number that JSON can't represent stays text."""
    if kind == "bool":
        return text == "true"
    if kind in NUMBER_PARSERS and text.lower().lstrip("+-") not in ("inf", "nan"):
        return NUMBER_PARSERS[kind](text)
    return text


def _drop_empty(**fields: object) -> Item:
    return {name: value for name, value in fields.items() if value}


def _to_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


Row = dict[str, Any]
Span = dict[str, Any]
Entries = tuple[tuple[str, str], ...]

COLUMNS = (
    *("trace_id", "span_id", "parent_span_id", "service_name", "operation_name", "span_kind", "status_code"),
    *("start_time_unix_nano", "end_time_unix_nano", "status_message", "trace_state", "attributes", "attribute_types"),
    *("events", "links", "resource_attrs", "scope_name", "scope_version", "scope_attrs"),
)
NAMELESS_SERVICE = "otlpresourcenoservicename"  # Datadog's value for a resource without a service name
USER_KEEP = 2.0  # Datadog's priority for a trace that was kept on purpose: its agent does not sample it again
ERROR_STATUS = 2
STATUSES = ("Unset", "Ok", "Error")
NUMBER_TYPES = ("int", "double")
FIELD_ATTRIBUTES = ("service.name", "operation.name", "resource.name", "span.type")  # these are fields of the span
HEADER_PREFIX, DATADOG_HEADER_PREFIX = "http.request.header.", "http.request.headers."
RENAMED_ATTRIBUTES = {
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


def encode_document(batch: pa.RecordBatch) -> tuple[bytes, int]:
    """Encode a batch that is sorted by trace, and return the document and its number of traces.

    Raises `SpanEncodingError`.
    """
    columns = (batch.column(name).to_pylist() for name in COLUMNS)
    rows = (dict(zip(COLUMNS, values, strict=True)) for values in zip(*columns, strict=True))
    sizes = np.diff(find_trace_starts(batch), append=batch.num_rows).tolist()
    packer = msgpack.Packer(autoreset=False)
    packer.pack_array_header(len(sizes))
    try:
        for size in sizes:  # encoded one by one: the maps of a whole batch would be many times its size
            packer.pack([build_span(row) for row in islice(rows, size)])
    except (ValueError, TypeError, OverflowError) as error:
        raise SpanEncodingError(f"can't be encoded in Datadog's format: {error}") from error
    return packer.bytes(), len(sizes)


def build_span(row: Row) -> Span:
    """Convert one row of the table `spans` to a Datadog span."""
    attributes, types = row["attributes"] or (), dict(row["attribute_types"] or ())
    shared_concepts, shared_tags = _map_resource(tuple(row["resource_attrs"] or ()), tuple(row["scope_attrs"] or ()))
    concepts = {**shared_concepts, **extract_concepts(attributes)}
    kind = row["span_kind"] if row["span_kind"] in range(len(SPAN_KINDS)) else 0
    texts = {map_tag(key): text for key, text in attributes if types.get(key) not in NUMBER_TYPES and text is not None}
    meta = {**shared_tags, **texts, **_build_own_tags(row, concepts, kind)}
    if row["status_code"] == ERROR_STATUS and "error.msg" not in meta:
        meta |= _build_error_message(row["status_message"], concepts)
    meta.pop("", None)
    return {
        "service": concepts.get("service") or row["service_name"] or NAMELESS_SERVICE,
        "name": name_operation(concepts, kind),
        "resource": name_resource(concepts, kind, row["operation_name"] or ""),
        "type": find_span_type(concepts, kind),
        "trace_id": _id_to_number(row["trace_id"]),
        "span_id": _id_to_number(row["span_id"]),
        "parent_id": _id_to_number(row["parent_span_id"]),
        "start": row["start_time_unix_nano"] or 0,
        "duration": max(0, (row["end_time_unix_nano"] or 0) - (row["start_time_unix_nano"] or 0)),
        "error": int(row["status_code"] == ERROR_STATUS),
        "meta": meta,
        "metrics": _build_metrics(attributes, types, concepts),
    }


@lru_cache(4096)
def map_tag(key: str) -> str:
    """Return the tag for an attribute, or empty if a field of the span contains it.

    >>> map_tag("url.full"), map_tag("http.request.header.accept"), map_tag("a.b"), map_tag("span.type")
    ('http.url', 'http.request.headers.accept', 'a.b', '')
    """
    if key in FIELD_ATTRIBUTES:
        return ""
    if key in RENAMED_ATTRIBUTES:
        return RENAMED_ATTRIBUTES[key]
    return DATADOG_HEADER_PREFIX + key.removeprefix(HEADER_PREFIX) if key.startswith(HEADER_PREFIX) else key


@lru_cache(256)
def _map_resource(resource: Entries, scope: Entries) -> tuple[dict[str, str], dict[str, str]]:
    """Map a resource and a scope to fields and tags, cached, as a batch repeats the same few thousands of times."""
    return extract_concepts(resource), {map_tag(key): text for key, text in (*scope, *resource) if text is not None}


def _build_own_tags(row: Row, concepts: Concepts, kind: int) -> dict[str, str]:
    """Build the tags that are not attributes, which take precedence over attributes."""
    trace_id: bytes = row["trace_id"] or b""
    tags = {
        "span.kind": SPAN_KINDS[kind],
        "otel.trace_id": trace_id.hex(),
        "_dd.p.tid": trace_id[:-8].hex(),  # upper half of the id, which does not fit in `trace_id`
        "otel.status_code": STATUSES[row["status_code"] if row["status_code"] in range(len(STATUSES)) else 0],
        "otel.status_description": row["status_message"],
        "w3c.tracestate": row["trace_state"],
        "env": concepts.get("env"),
        "version": concepts.get("version"),
    }
    for name, value in (("name", row["scope_name"]), ("version", row["scope_version"])):
        if value:
            tags |= {f"otel.scope.{name}": value, f"otel.library.{name}": value}
    if row["events"]:
        tags |= build_event_tags(row["events"], failed=row["status_code"] == ERROR_STATUS)
    if row["links"]:
        tags |= build_link_tags(row["links"])
    return {key: text for key, text in tags.items() if text}


def _build_metrics(
    attributes: Iterable[tuple[str, str]], types: dict[str, str], concepts: Concepts
) -> dict[str, float]:
    """Build metrics from numeric attributes and the sampling rate, by which Datadog scales its statistics."""
    found = {map_tag(key): float(text) for key, text in attributes if types.get(key) in NUMBER_TYPES}
    found.pop("", None)
    if concepts.get("status", "").isdecimal():
        found["http.status_code"] = float(concepts["status"])
    if found.get(ADJUSTED_COUNT, 0.0) >= 1:
        found["_sample_rate"] = 1 / found[ADJUSTED_COUNT]
    return {**found, "_sampling_priority_v1": USER_KEEP}


def _build_error_message(status: str | None, concepts: Concepts) -> dict[str, str]:
    """Return an error message if no exception has one: the status, otherwise the text of the HTTP status code."""
    code = concepts.get("status", "")
    try:
        return {"error.msg": status or f"{code} {HTTPStatus(int(code)).phrase}"}
    except ValueError:
        return {"error.msg": code} if code else {}


def _id_to_number(identifier: bytes | None) -> int:
    """Return the last 64 bits of an id, or 0 for no id."""
    return int.from_bytes((identifier or b"")[-8:], "big")


REQUEST_HEADERS = {"content-type": "application/msgpack", "datadog-meta-tracer-version": f"neve-{__version__}"}


class DatadogDestination(HttpDestination):
    """Destination that sends traces to a Datadog agent."""

    path = "/v0.4/traces"

    def request(self, piece: pa.RecordBatch) -> tuple[bytes, Callable[[bytes], SendResult]]:
        """Encode traces into a request."""
        document, traces = encode_document(piece)
        headers = {**REQUEST_HEADERS, **self.packing.headers, "x-datadog-trace-count": str(traces)}

        def attempt(body: bytes) -> SendResult:
            return interpret_reply(self.name, self.send(body, headers, "PUT"), piece.num_rows, _accept_reply)

        return self.packing.pack(document), attempt


def _accept_reply(_reply: HttpReply, _spans: int) -> SendResult:
    """Accept a reply, as an agent accepts a document as a whole and replies with rates for head samplers."""
    return SendResult()
