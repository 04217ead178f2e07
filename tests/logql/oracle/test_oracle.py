"""The same OTLP sent to Neve and to Loki, and the same random queries: equal answers."""

from __future__ import annotations

import json
import math
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import pytest

from neve.api.loki.routes import loki_routes
from neve.model.signals import Signal
from neve.query.config import QueryConfig
from neve.query.service import QueryService, no_limits
from neve.receive.authentication import OpenGuard
from tests.api.querying import serving
from tests.logql.oracle.expressions import write_queries
from tests.logql.oracle.telemetry import END, SECOND, START, make_request
from tests.parts.loki import request as send
from tests.query.lakes import ACME, make_lake, put

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.parts.loki import Loki

pytestmark = pytest.mark.parts

SEED = 11
TOLERANCE = 1e-9
ERROR_WORDS = "__error_details__"  # of the JSON library
BOUNDS = {"start": START, "end": END}


@dataclass(frozen=True)
class Server:
    """One of the two servers."""

    port: int

    def ask(self, path: str, **parameters: Any) -> tuple[int, Any]:
        """Return status and document of a request, or the text of an error."""
        status, body = send(self.port, "GET", f"/loki/api/v1{path}?{urlencode(parameters, doseq=True)}")
        return status, json.loads(body) if status == 200 else body.decode()


@pytest.fixture(scope="module")
def servers(loki: Loki, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Server]]:
    """Neve and Loki, with the same lines."""
    message = make_request(SEED)
    loki.send(message.SerializeToString())
    lake = make_lake(tmp_path_factory.mktemp("lake"))
    put(lake, ACME, Signal.LOGS, message, batch="-oracle")
    service = QueryService(lake, QueryConfig(), limits=no_limits)
    guard = OpenGuard(ACME)
    with serving(service, guard, first=loki_routes(service, guard)) as client:
        yield Server(client.port), Server(loki.port)
    service.close()


def simplify(document: dict[str, Any]) -> dict[Any, Any]:
    """Return a result in a form whose order does not matter: lines or values by labels and time."""
    data = document["data"]
    if data["resultType"] == "scalar":
        return {(): {data["result"][0]: data["result"][1]}}
    found: dict[Any, dict[Any, Any]] = {}
    for one in data["result"]:
        labels = {name: text for name, text in one.get("stream", one.get("metric")).items() if name != ERROR_WORDS}
        points = [*one.get("values", ()), *([one["value"]] if "value" in one else ())]
        found.setdefault(tuple(sorted(labels.items())), {}).update({str(at): value for at, value, *_ in points})
    return found


def is_close(left: str, right: str) -> bool:
    """Return whether two values of a metric query are equal but for rounding."""
    first, second = float(left), float(right)
    if not (math.isfinite(first) and math.isfinite(second)):
        return str(first) == str(second)
    return abs(first - second) <= TOLERANCE * max(1.0, abs(first), abs(second))


def differ(ours: dict[Any, Any], theirs: dict[Any, Any], *, is_metric: bool) -> str:
    """Return the first difference of two results, or an empty text."""
    if ours.keys() != theirs.keys():
        only = [sorted(map(str, one.keys() - other.keys()))[:2] for one, other in ((ours, theirs), (theirs, ours))]
        return f"labels: ours {only[0]}, theirs {only[1]} ({len(ours)} and {len(theirs)})"
    for labels, points in ours.items():
        others = theirs[labels]
        if points.keys() != others.keys():
            return f"times of {labels}: {sorted(points.keys() ^ others.keys())[:4]}"
        for at, value in points.items():
            if not (is_close(value, others[at]) if is_metric else value == others[at]):
                return f"{labels} at {at}: {value!r} and {others[at]!r}"
    return ""


def compare(servers: tuple[Server, Server], path: str, *, is_metric: bool, **parameters: Any) -> tuple[str, bool]:
    """Return the first difference of two answers, or an empty text, and whether there was a result."""
    (our_status, ours), (their_status, theirs) = (server.ask(path, **parameters) for server in servers)
    if our_status != their_status:
        return f"{our_status} {str(ours)[:300]} and {their_status} {str(theirs)[:300]}", False
    if our_status != 200:
        return "", False
    return differ(simplify(ours), simplify(theirs), is_metric=is_metric), bool(theirs["data"]["result"])


def test_queries(servers: tuple[Server, Server], request: pytest.FixtureRequest) -> None:
    """Lines, labels and values are the same at every time, or both refuse the query."""
    count = request.config.getoption("--logql-queries")
    chance = random.Random(SEED)
    differences, answered = [], 0
    for text, is_metric in write_queries(SEED, count):
        start = START + chance.randrange(600) * SECOND
        bounds = {"start": start, "end": start + chance.randrange(60, 900) * SECOND}
        asked: list[tuple[str, dict[str, Any]]] = [("/query_range", bounds | {"limit": 5000, "step": 60})]
        if is_metric:
            asked.append(("/query", {"time": START + chance.randrange(1200) * SECOND}))
        for path, parameters in asked:
            found, has_result = compare(servers, path, is_metric=is_metric, query=text, **parameters)
            answered += has_result
            if found:
                differences.append(f"{path} {text} {parameters}: {found}")
    assert not differences, f"{len(differences)} differences\n" + "\n".join(differences[:25])
    assert answered >= count // 2


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_limits_and_directions(servers: tuple[Server, Server], direction: str) -> None:
    """The first or the last lines of a stream are the same ones in the same order."""
    query = '{service_name="cart", k8s_pod_name="cart-1"} |= "GET"'
    given = {"query": query, "limit": 7, "direction": direction, **BOUNDS}
    ours, theirs = ([one["values"] for one in server.ask("/query_range", **given)[1]["data"]["result"]]
                    for server in servers)  # fmt: skip
    flat = [sorted((value for stream in side for value in stream), reverse=direction == "backward")
            for side in (ours, theirs)]  # fmt: skip
    assert flat[0] == flat[1]
    assert len(flat[0]) == 7


def test_lists(servers: tuple[Server, Server]) -> None:
    """Label names, values and series are the same."""
    for path in ("/labels", "/label/service_name/values", "/label/k8s_pod_name/values"):
        for more in ({}, {"query": '{service_name="cart"}'}):
            ours, theirs = (sorted(server.ask(path, **BOUNDS, **more)[1].get("data") or []) for server in servers)
            assert ours == theirs, (path, more)
    given = {"match[]": ['{service_name=~".+"}'], **BOUNDS}
    ours, theirs = (server.ask("/series", **given)[1]["data"] for server in servers)
    assert sorted(map(sorted, (one.items() for one in ours))) == sorted(map(sorted, (one.items() for one in theirs)))


def test_volume(servers: tuple[Server, Server]) -> None:
    """The same labels have a volume."""
    given = {"query": '{service_name=~".+"}', **BOUNDS}
    ours, theirs = (server.ask("/index/volume", **given)[1]["data"]["result"] for server in servers)
    assert sorted(str(one["metric"]) for one in ours) == sorted(str(one["metric"]) for one in theirs)
