"""Semantic conventions: the span names and attributes that an instrumentation library sets for each kind of span."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from neve.demo.topology import GRPC_CODES, HTTP_CODES, Failure

if TYPE_CHECKING:
    from neve.demo.spans import Attributes, Value
    from neve.demo.topology import Fetch, Pool, Query, Service, Topic

SCHEMA_URL = "https://opentelemetry.io/schemas/1.27.0"
LIBRARY_VERSION = "0.57.0"
LIBRARY_PREFIXES = {
    "cpp": "opentelemetry-cpp/",
    "dotnet": "OpenTelemetry.Instrumentation.",
    "go": "go.opentelemetry.io/contrib/instrumentation/",
    "java": "io.opentelemetry.",
    "nodejs": "@opentelemetry/instrumentation-",
    "python": "opentelemetry.instrumentation.",
    "ruby": "OpenTelemetry::Instrumentation::",
    "rust": "opentelemetry-",
}


@lru_cache(maxsize=512)
def library_name(language: str, technology: str) -> str:
    """Return the name of the library that instruments a technology in a language."""
    return LIBRARY_PREFIXES[language] + technology


@lru_cache(maxsize=512)
def span_name(service: str, protocol: str, operation: str) -> str:
    """Return the span name of a request: the route, or the full name of the remote procedure."""
    return f"shop.{service.capitalize()}Service/{operation}" if protocol == "grpc" else operation


@lru_cache(maxsize=512)
def server_attributes(service: Service, operation: str, code: str) -> Attributes:
    """Return the attributes of a request on the server; the visit has the path of a route with placeholders."""
    address: dict[str, Value] = {"server.address": f"{service.name}.shop.svc", "server.port": service.port}
    if service.protocol == "grpc":
        return _rpc_attributes(service, operation, code) | address
    method, _, route = operation.partition(" ")
    return address | {
        "http.request.method": method,
        "http.route": route,
        "url.path": route,
        "url.scheme": "http",
        "network.protocol.version": "1.1",
        "http.response.status_code": HTTP_CODES[code],
    }


@lru_cache(maxsize=512)
def client_attributes(service: Service, operation: str, code: str) -> Attributes:
    """Return the attributes of a request to a service on the client; without a response there is no status."""
    address: dict[str, Value] = {
        "server.address": f"{service.name}.shop.svc",
        "server.port": service.port,
        "peer.service": service.name,
    }
    if service.protocol == "grpc":
        return _rpc_attributes(service, operation, code) | address
    method, _, route = operation.partition(" ")
    request = address | {
        "http.request.method": method,
        "url.full": f"http://{service.name}.shop.svc:{service.port}{route}",
    }
    answered = code != "DEADLINE_EXCEEDED"
    return request | ({"http.response.status_code": HTTP_CODES[code]} if answered else {"error.type": "timeout"})


@lru_cache(maxsize=512)
def fetch_attributes(fetch: Fetch) -> Attributes:
    """Return the attributes of a request to an external service."""
    return {
        "http.request.method": fetch.method,
        "url.full": f"https://{fetch.host}{fetch.path}",
        "server.address": fetch.host,
        "server.port": 443,
        "http.response.status_code": 200,
        "tls.resumed": True,
    }


@lru_cache(maxsize=512)
def query_attributes(query: Query) -> Attributes:
    """Return the constant attributes of a statement."""
    return {
        "db.system": query.store.system,
        "db.name": query.store.name,
        "db.operation": query.operation,
        "db.collection.name": query.target,
        "db.statement": query.statement,
        "server.address": query.store.host,
        "server.port": query.store.port,
    }


def pool_wait_attributes(pool: Pool, waited_ms: float) -> Attributes:
    """Return the attributes of a wait for a pool's connection."""
    return {
        "db.client.connection.pool.name": pool.name,
        "db.client.connection.max": pool.size,
        "db.client.connection.wait_ms": round(waited_ms, 3),
    }


@lru_cache(maxsize=64)
def message_attributes(topic: Topic, action: str, group: str) -> Attributes:
    """Return the attributes of a message on a topic as it is sent, or processed by a consumer group."""
    reader = {"messaging.consumer.group.name": group} if group else {}
    return {
        "messaging.system": "kafka",
        "messaging.destination.name": topic.name,
        "messaging.operation.type": action,
        "server.address": "kafka.shop.svc",
        "server.port": 9092,
        **reader,
    }


def exception_attributes(failure: Failure, trace: str, *, escaped: bool) -> Attributes:
    """Return the attributes of an exception event."""
    return {
        "exception.type": failure.type,
        "exception.message": failure.message,
        "exception.stacktrace": trace,
        "exception.escaped": escaped,
    }


def _rpc_attributes(service: Service, operation: str, code: str) -> dict[str, Value]:
    """Return the attributes of a remote procedure call that both sides set."""
    return {
        "rpc.system": "grpc",
        "rpc.service": f"shop.{service.name.capitalize()}Service",
        "rpc.method": operation,
        "rpc.grpc.status_code": GRPC_CODES[code],
    }
