"""Prometheus' HTTP API: envelopes, parameters, errors, tenancy."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import pytest

from neve.api.prometheus.envelope import error_response
from neve.api.prometheus.routes import PREFIX, prometheus_routes
from neve.api.query.errors import to_failure
from neve.api.query.program_response import Turns
from neve.errors import EvaluationFailed, LimitExceeded
from neve.promql.http.documents import format_value
from neve.query.config import QueryConfig
from neve.query.engine.worker_pool import WorkerPool
from neve.query.limits import Limits
from neve.query.service import Ports, QueryService, no_limits
from neve.receive.authentication import OpenGuard
from tests.api.querying import Client, serving
from tests.promql.storage.otlp_metrics import COUNT, GAP_MS, START_MS, make_metric_lake
from tests.query.lakes import ACME, OTHER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from neve.lake.lake import Lake
    from neve.query.request import QueryLogEntry

END = (START_MS + (COUNT - 1) * GAP_MS) // 1000
FORM = {"content-type": "application/x-www-form-urlencoded"}


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory, iceberg: None) -> Lake:
    """The lake with metrics of all types."""
    return make_metric_lake(tmp_path_factory.mktemp("lake"))


@pytest.fixture(scope="module")
def pool(lake: Lake) -> Iterator[WorkerPool]:
    """Workers, one of them warm."""
    made = WorkerPool(lake, QueryConfig(threads=1, memory_limit="500MB", warm_workers=1))
    yield made
    made.close()


@pytest.fixture(scope="module")
def service(lake: Lake, pool: WorkerPool) -> QueryService:
    """The service over the lake, without limits."""
    return QueryService(lake, QueryConfig(cache_bytes=0), limits=no_limits, ports=Ports(engine=pool))


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
        ("/query_range", {"query": "1", "start": 0, "end": 1, "step": "1e20"}, 400, "bad_data", "is longer than"),
        ("/query", {"query": "1", "lookback_delta": "1e300"}, 400, "bad_data", "is longer than 86,400 seconds"),
        ("/query", {"query": "1", "timeout": "-1"}, 400, "bad_data", "zero or negative durations"),
        ("/query", {"query": "memory_bytes @ 1e16"}, 400, "bad_data", "out of bounds for @"),
        ("/query", {"query": "memory_bytes", "timeout": "1ns"}, 400, "bad_data", "cannot parse"),
        ("/labels", {"match[]": ["x"] * 21}, 400, "bad_data", "21 selectors, at most 20"),
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


def test_path_parameter(client: Client) -> None:
    """A parameter of the address does not replace the name in the path."""
    bounds = {"start": END - 1200, "end": END, "name": "job", "label_name": "job"}
    assert get(client, "/label/path/values", **bounds)[1]["data"] == ["a", "b"]


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_many_fields(client: Client, method: str) -> None:
    """More than 1,000 fields are a bad request, in the address and in a form."""
    fields = "&".join(["a=1"] * 1001)
    path = f"{PREFIX}/query" + (f"?{fields}" if method == "GET" else "")
    reply = client.send(method, path, None if method == "GET" else fields.encode(), FORM)
    assert reply.status == 400
    assert b"more than 1,000 fields" in reply.body


def test_hidden_locations() -> None:
    """Messages have no locations of the lake, as in the SQL API."""
    error = EvaluationFailed("can't read s3://bucket/warehouse/x.parquet")
    response = error_response(error, to_failure(error))
    assert json.loads(bytes(response.body))["error"] == "can't read …"


def test_timeout(lake: Lake) -> None:
    """The limit of the key ends an evaluation, and a longer `timeout` does not raise it."""
    late = QueryService(lake, QueryConfig(), limits=lambda *_: Limits(seconds=1e-9))
    guard = OpenGuard(ACME)
    with serving(late, guard, first=prometheus_routes(late, guard)) as client:
        for path in ("/query", "/series"):
            parameters = {"query": "memory_bytes", "match[]": "memory_bytes", "timeout": "1h"}
            status, document = get(client, path, **parameters)
            assert (status, document["errorType"]) == (503, "timeout")
    late.close()


def test_turns() -> None:
    """Some requests of a key run at a time. More wait, and are rejected when too many do. Other keys do not wait."""

    async def run(turns: Turns, key: str, started: asyncio.Semaphore, release: asyncio.Event) -> str:
        try:
            async with turns.take(ACME, key, 2):
                started.release()
                await release.wait()
        except LimitExceeded as error:
            return error.limit
        return "done"

    async def main() -> list[str]:
        turns, started, release = Turns(waiting=1), asyncio.Semaphore(0), asyncio.Event()
        running = [asyncio.create_task(run(turns, "a", started, release)) for _ in range(3)]
        for _ in range(2):
            await started.acquire()
        await asyncio.sleep(0)  # the third one waits now
        rejected = await run(turns, "a", started, release)
        other = asyncio.create_task(run(turns, "b", started, release))
        await started.acquire()
        release.set()
        return [rejected, await other, *(await asyncio.gather(*running))]

    assert asyncio.run(main()) == ["concurrency", "done", "done", "done", "done"]


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


def test_served_by_default() -> None:
    """Workers limit each expression, so servers with keys have the paths too."""
    assert QueryConfig(auth="keys").promql
    assert QueryConfig().promql


def test_dashboard(client: Client) -> None:
    """A dashboard sends the queries of all panels at once: those that get no worker wait."""
    with ThreadPoolExecutor(20) as threads:
        texts = [f"sum(memory_bytes) + {panel}" for panel in range(20)]
        found = list(threads.map(lambda text: get(client, "/query", query=text, time=END), texts))
    assert [status for status, _ in found] == [200] * 20
    assert [one["data"]["result"][0]["value"][1] for _, one in found] == [str(20 + panel) for panel in range(20)]


def test_long_response(client: Client) -> None:
    """A response of several pieces is one JSON document."""
    texts = " or ".join(f'label_replace(vector(1), "i", "{number}", "", "")' for number in range(30))
    status, document = get(client, "/query_range", query=texts, start=0, end=5000, step=1)
    assert status == 200
    assert len(document["data"]["result"]) == 30
    assert {len(one["values"]) for one in document["data"]["result"]} == {5001}


def test_in_this_process(lake: Lake) -> None:
    """A service without workers has the same answers."""
    local = QueryService(lake, QueryConfig(cache_bytes=0), limits=no_limits)
    with serving(local, OpenGuard(ACME), first=prometheus_routes(local, OpenGuard(ACME))) as client:
        status, document = get(client, "/query", query="sum(memory_bytes)", time=END)
        assert (status, document["data"]["result"]) == (200, [{"metric": {}, "value": [END, "20"]}])
    local.close()


def test_cache_and_log(lake: Lake, pool: WorkerPool) -> None:
    """A request is one entry of the query log, with the files of all its statements, and is cached by snapshot."""
    entries: list[QueryLogEntry] = []
    service = QueryService(lake, QueryConfig(), ports=Ports(engine=pool), log=entries.append)
    guard = OpenGuard(ACME)
    with serving(service, guard, first=prometheus_routes(service, guard)) as client:
        asked = {"query": "sum(memory_bytes)", "time": END - 9}  # of which no worker has samples
        first, second = (get(client, "/query", **asked) for _ in range(2))
        get(client, "/label/path/values", **{"match[]": "memory_bytes"})
    assert first == second
    assert [one.sql for one in entries] == ["sum(memory_bytes)"] * 2 + ["label values path memory_bytes"]
    assert [one.statistics.cache for one in entries] == ["miss", "hit", "off"]
    assert [one.state for one in entries] == ["done"] * 3
    listed = ["metric_series", "metrics"] * 2  # unless the worker has the series of that hour
    assert [scan.table for scan in entries[0].statistics.scans] in ([*listed, "metrics"], ["metrics"])
    assert entries[0].tables == ("metrics", "metric_series")
    assert entries[0].statistics.bytes > 0


@pytest.mark.parametrize(
    ("limits", "name"),
    [
        (Limits(scan_bytes=1), "scan_bytes"),
        (Limits(daily_bytes=1), "daily_bytes"),
        (Limits(rows=1), "rows"),
    ],
)
def test_limits_of_the_key(lake: Lake, pool: WorkerPool, limits: Limits, name: str) -> None:
    """The limits of SQL bound the statements of an expression too."""
    entries: list[QueryLogEntry] = []
    service = QueryService(lake, QueryConfig(), limits=lambda *_: limits, ports=Ports(engine=pool), log=entries.append)
    guard = OpenGuard(ACME)
    with serving(service, guard, first=prometheus_routes(service, guard)) as client:
        # Workers have samples of other tests at other times, which cost nothing.
        status, document = get(client, "/query", query="http_requests_total", time=END - 7)
    assert (status, document["errorType"]) == (422, "execution")
    assert [(one.state, one.limit) for one in entries] == [("failed", name)]


def test_many_statements(client: Client) -> None:
    """Each time range is a statement that the server plans, so their number is limited."""
    parts = [[f"sum(memory_bytes offset {first + second}d)" for second in range(20)] for first in range(0, 220, 20)]
    text = " + ".join(f"({' + '.join(part)})" for part in parts)
    status, document = get(client, "/query", query=text, time=END)
    assert (status, document["errorType"]) == (422, "execution")
    assert "more than 200 SQL statements" in document["error"]
