"""Tempo's HTTP API: traces, search, tags, metrics, errors, tenancy."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

from neve.api.tempo.routes import PREFIX, tempo_routes
from neve.lake.config import CatalogConfig, LakeConfig
from neve.lake.lake import Lake
from neve.model.signals import Signal
from neve.query.config import QueryConfig
from neve.query.engine.worker_pool import WorkerPool
from neve.query.service import Ports, QueryService, no_limits
from neve.receive.authentication import OpenGuard
from tests.api.querying import Client, serving
from tests.empty_tables import create_empty_tables
from tests.query.lakes import ACME, OTHER, put, settings_of
from tests.traceql.plain_traces import BASE, MS, PlainSpan, to_otlp, trace_id

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from neve.query.request import QueryLogEntry

SPANS = (
    PlainSpan(1, 1, None, 0, 100, "web", "POST /checkout", 2, 2, "boom", {"http.status_code": 500, "a b": True}),
    PlainSpan(1, 2, 1, 10, 60, "pay", "charge", 3, 2, attributes={"db.system": "postgresql", "retries": [1, 2]}),
    PlainSpan(1, 3, 2, 20, 30, "pay", "query", 3, events=((1, "exception", {"type": "timeout"}),)),
    PlainSpan(2, 1, None, 2000, 40, "web", "GET /", 2, attributes={"http.status_code": 200}, resource={"zone": "eu"}),
)
BOUNDS: dict[str, Any] = {"start": BASE // 10**9 - 60, "end": BASE // 10**9 + 60}
SECRET = PlainSpan(255, 1, None, 5, 50, "vault", "secret", 2, attributes={"secret": "canary"})


def make_span_lake(folder: Path) -> Lake:
    """Return a lake with two traces of acme, and one of globex."""
    said = settings_of(folder)
    lake = Lake(LakeConfig.model_validate(said["lake"]), CatalogConfig.model_validate(said["catalog"]))
    create_empty_tables(lake)
    put(lake, ACME, Signal.TRACES, to_otlp(SPANS))
    put(lake, OTHER, Signal.TRACES, to_otlp([SECRET]))
    return lake


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory, iceberg: None) -> Lake:
    """The lake with spans."""
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
    with serving(service, guard, first=tempo_routes(service, guard)) as found:
        yield found
    pool.close()


def get(client: Client, path: str, **parameters: Any) -> tuple[int, Any]:
    """Return status and document of a GET, or the text of an error."""
    reply = client.send("GET", f"{PREFIX}{path}?{urlencode(parameters)}")
    text = reply.body.decode()
    return reply.status, json.loads(text) if reply.status == 200 else text


def search(client: Client, **parameters: Any) -> list[dict[str, Any]]:
    """Return the traces of a search."""
    status, document = get(client, "/search", **{**BOUNDS, **parameters})
    assert status == 200, document
    found: list[dict[str, Any]] = document["traces"]
    return found


def test_health(client: Client) -> None:
    """Grafana's health check gets its echo, and a version is served."""
    assert client.send("GET", f"{PREFIX}/echo").body == b"echo"
    assert get(client, "/status/buildinfo")[1]["version"].startswith("2.")


def test_trace_in_protobuf(client: Client) -> None:
    """A trace by its id is the message that was sent, bare in the first version and wrapped in the second."""
    headers = {"accept": "application/protobuf"}
    first = client.send("GET", f"{PREFIX}/traces/{trace_id(1).hex()}", headers=headers)
    assert first.headers["content-type"] == "application/protobuf"
    found = TracesData.FromString(first.body)
    names = [span.name for group in found.resource_spans for scope in group.scope_spans for span in scope.spans]
    assert names == ["POST /checkout", "charge", "query"]
    assert found.resource_spans[0].scope_spans[0].spans[0].attributes[0].value.int_value == 500
    second = client.send("GET", f"{PREFIX}/v2/traces/1", headers=headers)  # without leading zeros
    assert second.body[0] == 0x0A
    assert second.body.endswith(first.body)


