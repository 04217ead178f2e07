"""Prometheus' HTTP API: envelopes, parameters, errors, tenancy."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import pytest

from neve.api.api_server import serves_promql
from neve.api.prometheus.envelope import format_value
from neve.api.prometheus.routes import PREFIX, prometheus_routes
from neve.query.config import QueryConfig
from neve.query.service import QueryService, no_limits
from neve.receive.authentication import OpenGuard
from tests.api.querying import Client, serving
from tests.promql.storage.otlp_metrics import COUNT, GAP_MS, START_MS, make_metric_lake
from tests.query.lakes import ACME, OTHER

if TYPE_CHECKING:
    from collections.abc import Iterator

END = (START_MS + (COUNT - 1) * GAP_MS) // 1000
FORM = {"content-type": "application/x-www-form-urlencoded"}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QueryService]:
    """The service over a lake with metrics of all types."""
    made = QueryService(make_metric_lake(tmp_path_factory.mktemp("lake")), QueryConfig(cache_bytes=0), limits=no_limits)
    yield made
    made.close()


@pytest.fixture(scope="module")
def client(service: QueryService) -> Iterator[Client]:
    """A client of acme."""
    guard = OpenGuard(ACME)
    with serving(service, guard, first=prometheus_routes(service, guard)) as found:
        yield found


def get(client: Client, path: str, **parameters: Any) -> tuple[int, Any]:
    """Return status and document of a GET."""
    reply = client.send("GET", f"{PREFIX}{path}?{urlencode(parameters, doseq=True)}")
    return reply.status, json.loads(reply.body)


def test_health(client: Client) -> None:
    """Grafana's health check: arithmetic in 1970, then a version."""
    status, document = get(client, "/query", query="1+1", time=4)
    assert (status, document) == (200, {"status": "success", "data": {"resultType": "scalar", "result": [4, "2"]}})
    status, document = get(client, "/status/buildinfo")
    assert document["data"]["version"].startswith("3.")
    assert "features" not in document["data"]


def test_instant(client: Client) -> None:
    """An instant vector has a metric and a value, by GET and by POST."""
    expected = {"resultType": "vector", "result": [{"metric": {"path": "a"}, "value": [END, "1200"]}]}
    query = 'sum by (path) (http_requests_total{path="a"})'
    assert get(client, "/query", query=query, time=END)[1]["data"] == expected
    body = urlencode({"query": query, "time": END}).encode()
    reply = client.send("POST", f"{PREFIX}/query", body, FORM)
    assert json.loads(reply.body)["data"] == expected


def test_range(client: Client) -> None:
    """A range query has values at each step, both ends included."""
    status, document = get(client, "/query_range", query="sum(memory_bytes)", start=END - 120, end=END, step="1m")
    assert status == 200
    [series] = document["data"]["result"]
    assert series["values"] == [[END - 120, "18"], [END - 60, "19"], [END, "20"]]


def test_native_histogram(client: Client) -> None:
    """A native histogram has count, sum and buckets."""
    _, document = get(client, "/query", query="size_bytes", time=END)
    [series] = document["data"]["result"]
    assert series["histogram"] == [END, {"count": "80", "sum": "120", "buckets": [[0, "1", "2", "80"]]}]


def test_infos(client: Client) -> None:
    """Annotations are part of the envelope."""
    _, document = get(client, "/query", query="rate(memory_bytes[5m])", time=END)
    assert document["infos"][0].startswith("PromQL info: metric might not be a counter")


