"""Loki's HTTP API: streams, metrics, lists, errors, tenancy."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import pytest

from neve.api.loki.errors import error_response
from neve.api.loki.routes import PREFIX, loki_routes
from neve.api.query.errors import to_failure
from neve.errors import LimitExceeded
from neve.query.config import QueryConfig
from neve.query.engine.worker_pool import WorkerPool
from neve.query.service import Ports, QueryService, no_limits
from neve.receive.authentication import OpenGuard
from tests.api.querying import Client, serving
from tests.logql.otlp_logs import COUNT, END, GAP, START, make_log_lake
from tests.query.lakes import ACME, OTHER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from neve.lake.lake import Lake
    from neve.query.request import QueryLogEntry

BOUNDS: dict[str, Any] = {"start": START, "end": END}
FORM = {"content-type": "application/x-www-form-urlencoded"}
ALL = '{service_name=~".+"}'


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory, iceberg: None) -> Lake:
    """The lake with lines."""
    return make_log_lake(tmp_path_factory.mktemp("lake"))


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
    with serving(service, guard, first=loki_routes(service, guard)) as found:
        yield found
    pool.close()


def get(client: Client, path: str, headers: dict[str, str] | None = None, **parameters: Any) -> tuple[int, Any]:
    """Return status and document of a GET, or the text of an error."""
    reply = client.send("GET", f"{PREFIX}{path}?{urlencode(parameters, doseq=True)}", headers=headers)
    text = reply.body.decode()
    return reply.status, json.loads(text) if reply.status == 200 else text


def test_health(client: Client) -> None:
    """Grafana's health check is an instant query of two constants; readiness and a version are served."""
    status, document = get(client, "/query", query="vector(1)+vector(1)", time=4_000_000_000)
    assert (status, document["data"]["result"]) == (200, [{"metric": {}, "value": [4_000_000_000, "2"]}])
    assert client.send("GET", "/ready").body == b"ready\n"
    assert get(client, "/status/buildinfo")[1]["version"].startswith("3.")


def test_lines(client: Client) -> None:
    """A range query of lines gives the newest ones of each label set, by GET and by POST."""
    query: dict[str, Any] = {"query": '{service_name="cart"} | json | status="500"', "limit": 2, **BOUNDS}
    _, document = get(client, "/query_range", **query)
    assert document["data"]["resultType"] == "streams"
    streams = document["data"]["result"]
    assert [one["stream"]["took"] for one in streams] == ["16ms", "12ms"]
    assert streams[0]["values"] == [[str(START + 16 * GAP + 1), '{"method":"GET","status":500,"took":"16ms"}']]
    assert streams[0]["stream"]["k8s_pod_name"] == "cart-1"
    assert streams[0]["stream"]["http_route"] == "/a"
    reply = client.send("POST", f"{PREFIX}/query_range", urlencode(query).encode(), FORM)
    assert json.loads(reply.body) == document


def test_direction_and_bounds(client: Client) -> None:
    """Lines come in the requested direction; the start is included and the end is not."""
    one = START + GAP + 1
    query: dict[str, Any] = {
        "query": '{service_name="pay"}',
        "direction": "forward",
        "start": one,
        "end": one + 2 * GAP,
    }
    _, document = get(client, "/query_range", **query)
    times = [value[0] for stream in document["data"]["result"] for value in stream["values"]]
    assert times == [str(one), str(one + GAP)]
    query["direction"] = "backward"
    _, document = get(client, "/query_range", **query)
    times = [value[0] for stream in document["data"]["result"] for value in stream["values"]]
    assert times == [str(one + GAP), str(one)]


def test_categories(client: Client) -> None:
    """With Grafana's flag each line has its metadata and parsed labels apart, and the flag comes before the result."""
    headers = {"X-Loki-Response-Encoding-Flags": "categorize-labels"}
    query: dict[str, Any] = {"query": '{service_name="pay"} | logfmt', "limit": 1, **BOUNDS}
    text = client.send("GET", f"{PREFIX}/query_range?{urlencode(query)}", headers=headers).body.decode()
    assert text.index("resultType") < text.index("encodingFlags") < text.index('"result"')
    [stream] = json.loads(text)["data"]["result"]
    assert stream["stream"] == {"service_name": "pay"}
    [[_, _, labels]] = stream["values"]
    assert labels["parsed"]["user"] == "u1"
    assert labels["structuredMetadata"]["detected_level"] == "info"


def test_metrics(client: Client) -> None:
    """Metric queries give vectors and matrices."""
    query = 'sum by (user) (sum_over_time({service_name="pay"} | logfmt | unwrap amount [10m]))'
    _, document = get(client, "/query", query=query, time=END)
    assert [(one["metric"], one["value"][1]) for one in document["data"]["result"]] == [
        ({"user": "u0"}, "90"),
        ({"user": "u1"}, "100"),
    ]
    query = 'sum(count_over_time({service_name=~"cart|pay"}[1m]))'
    _, document = get(client, "/query_range", query=query, step="1m", **BOUNDS)
    [series] = document["data"]["result"]
    assert [value for _, value in series["values"]] == ["13", "12", "12"]