def test_trace_in_json(client: Client) -> None:
    """JSON is that of protobuf, as Tempo sends it."""
    _, document = get(client, f"/traces/{trace_id(1).hex()}")
    span = document["batches"][0]["scopeSpans"][0]["spans"][0]
    assert base64.b64decode(span["traceId"]) == trace_id(1)
    assert span["kind"] == "SPAN_KIND_SERVER"
    _, document = get(client, f"/v2/traces/{trace_id(1).hex()}")
    assert len(document["trace"]["resourceSpans"]) == 2  # groups of the same resource are joined


@pytest.mark.parametrize("wanted", ["77", trace_id(255).hex()])
def test_missing_trace(client: Client, wanted: str) -> None:
    """An unknown trace, or one of another organization, is 404 in the first version and empty in the second."""
    status, text = get(client, f"/traces/{wanted}")
    assert status == 404
    assert f"trace {wanted.rjust(32, '0')} is not stored" in text
    assert get(client, f"/v2/traces/{wanted}") == (200, {"trace": {"resourceSpans": []}, "metrics": {}})
    reply = client.send("GET", f"{PREFIX}/v2/traces/{wanted}", headers={"accept": "application/protobuf"})
    assert reply.body == b"\x0a\x00"


def test_search(client: Client) -> None:
    """A search gives traces with their roots, the newest first, and the first matching spans."""
    assert [one["traceID"] for one in search(client)] == ["2", "1"]
    [found] = search(client, q='{ status = error && resource.service.name = "pay" } | select(span.retries)', spss=1)
    assert found["rootServiceName"] == "web"
    assert found["rootTraceName"] == "POST /checkout"
    assert found["startTimeUnixNano"] == str(BASE)
    assert found["durationMs"] == 100
    assert found["serviceStats"]["pay"] == {"spanCount": 2, "errorCount": 1}
    [spanset] = found["spanSets"]
    assert spanset["matched"] == 1
    [span] = spanset["spans"]
    assert span["spanID"] == "0000000000000002"
    assert span["durationNanos"] == str(60 * MS)
    assert {"key": "status", "value": {"stringValue": "error"}} in span["attributes"]
    assert {"key": "retries", "value": {"stringValue": "[1,2]"}} in span["attributes"]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("{ nestedSetParent < 0 }", ["2", "1"]),
        ('{ kind = server } >> { event.type = "timeout" }', ["1"]),
        ('{ rootName = "GET /" }', ["2"]),
        ("{ } | by(name) | count() > 1", []),
        ("{ .http.status_code >= 500 }", ["1"]),
        ('{ span."a b" = true }', ["1"]),
        ("{ span.retries = 2 }", ["1"]),
        ("{ .secret != nil }", []),
        ("{ } | avg(duration) > 50ms", ["1"]),
    ],
)
def test_queries(client: Client, query: str, expected: list[str]) -> None:
    """Structures, intrinsics, arrays and aggregates find their traces in the lake."""
    assert [one["traceID"] for one in search(client, q=query)] == expected


def test_search_by_tags(client: Client) -> None:
    """The older parameters are a query too."""
    assert [one["traceID"] for one in search(client, tags="service.name=web http.status_code=200")] == ["2"]
    assert [one["traceID"] for one in search(client, tags='name="POST /checkout" error=true')] == ["1"]
    assert [one["traceID"] for one in search(client, minDuration="50ms")] == ["1"]
    assert [one["traceID"] for one in search(client, maxDuration="0.05s")] == ["2"]


def test_tags(client: Client) -> None:
    """Names of attributes are listed by scope, also of what a broken query says."""
    _, document = get(client, "/search/tags", **BOUNDS)
    assert {"http.status_code", "service.name", "type"} <= set(document["tagNames"])
    assert "secret" not in document["tagNames"]
    _, document = get(client, "/v2/search/tags", q='{ resource.zone = "eu" && span. }', **BOUNDS)
    scopes = {one["name"]: one["tags"] for one in document["scopes"]}
    assert scopes["span"] == ["http.status_code"]
    assert "status" in scopes["intrinsic"]
    _, document = get(client, "/v2/search/tags", scope="event", **BOUNDS)
    assert document["scopes"] == [{"name": "event", "tags": ["type"]}]


