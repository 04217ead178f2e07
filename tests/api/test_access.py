"""Strangers at every path of every port: pages, proxies, callers without a key or with the wrong one.

The paths come from the applications themselves, so that a new one is tried without being named here.
"""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import grpc  # type: ignore[import-untyped]
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from starlette.routing import Route

from neve.api.access import AccessRules
from neve.api.alerting.routes import ALERTMANAGER, AlertingEndpoints, alerting_routes
from neve.api.api_application import build_api_application
from neve.api.api_server import query_rules
from neve.api.explore.routes import explore_routes
from neve.api.health import TrustedCallers, health_application, serve_health, source_health_routes
from neve.api.jaeger.routes import jaeger_routes
from neve.api.loki.routes import loki_routes
from neve.api.otlp_http import build_application
from neve.api.prometheus.routes import prometheus_routes
from neve.api.query.endpoint import Endpoint
from neve.api.tempo.routes import tempo_routes
from neve.api.tenant.routes import tenant_routes
from neve.app.serve.config import ServeConfig
from neve.app.serve.guards import health_guard
from neve.app.serve.part import PartsHealth
from neve.app.serve.process_group import GROUP_HEADER
from neve.app.serve.receiver import receiver_parts
from neve.app.settings import Settings
from neve.errors import ConfigError
from neve.query.config import QueryConfig, check_query
from neve.receive.authentication import KeyGuard, OpenGuard
from neve.receive.config import ReceiverConfig, check_receiver
from neve.receive.refusal import Refusal
from neve.state.scopes import Caller, Scope
from tests.api.running import settings_for

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping
    from pathlib import Path

    from starlette.applications import Starlette

    from neve.app.control import Control
    from neve.query.service import QueryService
    from neve.receive.authentication import Guard
    from tests.api.running import Running

PORTS = ("receiver", "query", "health")
ANYWHERE = "0.0.0.0"  # noqa: S104 - nothing listens in these tests
HERE = {"host": "localhost:4318"}
TOKEN = "the word of the group"  # noqa: S105
SECRET = "the disk /srv/lake is full"  # noqa: S105
# Paths that strangers may call on a port with keys. Each says one word, or what is public anyway.
PUBLIC = ("/livez", "/healthz", "/readyz", "/ready", "/api/v1/openapi.json", "/api/v1/sign-in")
SCOPES: dict[str, dict[str, set[Scope]]] = {
    "receiver": {"/metrics": {Scope.METRICS, Scope.ADMIN}, "/events/s3": {Scope.ANNOUNCE}, "": {Scope.WRITE}},
    "query": {
        "/metrics": {Scope.METRICS, Scope.ADMIN},
        "/api/v1/query": {Scope.READ},
        "/api/v1/query/batch": {Scope.READ},
        "/api/v1/sign-in": {Scope.READ},
        "/api/v1/live": {Scope.READ},
        "/api/v1/views": {Scope.READ},
        "/api/v1/views/{name}": {Scope.READ},
        "/api/v1/queries": {Scope.READ},
        "/api/v1/queries/{id}": {Scope.READ},
        "/api/v1/tables": {Scope.READ},
        "/api/v1/tables/{name}": {Scope.READ},
        **{route.path: {Scope.READ} for route in explore_routes(cast("Any", None), cast("Any", None))},
        **{route.path: {Scope.READ} for route in tenant_routes(*cast("Any", [None] * 3))},
        "/api/v1/quarantine/{id}/retry": set(),  # one key needs two scopes for it: read, and write
        **{route.path: {Scope.READ} for route in prometheus_routes(cast("Any", None), cast("Any", None))},
        **{route.path: {Scope.READ} for route in tempo_routes(cast("Any", None), cast("Any", None))},
        **{route.path: {Scope.READ} for route in jaeger_routes(cast("Any", None), cast("Any", None))},
        **{route.path: {Scope.READ} for route in alerting_routes(cast("Any", AlertingEndpoints), cast("Any", None))},
        **{
            route.path: {Scope.READ}
            for route in loki_routes(cast("Any", None), cast("Any", None))
            if isinstance(route, Route) and route.path != "/ready"
        },
        "": {Scope.ADMIN},
    },
    "health": {"": {Scope.METRICS, Scope.ADMIN}},
}


