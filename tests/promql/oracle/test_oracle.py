"""The same OTLP sent to Neve and to Prometheus, and the same random queries: equal answers."""

from __future__ import annotations

import http.client
import json
import math
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import pytest

from neve.api.prometheus.routes import PREFIX, prometheus_routes
from neve.model.signals import Signal
from neve.query.config import QueryConfig
from neve.query.service import QueryService, no_limits
from neve.receive.authentication import OpenGuard
from tests.api.querying import serving
from tests.parts.process import HOST
from tests.promql.oracle.expressions import write_expressions
from tests.promql.oracle.telemetry import END_MS, GAP_MS, START_MS, merge, requests
from tests.query.lakes import ACME, make_lake, put

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.parts.prometheus import Prometheus

pytestmark = pytest.mark.parts

SEED = 7
TOLERANCE = 1e-6
FORM = {"content-type": "application/x-www-form-urlencoded"}


@dataclass(frozen=True)
class Server:
    """One of the two servers."""

    port: int
    prefix: str

    def ask(self, path: str, **parameters: Any) -> tuple[int, dict[str, Any]]:
        """Return status and document of a request."""
        connection = http.client.HTTPConnection(HOST, self.port, timeout=600)
        try:
            query = urlencode(parameters, doseq=True)
            connection.request("GET", f"{self.prefix}{path}?{query}")
            response = connection.getresponse()
            return response.status, json.loads(response.read())
        finally:
            connection.close()


@pytest.fixture(scope="module")
def servers(prometheus: Prometheus, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Server]]:
    """Neve and Prometheus, with the same metrics."""
    messages = list(requests(SEED))
    for one in messages:
        prometheus.send(one.SerializeToString())
    lake = make_lake(tmp_path_factory.mktemp("lake"))
    put(lake, ACME, Signal.METRICS, merge(messages), batch="-oracle")
    service = QueryService(lake, QueryConfig(), limits=no_limits)
    guard = OpenGuard(ACME)
    with serving(service, guard, first=prometheus_routes(service, guard)) as client:
        yield Server(client.port, PREFIX), Server(prometheus.port, "/api/v1")
    service.close()


def is_close(left: str, right: str) -> bool:
    """Return whether two numbers are equal within the tolerance."""
    first, second = float(left), float(right)
    if math.isnan(first) or math.isnan(second) or math.isinf(first) or math.isinf(second):
        return str(first) == str(second)
    return abs(first - second) <= TOLERANCE * max(1.0, abs(first), abs(second))


def simplify(document: dict[str, Any]) -> Any:
    """Return a result in a form whose order does not matter: values by series and time."""
    data = document["data"]
    if data["resultType"] in {"scalar", "string"}:
        return {(): {data["result"][0]: data["result"][1]}}
    found: dict[Any, dict[float, Any]] = {}
    for one in data["result"]:
        points = [*one.get("values", ()), *one.get("histograms", ())]
        points += [one[name] for name in ("value", "histogram") if name in one]
        found[tuple(sorted(one["metric"].items()))] = {float(at): value for at, value in points}
    return found


def differ(left: Any, right: Any) -> str:
    """Return the first difference of two values, or an empty text."""
    if isinstance(left, str) and isinstance(right, str):
        return "" if is_close(left, right) else f"{left} and {right}"
    if isinstance(left, dict) and isinstance(right, dict):
        if left.keys() != right.keys():
            return f"keys {sorted(map(str, left.keys() ^ right.keys()))[:4]}"
        return next((f"{key}: {found}" for key in left if (found := differ(left[key], right[key]))), "")
    if isinstance(left, list) and isinstance(right, list):
        if len(left) != len(right):
            return f"{left} and {right}"
        return next((found for one, two in zip(left, right, strict=True) if (found := differ(one, two))), "")
    return "" if left == right else f"{left!r} and {right!r}"