@pytest.mark.parametrize(
    ("tag", "values"),
    [
        ("resource.service.name", [("string", "pay"), ("string", "web")]),
        ("span.http.status_code", [("int", "200"), ("int", "500")]),
        (".http.status_code", [("int", "200"), ("int", "500")]),
        ('span."a b"', [("bool", "true")]),
        ("event.type", [("string", "timeout")]),
        ("name", [("string", "GET /"), ("string", "POST /checkout"), ("string", "charge"), ("string", "query")]),
        ("rootServiceName", [("string", "web")]),
        ("status", [("keyword", "unset"), ("keyword", "ok"), ("keyword", "error")]),
        ("duration", []),
        ("span.secret", []),
    ],
)
def test_tag_values(client: Client, tag: str, values: list[tuple[str, str]]) -> None:
    """Values have their types; those of other organizations are not there."""
    _, document = get(client, f"/v2/search/tag/{quote(tag, safe='')}/values", **BOUNDS)
    assert [(one["type"], one["value"]) for one in document["tagValues"]] == values


def test_old_tag_values(client: Client) -> None:
    """The first version has names without a scope, and values without types."""
    assert get(client, "/search/tag/service.name/values", **BOUNDS)[1] == {"tagValues": ["pay", "web"]}


def test_metrics(client: Client) -> None:
    """Series have samples at each step with a value, and exemplars with the ids of traces."""
    wanted = {**BOUNDS, "q": "{ } | count_over_time() by (resource.service.name)", "step": "60s", "exemplars": 2}
    _, document = get(client, "/metrics/query_range", **wanted)
    series = {one["labels"][0]["value"]["stringValue"]: one for one in document["series"]}
    assert set(series) == {"web", "pay"}
    assert sum(one["value"] for one in series["web"]["samples"]) == 2
    assert set(series["web"]["samples"][0]) == {"timestampMs", "value"}
    labels = {one["key"]: one["value"] for one in series["pay"]["exemplars"][0]["labels"]}
    assert labels["trace:id"] == {"stringValue": trace_id(1).hex()}
    _, document = get(client, "/metrics/query", q="{ status = error } | count_over_time()", **BOUNDS)
    assert [one["value"] for one in document["series"]] == [2.0]


@pytest.mark.parametrize(
    ("path", "parameters", "message"),
    [
        ("/search", {"q": "{ .a = }"}, "1:8: parse error: unexpected '}'"),
        ("/search", {"q": "{ } | rate()"}, "this query is about metrics"),
        ("/search", {"start": "soon"}, "start is 'soon', expected seconds"),
        ("/search", {"start": 100, "end": 50}, "the time range ends"),
        ("/search", {"limit": "many"}, "limit is 'many', expected a number"),
        ("/metrics/query_range", {"q": "{ }"}, "this query has no metrics"),
        ("/metrics/query_range", {"q": "{ } | rate()", "step": "1ms", **BOUNDS}, "the range has 120,001 steps"),
        ("/traces/xyz", {}, "the trace id is 'xyz', expected at most 32 hexadecimal digits"),
        ("/v2/search/tags", {"scope": "moon"}, "scope is 'moon'"),
        ("/v2/search/tag/moon/values", {}, "1:3: parse error: unexpected 'moon'"),
    ],
)
def test_errors(client: Client, path: str, parameters: dict[str, Any], message: str) -> None:
    """Bad requests are 400, with the key, the value and what was expected."""
    status, text = get(client, path, **parameters)
    assert status == 400
    assert message in text


def test_query_log(client: Client, entries: list[QueryLogEntry]) -> None:
    """A request is logged with its query, and the same one comes from the cache."""
    query = '{ name = "charge" }'
    for _ in range(2):
        assert len(search(client, q=query)) == 1
    logged = [one for one in entries if one.sql == query]
    assert [one.statistics.cache for one in logged] == ["miss", "hit"]
    assert logged[0].tables == ("spans",)