@dataclass(frozen=True)
class Reply:
    """What an application answered."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Book:
    """Keys whose text is the one scope that they have."""

    def verify(self, text: str) -> Caller | None:
        """Look one up."""
        return Caller("acme", f"key-{text}", (Scope(text),)) if text in set(Scope) else None


class Ill:
    """Parts that are ill, with words that are for no stranger."""

    def look(self) -> PartsHealth:
        """Say so."""
        return PartsHealth([{"name": "tail", "state": "failed", "error": SECRET, "details": {}}])

    def collect_metrics(self) -> bytes:
        """Count something."""
        return b"neve_secret 1\n"


@dataclass
class House:
    """The applications of all ports, built as the processes build them."""

    folder: Path
    control: Control
    guards: dict[str, Guard] = field(
        default_factory=lambda: {"open": OpenGuard("acme", admin=True), "keys": KeyGuard(Book(), 60)}
    )

    @asynccontextmanager
    async def application(self, port: str, auth: str, **section: Any) -> AsyncIterator[Starlette]:
        """The application of one port."""
        guard = self.guards[auth]
        if port == "receiver":
            async with receiver_parts(settings_for(self.folder, auth=auth, **section)) as parts:
                yield build_application(parts.receiver, parts.events, guard, TOKEN)
        elif port == "query":
            rules = query_rules(QueryConfig(auth=cast("Any", auth), **section))
            alerting = AlertingEndpoints(cast("Any", Silent()))
            yield build_api_application(cast("QueryService", Silent()), self.control, guard, rules, TOKEN, alerting)
        else:
            config = ServeConfig(host="127.0.0.1" if auth == "open" else ANYWHERE)
            yield health_application(source_health_routes(Ill(), TrustedCallers(guard, TOKEN)), config)

    def call(self, port: str, auth: str, calls: list[Call], **section: Any) -> list[Reply]:
        """The answers to some requests, one after the other."""

        async def run() -> list[Reply]:
            async with self.application(port, auth, **section) as application:
                return [await send(application, *one) for one in calls]

        return asyncio.run(run())

    def paths(self, port: str) -> list[tuple[str, str]]:
        """Every method and path of a port."""

        async def find() -> list[tuple[str, str]]:
            async with self.application(port, "keys") as application:
                return [one for route in application.routes if isinstance(route, Route) for one in methods_of(route)]

        return asyncio.run(find())


class Silent:
    """A service of queries that is never reached."""

    def __getattr__(self, name: str) -> Any:
        raise LookupError(name)

    def running(self, _organization: str) -> tuple[()]:
        """Return the running queries: none."""
        return ()


Call = tuple[str, str, dict[str, str]]


def methods_of(route: Route) -> Iterator[tuple[str, str]]:
    """The methods and the path of a route."""
    methods = route.endpoint.handlers if isinstance(route.endpoint, Endpoint) else route.methods
    assert methods is not None
    yield from ((method, route.path) for method in methods)


PARAMETER = re.compile(r"\{(\w+)(?::\w+)?\}")
PATH_VALUES = {"id": "0" * 18, "name": "spans", "trace_id": "0" * 32, "span_id": "0" * 16, "record_id": "0" * 32}


async def send(application: Starlette, method: str, path: str, headers: Mapping[str, str]) -> Reply:
    """One request without a body."""
    told: list[Any] = []
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": PARAMETER.sub(lambda found: PATH_VALUES.get(found[1], "a"), path),
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
        "client": ("127.0.0.1", 5),
        "server": ("127.0.0.1", 4318),
    }

    async def receive() -> Any:
        if told:  # it has answered: whoever looks out for the end of the connection sees it
            return {"type": "http.disconnect"}
        await asyncio.sleep(0)  # others must get their turn
        return {"type": "http.request", "body": b"", "more_body": False}

    async def note(message: Any) -> None:
        told.append(message)

    await application(scope, receive, note)
    found = {name.decode(): value.decode() for name, value in told[0]["headers"]}
    return Reply(told[0]["status"], found, b"".join(one.get("body", b"") for one in told[1:]))


@pytest.fixture
def house(tmp_path: Path, control: Control) -> House:
    """All ports."""
    return House(tmp_path, control)


def needed(port: str, path: str, method: str = "GET") -> set[Scope]:
    """The scopes that open a path."""
    if path.startswith(ALERTMANAGER) and method in ("POST", "DELETE"):
        return {Scope.WRITE}
    return SCOPES[port].get(path, SCOPES[port][""])


STRANGERS = [
    ({"host": "evil.example"}, 421),
    ({"host": "evil.example:4318"}, 421),
    ({"host": "localhost.evil.example"}, 421),
    ({"host": "127.0.0.1.evil.example"}, 421),
    ({"host": "localhost@evil.example"}, 421),
    ({"host": ""}, 421),
    ({}, 421),
    ({"host": "10.1.2.3"}, 421),
    (HERE | {"origin": "https://evil.example"}, 403),
    (HERE | {"origin": "null"}, 403),
    (HERE | {"origin": "http://localhost:3000"}, 403),
    (HERE | {"origin": "https://localhost:4318"}, 403),
    (HERE | {"x-forwarded-for": "10.1.2.3"}, 403),
    (HERE | {"X-Forwarded-Proto": "https"}, 403),
    (HERE | {"forwarded": "for=10.1.2.3"}, 403),
    (HERE | {"x-real-ip": "10.1.2.3"}, 403),
    (HERE | {"via": "1.1 proxy"}, 403),
]


@pytest.mark.parametrize("port", PORTS)
def test_an_open_port_refuses_pages_and_proxies_everywhere(house: House, port: str) -> None:
    """Foreign hosts, foreign origins and headers of proxies, at every path, whether or not there is one."""
    paths = [*house.paths(port), ("GET", "/"), ("GET", "/api/v1/nothing"), ("POST", "/v1/traces/")]
    calls = [(method, path, headers) for method, path in paths for headers, _status in STRANGERS]
    expected = [status for _path in paths for _headers, status in STRANGERS]
    replies = house.call(port, "open", calls)
    assert [(call, reply.status) for call, reply in zip(calls, replies, strict=True)] == [
        (call, status) for call, status in zip(calls, expected, strict=True)
    ]
    for reply in replies:
        assert reply.headers["connection"] == "close"
        assert b"keys" in reply.body or b"key" in reply.body
        assert SECRET.encode() not in reply.body


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:1", "localhost.", "127.0.0.1:4318", "127.1.2.3", "[::1]:4318"]
)
@pytest.mark.parametrize("port", PORTS)
def test_an_open_port_answers_to_loopback_names(house: House, port: str, host: str) -> None:
    """With any port, and to a page of its own origin."""
    own = {"host": host, "origin": f"http://{host}"}
    assert [
        reply.status for reply in house.call(port, "open", [("GET", "/livez", {"host": host}), ("GET", "/livez", own)])
    ] == [200, 200]


@pytest.mark.slow
@pytest.mark.parametrize("port", PORTS)
def test_a_port_with_keys_wants_one_everywhere(house: House, port: str) -> None:
    """Without a key nothing but what is public answers, and each path takes the scopes that it says and no others."""
    paths = [one for one in house.paths(port) if one[1] not in PUBLIC]
    assert paths
    bare = house.call(port, "keys", [(method, path, HERE) for method, path in paths])
    assert {(path, reply.status) for (_method, path), reply in zip(paths, bare, strict=True)} == {
        (path, 401) for _method, path in paths
    }
    unknown = house.call(port, "keys", [(method, path, HERE | {"x-api-key": "guess"}) for method, path in paths])
    assert {reply.status for reply in unknown} == {403}
    for scope in Scope:
        key = HERE | {"authorization": f"Bearer {scope}"}
        replies = house.call(port, "keys", [(method, path, key) for method, path in paths])
        admitted = {one for one, reply in zip(paths, replies, strict=True) if reply.status not in (401, 403)}
        assert admitted == {one for one in paths if scope in needed(port, one[1], one[0])}, scope


@pytest.mark.parametrize("port", PORTS)
def test_a_port_with_keys_tells_strangers_one_word(house: House, port: str) -> None:
    """Probes answer with a status for orchestrators; what ails the lake is for keys and for the process group."""
    paths = [path for _method, path in house.paths(port) if path in ("/livez", "/healthz", "/readyz")]
    replies = house.call(port, "keys", [("GET", path, {"host": "10.1.2.3:80"}) for path in paths])
    assert {tuple(json.loads(reply.body)) for reply in replies} == {("status",)}
    assert {reply.status for reply in replies} <= {200, 503}


@pytest.mark.parametrize(
    ("headers", "sees"),
    [
        ({}, False),
        ({"authorization": "Bearer metrics"}, True),
        ({"authorization": "Bearer admin"}, True),
        ({"authorization": "Bearer read"}, False),
        ({GROUP_HEADER: TOKEN}, True),
        ({GROUP_HEADER: "another"}, False),
        ({GROUP_HEADER: ""}, False),
    ],
)
def test_details_of_health_need_a_key(house: House, headers: dict[str, str], sees: bool) -> None:
    """Of the scope metrics or admin; the process group shows its token."""
    health, ready, metrics = house.call(
        "health", "keys", [("GET", path, HERE | headers) for path in ("/healthz", "/readyz", "/metrics")]
    )
    assert (health.status, ready.status) == (503, 503)
    assert [SECRET.encode() in reply.body for reply in (health, ready)] == [sees, sees]
    assert (metrics.status == 200, b"neve_secret" in metrics.body) == (sees, sees)


@pytest.mark.parametrize("port", ["receiver", "query"])
def test_hosts_can_be_named_where_there_are_keys(house: House, port: str) -> None:
    """Others are told that they are wrong; probes and this machine are always answered."""
    calls = [
        ("GET", "/metrics", {"host": host, "authorization": "Bearer metrics"})
        for host in ("neve.example", "NEVE.example:443", "localhost", "evil.example", "")
    ]
    calls.append(("GET", "/readyz", {"host": "10.0.0.7:4318"}))
    replies = house.call(port, "keys", calls, allowed_hosts=("neve.example",))
    assert [reply.status for reply in replies] == [200, 200, 200, 421, 421, 200]
    assert f"{port}.allowed_hosts".encode() in replies[3].body


@pytest.mark.parametrize("port", PORTS)
def test_nothing_is_redirected(house: House, port: str) -> None:
    """A path with a slash too many is not found; the caller's host is not repeated."""
    paths = [(method, f"{path}/") for method, path in house.paths(port) if "{" not in path]
    replies = house.call(port, "keys", [(method, path, {"host": "evil.example"}) for method, path in paths])
    assert {reply.status for reply in replies} == {404}
    for reply in replies:
        assert "location" not in reply.headers
        assert b"evil.example" not in reply.body
        assert b"was not found" in reply.body or not reply.body