@pytest.mark.parametrize(
    ("path", "parameters", "status", "kind", "message"),
    [
        ("/query", {"query": "sum("}, 400, "bad_data", "1:5: parse error: unclosed left parenthesis"),
        ("/query", {"query": "1", "time": "soon"}, 400, "bad_data", 'cannot parse "soon" to a valid timestamp'),
        ("/query_range", {"query": "1", "start": 0, "end": 1, "step": 0}, 400, "bad_data", "zero or negative"),
        ("/query_range", {"query": "1", "start": 0, "end": 99999, "step": 1}, 400, "bad_data", "11,000 points"),
        ("/query_range", {"query": "1", "start": 2, "end": 1, "step": 1}, 400, "bad_data", "must not be before"),
        ("/query", {"query": "memory_bytes * on (x) http_requests_total"}, 422, "execution", "duplicate series"),
        ("/query", {"query": "sum_over_time(vector(1)[200y:1ms])"}, 422, "execution", "too many samples"),
        ("/series", {}, 400, "bad_data", "no match[] parameter"),
        ("/series", {"match[]": "1"}, 400, "bad_data", "expected a series selector"),
    ],
)
def test_errors(client: Client, path: str, parameters: dict[str, Any], status: int, kind: str, message: str) -> None:
    """Errors have Prometheus' envelope, type and status."""
    got, document = get(client, path, **{"time": END, **parameters})
    assert (got, document["status"], document["errorType"]) == (status, "error", kind)
    assert message in document["error"]


def test_lists(client: Client) -> None:
    """Labels, values and series are filtered by `match[]` and time."""
    bounds = {"start": END - 1200, "end": END}
    match = {"match[]": 'http_requests_total{path="a"}', **bounds}
    assert get(client, "/label/path/values", **bounds)[1]["data"] == ["a", "b"]
    assert get(client, "/label/path/values", **match)[1]["data"] == ["a"]
    names = get(client, "/label/__name__/values", **bounds)[1]["data"]
    assert "memory_bytes" in names
    assert "secret" not in names
    assert "path" in get(client, "/labels", **match)[1]["data"]
    [series] = get(client, "/series", **match)[1]["data"]
    assert series["__name__"] == "http_requests_total"
    assert get(client, "/label/path/values", start=0, end=1)[1]["data"] == []


def test_limit(client: Client) -> None:
    """A limit cuts the result and says so."""
    _, document = get(client, "/query", query="http_requests_total", time=END, limit=1)
    assert len(document["data"]["result"]) == 1
    assert document["warnings"] == ["results truncated due to limit"]
    _, document = get(client, "/series", **{"match[]": "http_requests_total", "start": END - 1200, "end": END}, limit=1)
    assert len(document["data"]) == 1
    assert document["warnings"] == ["results truncated due to limit"]


def test_tenancy(service: QueryService, client: Client) -> None:
    """The key's organization decides, and a header does not widen it."""
    headers = {"X-Scope-OrgID": OTHER}
    reply = client.send("GET", f"{PREFIX}/query?{urlencode({'query': 'secret', 'time': END})}", headers=headers)
    assert json.loads(reply.body)["data"]["result"] == []
    guard = OpenGuard(OTHER)
    with serving(service, guard, first=prometheus_routes(service, guard)) as other:
        _, document = get(other, "/query", query="secret", time=END)
        assert [one["value"][1] for one in document["data"]["result"]] == ["1"]


def test_exemplar_probe_time(client: Client) -> None:
    """A time in milliseconds instead of seconds, as Grafana sends once, is the year 58000 and empty."""
    _, document = get(client, "/query", query="memory_bytes", time=END * 1000)
    assert document["data"]["result"] == []


@pytest.mark.parametrize(
    ("value", "text"),
    [(1e21, "1e+21"), (1e20, "100000000000000000000"), (1e-6, "0.000001"), (1.5e-7, "1.5e-7"), (-0.25, "-0.25")],
)
def test_numbers(value: float, text: str) -> None:
    """Numbers are plain decimals, with an exponent for very small and very large ones."""
    assert format_value(value) == text
    assert float(text) == value


@pytest.mark.parametrize(
    ("auth", "promql", "served"),
    [("open", None, True), ("keys", None, False), ("keys", True, True), ("open", False, False)],
)
def test_served_by_default_only_without_keys(auth: str, promql: bool | None, served: bool) -> None:
    """Nothing limits the CPU time of an expression, so strangers may evaluate none unless the operator allows it."""
    assert serves_promql(QueryConfig.model_validate({"auth": auth, "promql": promql})) is served