def test_lists(client: Client) -> None:
    """Labels, values and series are those of the organization's streams."""
    assert get(client, "/labels", **BOUNDS)[1]["data"] == ["k8s_pod_name", "service_name"]
    assert get(client, "/label/service_name/values", **BOUNDS)[1]["data"] == ["cart", "pay"]
    chosen = get(client, "/label/service_name/values", query='{k8s_pod_name="cart-1"}', **BOUNDS)
    assert chosen[1]["data"] == ["cart"]
    assert get(client, "/series", **{"match[]": '{service_name="pay"}', **BOUNDS})[1]["data"] == [
        {"service_name": "pay"}
    ]
    assert get(client, "/labels", start=1, end=2)[1]["data"] == []


def test_sizes(client: Client) -> None:
    """Statistics and volumes count lines and bytes of streams."""
    stats = get(client, "/index/stats", query='{service_name="pay"}', **BOUNDS)[1]
    assert (stats["streams"], stats["entries"]) == (1, COUNT)
    _, document = get(client, "/index/volume", query=ALL, **BOUNDS)
    volumes = {one["metric"]["service_name"]: int(one["value"][1]) for one in document["data"]["result"]}
    assert volumes["pay"] == stats["bytes"]
    assert set(volumes) == {"cart", "pay"}
    _, document = get(client, "/index/volume_range", query='{service_name="pay"}', step=60, **BOUNDS)
    [series] = document["data"]["result"]
    assert sum(int(value) for _, value in series["values"]) == stats["bytes"]


def test_detection(client: Client) -> None:
    """Fields, labels and patterns are found in lines."""
    fields = {one["label"]: one for one in get(client, "/detected_fields", query=ALL, **BOUNDS)[1]["fields"]}
    assert (fields["status"]["type"], fields["status"]["parsers"]) == ("int", ["json"])
    assert (fields["took"]["type"], fields["user"]["parsers"]) == ("duration", ["logfmt"])
    values = get(client, "/detected_field/status/values", query=ALL, **BOUNDS)[1]["values"]
    assert values == ["200", "500"]
    labels = get(client, "/detected_labels", **BOUNDS)[1]["detectedLabels"]
    assert {"label": "service_name", "cardinality": 2} in labels
    patterns = get(client, "/patterns", query='{service_name="pay"}', step=60, **BOUNDS)[1]["data"]
    assert [one["pattern"] for one in patterns] == ["level=info msg=paid amount=<_> user=<_>"]
    assert sum(count for _, count in patterns[0]["samples"]) == COUNT


@pytest.mark.parametrize(
    ("path", "parameters", "message"),
    [
        ("/query", {"query": "sum("}, "parse error at line 1, col 5"),
        ("/query", {"query": ALL}, "log queries are not supported as an instant query type"),
        ("/query_range", {"query": "{}", **BOUNDS}, "at least one regexp or equality matcher"),
        ("/query_range", {"query": ALL, "limit": 5001, **BOUNDS}, "max entries limit per query exceeded"),
        ("/query_range", {"query": ALL, "start": END, "end": START}, "must not be before or equal to start"),
        ("/query_range", {"query": "vector(1)", "step": "1ms", **BOUNDS}, "exceeded maximum resolution"),
        ("/query_range", {"query": ALL, "start": "soon"}, "could not parse 'start'"),
        ("/query_range", {"query": ALL, "direction": "up", **BOUNDS}, "expected forward or backward"),
        ("/query", {"query": f"sum_over_time({ALL} | json | unwrap took [1h])", "time": END}, "SampleExtractionErr"),
        ("/series", BOUNDS, "expected match[]"),
        ("/tail", {"query": ALL}, "Upgrade: websocket"),
    ],
)
def test_errors(client: Client, path: str, parameters: dict[str, Any], message: str) -> None:
    """Errors are plain text with status 400, which Grafana shows."""
    status, text = get(client, path, **parameters)
    assert status == 400
    assert message in text


def test_limits() -> None:
    """A limit of time is 504, too many requests at once are 429, and other limits 400."""
    found = {
        limit: error_response(error, to_failure(error)).status_code
        for limit in ("seconds", "concurrency", "rows")
        for error in [LimitExceeded("too much", limit=limit)]
    }
    assert found == {"seconds": 504, "concurrency": 429, "rows": 400}


def test_tenancy(client: Client) -> None:
    """The key chooses the organization; a header does not."""
    headers = {"X-Scope-OrgID": OTHER}
    values = get(client, "/label/service_name/values", headers, **BOUNDS)[1]["data"]
    assert "vault" not in values
    assert get(client, "/query_range", headers, query='{service_name="vault"}', **BOUNDS)[1]["data"]["result"] == []


def test_log_and_cache(client: Client, entries: list[QueryLogEntry]) -> None:
    """A query is in the query log with its text, and an equal one comes from the cache."""
    query: dict[str, Any] = {"query": '{service_name="pay"} |= "amount=7"', **BOUNDS}
    for _ in range(2):
        assert get(client, "/query_range", **query)[0] == 200
    first, second = [one for one in entries if one.sql == query["query"]]
    assert (first.tables, first.statistics.cache, second.statistics.cache) == (("logs",), "miss", "hit")