def test_an_open_lake_is_looked_at_and_not_changed(house: House) -> None:
    """Unless the configuration says so: reading control is free on one's own machine, changes need query.open_admin."""
    safe = {
        ("GET", path)
        for method, path in house.paths("query")
        if method == "GET" and Scope.ADMIN in needed("query", path)
    }
    changes = [
        (method, path, HERE)
        for method, path in house.paths("query")
        if method not in ("GET", "HEAD") and needed("query", path) == {Scope.ADMIN}
    ]
    assert len(safe) >= 8
    assert len(changes) >= 7
    house.guards["open"] = OpenGuard("acme")
    replies = house.call("query", "open", changes)
    assert {reply.status for reply in replies} == {403}
    assert {json.loads(reply.body)["error"]["code"] for reply in replies} == {"no_admin"}
    assert [reply.status for reply in house.call("query", "open", [("GET", "/api/v1/status", HERE)])] == [200]
    house.guards["open"] = OpenGuard("acme", admin=True)
    assert 403 not in {reply.status for reply in house.call("query", "open", changes)}


def test_calls_through_a_proxy_are_refused_over_grpc(open_receiver: Running) -> None:
    """By the metadata that proxies add."""
    with open_receiver.traces() as stub:
        with pytest.raises(grpc.RpcError) as caught:
            stub.Export(ExportTraceServiceRequest(), metadata=[("x-forwarded-for", "10.1.2.3")], timeout=600)
        assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED
        assert "came through a proxy" in caught.value.details()
        stub.Export(ExportTraceServiceRequest(), timeout=600)


