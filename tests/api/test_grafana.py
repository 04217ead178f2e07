"""The backends of Grafana's Tempo and Jaeger data sources, unchanged, as clients of Neve."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from neve.api.jaeger.routes import PREFIX as JAEGER
from neve.api.jaeger.routes import jaeger_routes
from neve.api.tempo.routes import tempo_routes
from neve.query.config import QueryConfig
from neve.query.service import QueryService, no_limits
from neve.receive.authentication import OpenGuard
from neve.traces.config import TracesConfig
from neve.traces.job import TraceAssembler
from tests.api.querying import serving
from tests.api.test_tempo import make_span_lake
from tests.compact.tables import documents_in
from tests.parts import grafana
from tests.parts.process import HOST
from tests.query.lakes import ACME
from tests.traceql.plain_traces import BASE, trace_id

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.parts

MOMENT = datetime.fromtimestamp(BASE / 1e9, UTC)
RANGE = {
    "from": (MOMENT - timedelta(minutes=1)).isoformat(),
    "to": (MOMENT + timedelta(minutes=1)).isoformat(),
}
FIRST = trace_id(1).hex()


@pytest.fixture(scope="module")
def patch() -> Iterator[pytest.MonkeyPatch]:
    """Changes for all tests."""
    with pytest.MonkeyPatch.context() as found:
        yield found


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory, patch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a server for acme at the time of its spans."""
    if reason := grafana.missing():
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("lake")
    lake = make_span_lake(folder)
    TraceAssembler(lake, TracesConfig(threads=1), documents_in(folder)).run()
    service = QueryService(lake, QueryConfig(), limits=no_limits)
    guard = OpenGuard(ACME)
    for module in ("jaeger", "tempo"):
        patch.setattr(f"neve.api.{module}.routes.now_utc", lambda: MOMENT + timedelta(minutes=1))
    with serving(service, guard, first=[*tempo_routes(service, guard), *jaeger_routes(service, guard)]) as client:
        yield f"http://{HOST}:{client.port}"
    service.close()


def ask_tempo(address: str, **request: Any) -> Any:
    """Send a request through the Tempo data source."""
    return grafana.ask("tempo", f"{address}/tempo", **RANGE, **request)


def ask_jaeger(address: str, **request: Any) -> Any:
    """Send a request through the Jaeger data source."""
    return grafana.ask("jaeger", f"{address}{JAEGER.removesuffix('/api')}", **RANGE, **request)


def read_frames(answer: Any) -> list[dict[str, list[Any]]]:
    """Return the columns of each frame of the only query, by their names."""
    [result] = answer["results"].values()
    assert result["status"] == 200, result
    return [
        {field["name"]: values for field, values in zip(one["schema"]["fields"], one["data"]["values"], strict=True)}
        for one in result["frames"]
    ]


@pytest.mark.parametrize("ask", [ask_tempo, ask_jaeger])
def test_health(address: str, ask: Any) -> None:
    """The health checks of the data sources pass."""
    assert ask(address, health=True)["Status"] == 1


def test_trace(address: str) -> None:
    """A trace by its id, which comes as protobuf, has all spans with their parents and attributes."""
    [frame] = read_frames(ask_tempo(address, queries=[{"queryType": "traceId", "query": FIRST}]))
    assert sorted(frame["operationName"]) == ["POST /checkout", "charge", "query"]
    assert set(frame["traceID"]) == {FIRST}
    assert sorted(filter(None, frame["parentSpanID"])) == sorted(f"{number:016x}" for number in (1, 2))
    assert set(frame["serviceName"]) == {"web", "pay"}


def test_search(address: str) -> None:
    """A TraceQL search gives the traces of the table of Grafana."""
    query = {"queryType": "traceql", "query": "{ status = error }", "tableType": "traces", "limit": 20}
    frame = read_frames(ask_tempo(address, queries=[query]))[0]
    assert [one.zfill(32) for one in frame["traceID"]] == [FIRST]
    assert frame["traceService"] == ["web"]


def test_metrics(address: str) -> None:
    """TraceQL metrics give series, at steps and at one time."""
    query = {"queryType": "traceql", "query": "{ } | count_over_time() by (resource.service.name)", "step": "60s"}
    frames = read_frames(ask_tempo(address, queries=[query]))
    series = [frame for frame in frames if len(frame) == 2]  # the others have exemplars
    assert sum(value or 0 for frame in series for value in [*frame.values()][1]) == 4
    assert len(frames) > len(series)
    instant = read_frames(ask_tempo(address, queries=[{**query, "metricsQueryType": "instant"}]))
    assert instant


def test_tags(address: str) -> None:
    """Names and values of attributes are listed."""
    tags = ask_tempo(address, resource="tags")
    assert tags["status"] == 200
    assert "http.status_code" in str(tags["body"])


def test_jaeger(address: str) -> None:
    """Services, operations, a search, a trace and dependencies are read."""
    assert ask_jaeger(address, resource="services")["body"] == ["pay", "web"]
    assert ask_jaeger(address, resource="services/web/operations")["body"] == ["GET /", "POST /checkout"]
    search = {"queryType": "search", "service": "web", "operation": "POST /checkout", "limit": 10}
    assert read_frames(ask_jaeger(address, queries=[search]))[0]["traceID"] == [FIRST]
    [frame] = read_frames(ask_jaeger(address, queries=[{"query": FIRST}]))
    assert sorted(frame["operationName"]) == ["POST /checkout", "charge", "query"]
    nodes, edges = read_frames(ask_jaeger(address, queries=[{"queryType": "dependencyGraph"}]))
    assert {"web", "pay"} <= set(nodes["id"])
    assert "web" in edges["source"]
