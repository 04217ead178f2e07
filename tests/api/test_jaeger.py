"""Jaeger's HTTP API: services, operations, traces, dependencies, errors, tenancy."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

import pytest

from neve.api.jaeger.routes import PREFIX, jaeger_routes
from neve.query.config import QueryConfig
from neve.query.engine.worker_pool import WorkerPool
from neve.query.service import Ports, QueryService, no_limits
from neve.receive.authentication import OpenGuard
from neve.traces.config import TracesConfig
from neve.traces.job import TraceAssembler
from tests.api.querying import Client, serving
from tests.api.test_tempo import make_span_lake
from tests.compact.tables import documents_in
from tests.query.lakes import ACME, fork_lake
from tests.traceql.plain_traces import BASE, trace_id

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from neve.lake.lake import Lake
    from neve.query.request import QueryLogEntry

MINUTE_US = 60 * 10**6
BOUNDS: dict[str, Any] = {"start": BASE // 1000 - MINUTE_US, "end": BASE // 1000 + MINUTE_US}
BOUNDS_V3 = {"query.startTimeMin": "2025-10-09T08:00:00Z", "query.startTimeMax": "2025-10-09T09:30:00.5Z"}
FIRST, SECOND = trace_id(1).hex(), trace_id(2).hex()


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory, iceberg: None) -> Lake:
    """The lake with spans of two organizations."""
    return make_span_lake(tmp_path_factory.mktemp("lake"))


@pytest.fixture(scope="module")
def entries() -> list[QueryLogEntry]:
    """The query log."""
    return []


@pytest.fixture(scope="module")
def client(lake: Lake, entries: list[QueryLogEntry]) -> Iterator[Client]:
    """A client of acme, whose queries run in workers."""
    pool = WorkerPool(lake, QueryConfig(threads=1, memory_limit="500MB", warm_workers=1))
    config = QueryConfig(cache_bytes=10_000_000)
    service = QueryService(lake, config, limits=no_limits, ports=Ports(engine=pool), log=entries.append)
    guard = OpenGuard(ACME)
    with serving(service, guard, first=jaeger_routes(service, guard)) as found:
        yield found
    pool.close()


def get(client: Client, path: str, **parameters: Any) -> tuple[int, Any]:
    """Return status and document of a GET."""
    reply = client.send("GET", f"{PREFIX}{path}?{urlencode(parameters, doseq=True)}")
    return reply.status, json.loads(reply.body)


def search(client: Client, **parameters: Any) -> list[dict[str, Any]]:
    """Return the traces of a search."""
    status, document = get(client, "/traces", **{**BOUNDS, **parameters})
    assert status == 200, document
    found: list[dict[str, Any]] = document["data"]
    assert document == {"data": found, "total": len(found), "limit": 0, "offset": 0, "errors": None}
    return found


def tags_of(item: dict[str, Any]) -> dict[str, tuple[str, Any]]:
    """Return types and values of tags by name."""
    return {one["key"]: (one["type"], one["value"]) for one in item["tags"]}


def test_services(client: Client) -> None:
    """Services are listed by name, those of other organizations are not, and a range may be given."""
    wrapped = {"data": ["pay", "web"], "total": 2, "limit": 0, "offset": 0, "errors": None}
    assert get(client, "/services", **BOUNDS) == (200, wrapped)
    assert get(client, "/v3/services", **BOUNDS) == (200, {"services": ["pay", "web"]})
    assert get(client, "/services", start=BASE // 1000 - 2 * MINUTE_US, end=BASE // 1000 - MINUTE_US)[1]["data"] == []


def test_operations(client: Client) -> None:
    """Operations of a service have a kind in all paths but the oldest, and may be chosen by it."""
    names = get(client, "/services/web/operations", **BOUNDS)[1]["data"]
    assert names == ["GET /", "POST /checkout"]
    pairs = [{"name": "charge", "spanKind": "client"}, {"name": "query", "spanKind": "client"}]
    assert get(client, "/operations", service="pay", **BOUNDS)[1]["data"] == pairs
    assert get(client, "/operations", service="pay", spanKind="server", **BOUNDS)[1]["data"] == []
    assert get(client, "/v3/operations", service="pay", span_kind="client", **BOUNDS)[1] == {"operations": pairs}
    assert get(client, f"/services/{quote('a/b', safe='')}/operations", **BOUNDS)[1]["data"] == []


def test_a_trace(client: Client) -> None:
    """A trace by its id has its spans, references, typed tags, logs, and a process for each resource."""
    status, document = get(client, f"/traces/{FIRST}")
    assert status == 200
    [trace] = document["data"]
    assert trace["traceID"] == FIRST
    first, second, third = trace["spans"]
    assert (first["operationName"], first["startTime"], first["duration"]) == ("POST /checkout", BASE // 1000, 100_000)
    assert first["references"] == []
    assert second["references"] == [{"refType": "CHILD_OF", "traceID": FIRST, "spanID": first["spanID"]}]
    tags = tags_of(first)
    assert tags["http.status_code"] == ("int64", 500)
    assert tags["a b"] == ("bool", True)
    assert tags["span.kind"] == ("string", "server")
    assert tags["error"] == ("bool", True)
    assert tags["otel.status_code"] == ("string", "ERROR")
    assert tags["otel.status_description"] == ("string", "boom")
    assert tags_of(second)["retries"] == ("string", "[1,2]")
    [log] = third["logs"]
    assert [(one["key"], one["value"]) for one in log["fields"]] == [("event", "exception"), ("type", "timeout")]
    assert [one["serviceName"] for one in trace["processes"].values()] == ["web", "pay"]
    assert trace["processes"][third["processID"]]["serviceName"] == "pay"
    assert get(client, "/traces/1")[1] == document  # without leading zeros


def test_a_trace_in_version_3(client: Client) -> None:
    """Version 3 answers with OTLP in JSON: ids in hex, kinds as numbers."""
    status, document = get(client, f"/v3/traces/{SECOND}")
    assert status == 200
    [group] = document["result"]["resourceSpans"]
    [span] = group["scopeSpans"][0]["spans"]
    assert (span["traceId"], span["kind"], span["name"]) == (SECOND, 2, "GET /")
    assert {"key": "zone", "value": {"stringValue": "eu"}} in group["resource"]["attributes"]


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({"service": "web"}, [SECOND, FIRST]),
        ({"service": "web", "limit": 1}, [SECOND]),
        ({"service": "pay"}, [FIRST]),
        ({"service": "vault"}, []),
        ({"service": "web", "operation": "GET /"}, [SECOND]),
        ({"service": "web", "tags": '{"http.status_code":"500"}'}, [FIRST]),
        ({"service": "web", "tags": '{"zone":"eu"}'}, [SECOND]),
        ({"service": "pay", "tags": '{"type":"timeout"}'}, [FIRST]),
        ({"service": "pay", "tags": '{"event":"exception"}'}, [FIRST]),
        ({"service": "web", "tags": '{"error":"true"}'}, [FIRST]),
        ({"service": "web", "tags": '{"a b":"true","span.kind":"server"}'}, [FIRST]),
        ({"service": "pay", "tags": '{"span.kind":"server"}'}, []),
        ({"service": "pay", "tags": '{"otel.status_code":"ERROR"}'}, [FIRST]),
        ({"service": "web", "tag": ["http.status_code:200", "zone:eu"]}, [SECOND]),
        ({"service": "web", "minDuration": "50ms"}, [FIRST]),
        ({"service": "web", "maxDuration": "0.05s"}, [SECOND]),
        ({"service": "OTLPResourceNoServiceName"}, []),
        ({"traceID": [SECOND, FIRST]}, [SECOND, FIRST]),
        ({"traceID": trace_id(255).hex()}, []),
    ],
)
def test_search(client: Client, parameters: dict[str, Any], expected: list[str]) -> None:
    """All conditions hold for one span; whole traces of the own organization come back, the newest first."""
    found = search(client, **parameters)
    assert [one["traceID"] for one in found] == expected
    assert [len(one["spans"]) for one in found] == [{FIRST: 3, SECOND: 1}[one] for one in expected]


def test_search_in_version_3(client: Client) -> None:
    """Version 3 has the same search under its own names, new and old, and 404 if nothing matches."""
    given = {"query.serviceName": "web", "query.attributes": '{"zone":"eu"}', "query.searchDepth": 5}
    status, document = get(client, "/v3/traces", **BOUNDS_V3, **given)
    assert status == 200
    assert len(document["result"]["resourceSpans"]) == 1
    old = {name.replace("Time", "_time_").lower(): text for name, text in BOUNDS_V3.items()}
    assert set(old) == {"query.start_time_min", "query.start_time_max"}
    status, document = get(client, "/v3/traces", **old, **{"query.service_name": "pay", "query.duration_min": "1h"})
    assert (status, document) == (404, {"error": {"httpCode": 404, "message": "no traces match"}})


def test_dependencies(client: Client) -> None:
    """Calls between services, and to a database without spans, are counted; users are left out."""
    bounds = {"endTs": BASE // 10**6 + 60_000, "lookback": 120_000}
    edges = get(client, "/dependencies", **bounds)[1]["data"]
    counted = {(one["parent"], one["child"]): one["callCount"] for one in edges}
    assert counted == {("web", "pay"): 1, ("pay", "postgresql"): 1}
    web_only = get(client, "/dependencies", **bounds, service="web")[1]["data"]
    assert web_only == [{"parent": "web", "child": "pay", "callCount": 1}]
    assert get(client, "/dependencies", **bounds, service="other")[1]["data"] == []


def test_dependencies_of_the_service_map(lake: Lake, tmp_path: Path) -> None:
    """They are the same from the stored service map, which is read if the lake has it."""
    entries: list[QueryLogEntry] = []
    mapped = fork_lake(lake, tmp_path)
    TraceAssembler(mapped, TracesConfig(threads=1), documents_in(tmp_path)).run()
    service, guard = QueryService(mapped, QueryConfig(), limits=no_limits, log=entries.append), OpenGuard(ACME)
    with serving(service, guard, first=jaeger_routes(service, guard)) as client:
        bounds = {"endTs": BASE // 10**6 + 60_000, "lookback": 120_000}
        edges = get(client, "/dependencies", **bounds)[1]["data"]
    assert {(one["parent"], one["child"]): one["callCount"] for one in edges} == {
        ("web", "pay"): 1,
        ("pay", "postgresql"): 1,
    }
    assert "service_edges" in entries[0].tables


@pytest.mark.parametrize(
    ("path", "parameters", "message"),
    [
        ("/traces", {}, "service is missing, expected the name of a service"),
        ("/traces", {"service": "a", "start": "soon"}, "start is 'soon', expected microseconds"),
        ("/traces", {"service": "a", "start": 100, "end": 50}, "the time range ends"),
        ("/traces", {"service": "a", "limit": "many"}, "limit is 'many', expected a number of traces"),
        ("/traces", {"service": "a", "tags": "a=b"}, "tags is 'a=b', expected a JSON object of texts"),
        ("/traces", {"service": "a", "tags": '{"a":1}'}, "expected a JSON object of texts"),
        ("/traces", {"service": "a", "tags": "[" * 9000}, "expected a JSON object of texts"),
        ("/traces", {"service": "a", "tag": "a"}, "tag is 'a', expected NAME:VALUE"),
        ("/traces", {"service": "a", "tag": ["a:b"] * 21}, "the search has 21 tags, expected at most 20"),
        ("/traces", {"service": "a", "minDuration": "1"}, "minDuration is '1', expected a duration such as 1.2s"),
        ("/traces", {"traceID": ["1"] * 65}, "traceID is given 65 times, expected at most 64"),
        ("/traces/xyz", {}, "the trace id is 'xyz', expected at most 32 hexadecimal digits"),
        ("/operations", {"service": "a", "spanKind": "odd"}, "spanKind is 'odd', expected one of internal, server"),
        ("/dependencies", {"endTs": "now"}, "endTs is 'now', expected milliseconds"),
    ],
)
def test_errors(client: Client, path: str, parameters: dict[str, Any], message: str) -> None:
    """Bad requests are 400, with the key, the value and what was expected, in the form of each version."""
    status, document = get(client, path, **parameters)
    assert status == 400
    [error] = document["errors"]
    assert error["code"] == 400
    assert message in error["msg"]
    assert document["data"] is None


def test_errors_of_version_3(client: Client) -> None:
    """Version 3 has its own form of errors, and requires a time range."""
    status, document = get(client, "/v3/traces", **{"query.serviceName": "web"})
    assert (status, document["error"]["httpCode"]) == (400, 400)
    assert document["error"]["message"] == "query.startTimeMin and query.startTimeMax are required"
    status, document = get(client, "/v3/traces", **(BOUNDS_V3 | {"query.startTimeMin": "2025-10-09"}))
    assert "query.startTimeMin is '2025-10-09', expected a time of RFC 3339" in document["error"]["message"]


@pytest.mark.parametrize("path", ["/traces/ff", "/v3/traces/ff", f"/traces/{trace_id(255).hex()}"])
def test_a_trace_that_is_missing(client: Client, path: str) -> None:
    """A trace that is not stored, or of another organization, is 404."""
    status, document = get(client, path)
    assert status == 404
    assert "is not stored" in json.dumps(document)


def test_requests_of_grafana(client: Client) -> None:
    """Addresses as `grafana-jaeger-datasource` writes them are answered with the types that its structures have."""

    def ask(address: str) -> Any:
        reply = client.send("GET", f"/jaeger{address}")
        assert reply.status == 200, reply.body
        return json.loads(reply.body)

    assert isinstance(ask("/api/services")["data"], list)
    assert isinstance(ask("/api/services/web%20shop/operations")["data"], list)
    assert isinstance(ask("/api/v3/services")["services"], list)
    assert isinstance(ask("/api/v3/operations?service=web")["operations"], list)
    # Search sorts its parameters, and sends microseconds; a trace has the milliseconds of the panel.
    tags = quote('{"http.status_code":"500"}', safe="")
    bounds = f"end={BOUNDS['end']}&limit=20&maxDuration=5s&operation={quote('POST /checkout', safe='')}&service=web"
    [found] = ask(f"/api/traces?{bounds}&start={BOUNDS['start']}&tags={tags}")["data"]
    [trace] = ask(f"/api/traces/{FIRST}?end={BASE // 10**6}&start={BASE // 10**6 - 1}")["data"]
    assert found == trace
    for span in trace["spans"]:
        assert [type(span[name]) for name in ("startTime", "duration", "tags", "logs")] == [int, int, list, list]
    # Times of version 3 are not encoded.
    times = "start_time=2025-10-09T08:00:00Z&end_time=2025-10-09T10:00:00.123456789+02:00"
    assert ask(f"/api/v3/traces/{FIRST}?{times}")["result"]["resourceSpans"]
    given = "query.service_name=pay&query.start_time_min=2025-10-09T10:00:00+02:00"
    assert ask(f"/api/v3/traces?{given}&query.start_time_max=2025-10-09T09:30:00.123456789Z")["result"]
    calls = ask(f"/api/dependencies?endTs={BASE // 10**6 + 60_000}&lookback=120000")["data"]
    assert all(isinstance(one["callCount"], int) for one in calls)


def test_query_log_and_cache(client: Client, entries: list[QueryLogEntry]) -> None:
    """A request is logged by its path and its conditions, and the same one comes from the cache."""
    for _ in range(2):
        assert len(search(client, service="pay", operation="charge")) == 1
    logged = [one for one in entries if one.sql == "jaeger traces service=pay operation=charge"]
    assert [one.statistics.cache for one in logged] == ["miss", "hit"]
    assert logged[0].tables == ("spans",)