@pytest.mark.parametrize("section", ["receiver", "query"])
def test_hosts_are_checked_at_the_start(section: str) -> None:
    """They need keys, and are names without a scheme and a port."""
    config: Any = ReceiverConfig if section == "receiver" else QueryConfig
    check: Callable[[Any], None] = cast("Any", {"receiver": check_receiver, "query": check_query}[section])
    with pytest.raises(ConfigError, match=rf"{section}\.allowed_hosts is neve\.example and {section}\.auth is 'open'"):
        check(config(allowed_hosts=("neve.example",)))
    check(config(allowed_hosts=("neve.example", "10.0.0.7", "[::1]"), auth="keys"))
    for bad in ("https://neve.example", "neve.example:443", "a b", ""):
        with pytest.raises(ValueError, match="should be a host name or address"):
            config(allowed_hosts=(bad,))


def test_health_off_this_machine_needs_keys(tmp_path: Path) -> None:
    """The guard of the port follows its address; without a guard it does not open."""

    def guard_at(host: str, opened: ExitStack) -> object:
        plain = settings_for(tmp_path).model_dump(include={"organization", "state"})
        return health_guard(Settings.model_validate({**plain, "serve": {"host": host}}), opened)

    async def watch() -> None:
        async with serve_health(Ill(), ServeConfig(host=ANYWHERE, port=0)):
            pass

    with ExitStack() as opened:
        assert isinstance(guard_at("127.0.0.1", opened), OpenGuard)
        assert isinstance(guard_at(ANYWHERE, opened), KeyGuard)
    with pytest.raises(ConfigError, match=r"serve\.host is '0\.0\.0\.0'"):
        asyncio.run(watch())


