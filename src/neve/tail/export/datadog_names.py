"""What Datadog calls a span: its operation, its resource and its type, by the rules of Datadog's own OTLP intake."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

INTERNAL, SERVER, CLIENT, PRODUCER, CONSUMER = range(1, 6)
KINDS = ("unspecified", "internal", "server", "client", "producer", "consumer")

# What the rules ask for, and the attributes that say it: older and newer conventions have different names.
CONCEPTS = {
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
CONCEPT_OF = {key: concept for concept, keys in CONCEPTS.items() for key in keys}

OWN_TYPES = ("cassandra", "redis", "memcached", "mongodb", "elasticsearch", "opensearch")
SQL_SYSTEMS = (
    *("other_sql", "postgresql", "mysql", "mariadb", "sqlite", "oracle", "oracle.db", "mssql", "microsoft.sql_server"),
    *("db2", "ibm.db2", "redshift", "aws.redshift", "cockroachdb", "clickhouse", "teradata", "vertica", "hanadb"),
    *("sap.hana", "maxdb", "sap.maxdb", "informix", "ibm.informix", "netezza", "ibm.netezza", "sybase", "derby"),
    *("h2", "h2database", "hsqldb", "firebird", "firebirdsql", "ingres", "actian.ingres", "interbase", "edb", "cache"),
    *("intersystems_cache", "adabas", "softwareag.adabas", "cloudscape", "firstsql", "coldfusion", "filemaker"),
    *("instantdb", "pervasive", "pointbase", "progress"),
)
UNFIT = re.compile(r"[^a-z0-9_\-:./]+")

Words = Mapping[str, str]


def words_of(attributes: Iterable[tuple[str, str | None]]) -> dict[str, str]:
    """What attributes say of the concepts that the rules ask for; what says nothing is left out.

    >>> words_of([("http.method", "GET"), ("colour", "red"), ("rpc.method", "")])
    {'method': 'GET'}
    """
    return {CONCEPT_OF[key]: text for key, text in attributes if text and key in CONCEPT_OF}


def operation_of(words: Words, kind: int) -> str:
    """The kind of work that a span is: all spans of one operation can be compared."""
    if "operation" in words:
        return _tag(words["operation"])
    if kind in (SERVER, CLIENT) and "method" in words:
        return f"http.{KINDS[kind]}.request"
    if kind == CLIENT and "database" in words:
        return f"{_tag(words['database'])}.query"
    if kind > INTERNAL and "messaging" in words and "messaging_operation" in words:
        return f"{_tag(words['messaging'])}.{_tag(words['messaging_operation'])}"
    return _remote_operation(words, kind) or _plain_operation(words, kind)


def _remote_operation(words: Words, kind: int) -> str:
    """Of calls: RPC, functions, GraphQL; empty for what is none."""
    system = _tag(words.get("rpc", ""))
    if system == "aws-api" and kind == CLIENT:
        return f"aws.{_tag(words.get('rpc_service', 'client'))}.request"
    if system and kind in (SERVER, CLIENT):
        return f"{system}.{KINDS[kind]}.request"
    if kind == CLIENT and "provider" in words and "function" in words:
        return f"{_tag(words['provider'])}.{_tag(words['function'])}.invoke"
    if kind == SERVER and "trigger" in words:
        return f"{_tag(words['trigger'])}.invoke"
    return "graphql.server.request" if "graphql" in words else ""


def _plain_operation(words: Words, kind: int) -> str:
    if kind in (SERVER, CLIENT):
        return f"{_tag(words['protocol'])}.{KINDS[kind]}.request" if "protocol" in words else f"{KINDS[kind]}.request"
    return KINDS[kind].capitalize() if kind in (PRODUCER, CONSUMER) else "Internal"


def resource_of(words: Words, kind: int, name: str) -> str:
    """What exactly was worked on: a route, a queue, a statement; else the span's own name."""
    if "resource" in words:
        return words["resource"]
    if "method" in words:
        verb = "HTTP" if words["method"] == "_OTHER" else words["method"]
        return f"{verb} {words['route']}" if kind == SERVER and "route" in words else verb
    for first, second in (("messaging_operation", "topic"), ("rpc_method", "rpc_service"), ("graphql", "graphql_name")):
        if first in words:
            return f"{words[first]} {words[second]}" if second in words else words[first]
    return words.get("statement", name) if "database" in words else name


def type_of(words: Words, kind: int) -> str:
    """The kind of service: web, http, a sort of database, or custom."""
    if "type" in words:
        return words["type"]
    if kind != CLIENT:
        return "web" if kind == SERVER else "custom"
    if "database" not in words:
        return "http"
    system = _tag(words["database"])
    if system in OWN_TYPES:
        return system
    return "sql" if system in SQL_SYSTEMS else "db"


def _tag(text: str) -> str:
    """A text as Datadog writes tags: lower case, with an underscore for what it does not take."""
    return UNFIT.sub("_", text.lower())