def compare(servers: tuple[Server, Server], path: str, **parameters: Any) -> str:
    """Return the first difference of two answers, or an empty text."""
    (our_status, ours), (their_status, theirs) = (server.ask(path, **parameters) for server in servers)
    if our_status != their_status or ours["status"] != theirs["status"]:
        return f"{our_status} {str(ours)[:300]} and {their_status} {str(theirs)[:300]}"
    if ours["status"] == "error":
        return "" if ours["errorType"] == theirs["errorType"] else f"{ours['error']} and {theirs['error']}"
    return differ(simplify(ours), simplify(theirs))


def test_expressions(servers: tuple[Server, Server], request: pytest.FixtureRequest) -> None:
    """Instant and range queries have the same series, times and values, or an error of the same type."""
    count = request.config.getoption("--promql-queries")
    chance = random.Random(SEED)
    differences, answered = [], 0
    for text in write_expressions(SEED, count):
        # Not at the beginning: Neve counts the first delta of a series as growth, Prometheus does not.
        first = START_MS + 4 * 60_000 if "jobs_total" in text else START_MS
        at = chance.randint(first, END_MS + GAP_MS) / 1000
        start = chance.randint(first, END_MS) // 1000
        range_ = {"start": start, "end": start + 600, "step": chance.choice((15, 60, 37))}
        for path, parameters in (("/query", {"time": at}), ("/query_range", range_)):
            if found := compare(servers, path, query=text, **parameters):
                differences.append(f"{path} {text} {parameters}: {found}")
        status, document = servers[0].ask("/query", query=text, time=at)
        answered += status == 200 and bool(document["data"]["result"])
    assert not differences, "\n".join(differences[:20])
    assert answered >= count // 2


def test_lists(servers: tuple[Server, Server]) -> None:
    """Label names, values and series are the same."""
    bounds = {"start": START_MS / 1000, "end": END_MS / 1000}
    match = {"match[]": ['{job="shop/cart"}', "size_bytes"]}
    for path in (
        "/labels",
        "/label/job/values",
        "/label/le/values",
        "/label/__name__/values",
        "/label/host_name/values",
    ):
        for parameters in (bounds, bounds | match):
            ours, theirs = (server.ask(path, **parameters)[1]["data"] for server in servers)
            assert ours == theirs, path
    ours, theirs = (server.ask("/series", **bounds, **match)[1]["data"] for server in servers)
    assert sorted(map(sorted, (one.items() for one in ours))) == sorted(map(sorted, (one.items() for one in theirs)))


@pytest.mark.parametrize("text", ["http_requests_total", 'rate(latency_seconds_bucket{le="0.1"}[5m])', "memory_bytes"])
def test_exemplars(servers: tuple[Server, Server], text: str) -> None:
    """Exemplars are the same: series, labels, values and times."""
    bounds = {"start": START_MS / 1000, "end": END_MS / 1000}
    ours, theirs = (server.ask("/query_exemplars", query=text, **bounds)[1]["data"] for server in servers)
    assert ours == theirs


def test_statistics(servers: tuple[Server, Server]) -> None:
    """The samples of each step are counted alike, also those of ranges, fixed times and subqueries."""
    bounds = {"start": START_MS / 1000 + 300, "end": END_MS / 1000, "step": 60}
    name = "http_requests_total"
    for query in (name, f"rate({name}[5m])", f"sum({name} offset 1m)", f"max_over_time(sum({name})[5m:1m])"):
        found = [server.ask("/query_range", query=query, stats="all", **bounds)[1]["data"] for server in servers]
        ours, theirs = (one["stats"]["samples"] for one in found)
        assert ours.keys() <= theirs.keys()
        assert ours["totalQueryableSamplesPerStep"] == theirs["totalQueryableSamplesPerStep"], query
        assert ours["totalQueryableSamples"] == theirs["totalQueryableSamples"], query
        assert found[0]["stats"]["timings"].keys() == found[1]["stats"]["timings"].keys()