def test_several_hosts_are_none() -> None:
    """A request that names two is refused, whichever comes first."""
    with pytest.raises(Refusal, match="expected localhost"):
        AccessRules("query", is_open=True).check("/", [(b"host", b"localhost"), (b"host", b"evil.example")])


@pytest.mark.parametrize(
    ("auth", "headers", "status"),
    [
        ("open", {**HERE, "origin": "http://evil.example"}, 403),
        ("open", {**HERE, "x-forwarded-for": "10.0.0.1"}, 403),
        ("open", {"host": "evil.example"}, 421),
        ("keys", HERE, 401),
        ("keys", {**HERE, "authorization": "Bearer write"}, 403),
    ],
)
def test_a_live_tail_refuses_strangers(house: House, auth: str, headers: dict[str, str], status: int) -> None:
    """The handshake of a WebSocket passes the rules of the port and needs a key that may read."""
    told: list[Any] = []

    async def receive() -> dict[str, str]:
        return {"type": "websocket.connect"}

    async def note(event: Any) -> None:
        told.append(event)

    scope = {
        "type": "websocket",
        "scheme": "ws",
        "path": "/loki/api/v1/tail",
        "raw_path": b"/loki/api/v1/tail",
        "query_string": b"query=x",
        "root_path": "",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8480),
        "subprotocols": [],
        "extensions": {"websocket.http.response": {}},
    }

    async def run() -> None:
        async with house.application("query", auth) as application:
            await application(scope, receive, note)

    asyncio.run(run())
    assert told[0]["type"] == "websocket.http.response.start"
    assert told[0]["status"] == status
