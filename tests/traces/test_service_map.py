"""The service map as others read it: over REST, through PromQL, and as a command."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import pytest

from neve.app.query.promql import open_series
from neve.app.query.service_map import read_service_map
from neve.cli.terminal.service_graph import draw_dot, draw_svg, draw_text
from neve.explore import stored_edges
from neve.model.signals import Signal
from neve.promql.engine import Engine
from neve.query.config import QueryConfig
from neve.query.service import QueryService, no_limits
from neve.traces.config import TracesConfig
from neve.traces.job import TraceAssembler
from tests.cli.runner import run
from tests.compact.tables import documents_in
from tests.explore.traces import CLIENT, ERROR, SERVER, make_span, make_trace_lake, pack_spans
from tests.query.lakes import ACME, NOW, OTHER, fork_lake, put

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from neve.lake.lake import Lake

MINUTE_MS = 60_000
START = datetime.fromtimestamp(NOW // 10**9 // 60 * 60, UTC)


def make_calls(minutes: int = 10) -> dict[str, list[Any]]:
    """Return one call a minute of a cart by a shop, of which every fourth fails, and which take 10 to 90 ms."""
    shop, cart = [], []
    for minute in range(minutes):
        trace = (minute + 1).to_bytes(16, "big")
        begin = minute * MINUTE_MS
        status = ERROR if minute % 4 == 0 else 0
        shop.append(make_span(1, 0, trace, kind=CLIENT, start=begin, stop=begin + 100))
        cart.append(
            make_span(2, 1, trace, kind=SERVER, start=begin + 1, stop=begin + 1 + 10 * (minute + 1), status=status)
        )
    return {"shop": shop, "cart": cart}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, iceberg: None) -> Lake:
    """Calls of acme, and one trace of globex, all of them in the tables."""
    folder = tmp_path_factory.mktemp("lake")
    lake = make_trace_lake(folder)
    put(lake, ACME, Signal.TRACES, pack_spans(make_calls()), batch="calls")
    TraceAssembler(lake, TracesConfig(threads=1), documents_in(folder)).run()
    return lake


def open_service(lake: Lake) -> Iterator[QueryService]:
    """Yield a query service."""
    service = QueryService(lake, QueryConfig(), limits=no_limits)
    yield service
    service.close()


@pytest.fixture(scope="module")
def service(made: Lake) -> Iterator[QueryService]:
    """The service over the lake."""
    yield from open_service(made)


def read_map(service: QueryService, minutes: int = 11, organization: str = ACME) -> dict[str, Any]:
    """Return the map of the first minutes."""
    return read_service_map(service, organization, START, START + timedelta(minutes=minutes))


def counts(found: dict[str, Any]) -> dict[tuple[str, str, str], tuple[int, ...]]:
    """Return the counts of each edge."""
    names = ("calls", "errors", "estimated_calls", "estimated_errors")
    return {
        (one["client"], one["server"], one["connection"]): tuple(one[name] for name in names) for one in found["edges"]
    }


def read_directly(service: QueryService, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return the map from all spans."""
    with monkeypatch.context() as patch:
        patch.setattr("neve.app.query.service_map.has_service_edges", lambda _service: False)
        found = read_map(service)
    assert found["source"] == "spans"
    return found


def test_table_and_spans_agree(service: QueryService, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table gives the edges that all spans give, with quantiles within its error."""
    stored, direct = read_map(service), read_directly(service, monkeypatch)
    assert stored["source"] == "service_edges"
    assert counts(stored) == counts(direct)
    assert counts(stored)["shop", "cart", ""] == (10, 3, 10, 3)
    quantile = next(one["p95_ms"] for one in stored["edges"] if one["server"] == "cart")
    assert quantile == pytest.approx(100, rel=0.02)
    assert set(counts(read_map(service, organization=OTHER))) == {("user", "vault", "virtual_node")}


def test_part_of_the_range(service: QueryService) -> None:
    """Only the calls of the minutes of the range count."""
    assert counts(read_map(service, minutes=4))["shop", "cart", ""] == (4, 1, 4, 1)


def test_new_files_are_read(made: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spans that the table has not seen count, also where they complete a trace that it has counted."""
    lake = fork_lake(made, tmp_path)
    late = {
        "fraud-check": [make_span(8, 6, kind=SERVER, start=63, stop=64)],
        "cart": [make_span(3, 99, b"n" * 16, kind=2)],
    }
    put(lake, ACME, Signal.TRACES, pack_spans(late), batch="late")
    for service in open_service(lake):
        stored, direct = read_map(service), read_directly(service, monkeypatch)
        assert (stored["source"], counts(stored)) == ("service_edges", counts(direct))
        assert ("payment", "fraud-check", "") in counts(stored)
        assert not any(server == "fraud" for _, server, _ in counts(stored))
        monkeypatch.setattr(stored_edges, "MAX_NEW_TRACES", 1)
        assert read_map(service)["source"] == "spans"


def ask(service: QueryService, query: str, minute: int = 10, organization: str = ACME) -> dict[str, float]:
    """Return the values of a query at the end of a minute, by server."""
    end = int(START.timestamp() * 1000) + minute * MINUTE_MS
    found = Engine(open_series(service, organization)).query(query, end)
    return {dict(one.labels).get("server", ""): one.floats[0][1] for one in found.series}


def test_promql(service: QueryService) -> None:
    """Tempo's names have the rates of calls, of failed calls and of latency."""
    total = "traces_service_graph_request_total"
    edge = 'client="shop",server="cart",connection_type=""'
    assert ask(service, f"increase({total}{{{edge}}}[5m])")["cart"] == pytest.approx(5)
    assert ask(service, f'rate({total}{{client="shop"}}[5m]) * 60')["cart"] == pytest.approx(1)
    failed = ask(service, f"increase(traces_service_graph_request_failed_total{{{edge}}}[8m])")
    assert failed["cart"] == pytest.approx(2 * 8 / 7)  # two in the seven minutes between samples
    seconds = "traces_service_graph_request_server_seconds"
    mean = f"sum by (server) (rate({seconds}_sum[8m])) / sum by (server) (rate({seconds}_count[8m]))"
    assert ask(service, mean)["cart"] == pytest.approx(sum(range(40, 101, 10)) / 7000)  # of these minutes
    quantile = f"histogram_quantile(0.9, sum by (le, server) (rate({seconds}_bucket[8m])))"
    assert 0.0625 < ask(service, quantile)["cart"] <= 0.125
    client = ask(service, 'increase(traces_service_graph_request_client_seconds_sum{server="cart"}[5m])')
    assert client["cart"] == pytest.approx(0.5)
    assert ask(service, f"increase({total}[5m])", minute=60) == {}


def test_promql_lists(service: QueryService) -> None:
    """Names, label values and buckets are listed, and each organization has its own."""
    begin = int(START.timestamp() * 1000)
    source = open_series(service, ACME)
    engine = Engine(source)
    assert set(ask(service, 'count by (server) ({__name__=~"traces_service_graph.*total"})', minute=1)) >= {
        "cart",
        "cards",
    }
    labels = [dict(one) for one in source.list_series([], begin, begin + 10 * MINUTE_MS)]
    buckets = [one for one in labels if one["__name__"].endswith("server_seconds_bucket") and one["server"] == "cart"]
    assert len(buckets) == 18
    assert {"0.0009765625", "64", "+Inf"} <= {one["le"] for one in buckets}
    infinite = engine.query('{__name__=~"traces_service_graph.*",le="+Inf",server="cart"}', begin + MINUTE_MS)
    assert len(infinite.series) == 2
    assert ask(service, "sum by (server) (traces_service_graph_request_total)", 1, OTHER).keys() == {"vault"}


def test_json_of_the_map(service: QueryService) -> None:
    """The document is JSON as it is."""
    assert json.loads(json.dumps(read_map(service)))["share"] == 1.0


@pytest.fixture(scope="module")
def config(made: Lake, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The configuration of the lake."""
    path = tmp_path_factory.mktemp("config") / "neve.json"
    catalog, lake = made.catalog_config.path, made.lake.warehouse
    path.write_text(json.dumps({"catalog": {"path": catalog}, "lake": {"warehouse": lake}, "organization": ACME}))
    return str(path)


def draw(config: str, *words: str) -> str:
    """Return the output of the command for the first minutes."""
    until = (START + timedelta(minutes=11)).isoformat()
    ended = run("-c", config, "map", "--since", START.isoformat(), "--until", until, *words)
    assert ended.code == 0, ended.errors
    return ended.text


def test_text(config: str) -> None:
    """Edges are below their caller, with a mark where calls fail."""
    lines = draw(config).splitlines()
    place = lines.index("shop")
    assert lines[place + 1].startswith("  ✗ → cart ")
    assert "10 calls, 0.02/s, 30.0% failed, p95 99.6 ms" in lines[place + 1]
    assert any(line.endswith("(database)") for line in lines)
    assert lines[-1] == "8 nodes, 6 edges in 11 min"


def test_one_service_as_json(config: str) -> None:
    """Only edges of a service are in the document, if one is named."""
    found = json.loads(draw(config, "--service", "cards", "--json"))
    assert [(one["client"], one["server"]) for one in found["edges"]] == [("payment", "cards")]
    assert "no calls between services" in draw(config, "--service", "nobody")


def test_graphs(config: str) -> None:
    """DOT has a node for each end and an edge with its label, and the image is XML with the same names."""
    dot = draw(config, "--format", "dot")
    assert '"cards" [shape=cylinder];' in dot
    assert '"shop" -> "cart" [label="10 calls' in dot
    image = ElementTree.fromstring(draw(config, "--format", "svg"))  # noqa: S314 - our own output
    texts = [one.text for one in image.iter("{http://www.w3.org/2000/svg}text")]
    assert {"user", "shop", "cart", "cards", "mailer"} <= set(texts)


def test_names_are_text() -> None:
    """Names of hostile senders stay text in each form."""
    name = '</title><script>"\n\x1b[2J'
    edge = {"client": name, "server": name, "connection": "", "calls": 1, "errors": 0, "p95_ms": None}
    edge |= {"estimated_calls": 1, "estimated_errors": 0}
    found = {"edges": [edge], "seconds": 60.0, "more_edges": False}
    for form in (draw_text, draw_dot, draw_svg):
        assert not any("\x1b" in line or "\n" in line for line in form(found))
    assert "<script>" not in "".join(draw_svg(found))
    assert ElementTree.fromstring("".join(draw_svg(found))) is not None  # noqa: S314 - our own output


def test_errors(config: str) -> None:
    """A range that ends before it begins, and an organization beside a server, are refused."""
    ended = run("-c", config, "map", "--since", "1h", "--until", "2h")
    assert "--until is not after --since" in ended.errors
    assert "the key selects the organization" in run("map", "--server", "x", "--org", "y").errors


def test_span_metrics(service: QueryService) -> None:
    """Tempo's names of span metrics have the rates of spans and their latency, for queries that name them."""
    source = Engine(open_series(service, ACME))
    end = int(START.timestamp() * 1000) + 10 * MINUTE_MS
    chosen = '{service="cart",span_kind="SPAN_KIND_SERVER"}'

    def ask_by(query: str, label: str) -> dict[str, float]:
        return {dict(one.labels)[label]: one.floats[0][1] for one in source.query(query, end).series}

    calls = ask_by(f"sum by (status_code) (increase(traces_spanmetrics_calls_total{chosen}[5m]))", "status_code")
    assert calls == pytest.approx({"STATUS_CODE_UNSET": 3.75, "STATUS_CODE_ERROR": 1.25})  # four minutes, extrapolated
    mean = (
        f"sum by (service) (increase(traces_spanmetrics_latency_sum{chosen}[5m])) / "
        f"sum by (service) (increase(traces_spanmetrics_latency_count{chosen}[5m]))"
    )
    assert ask_by(mean, "service") == pytest.approx({"cart": 0.085})
    within = ask_by(f"sum by (le) (increase(traces_spanmetrics_latency_bucket{chosen}[5m]))", "le")
    assert [within[bound] for bound in ("0.0625", "0.125", "+Inf")] == pytest.approx([0, 5, 5])
    others = Engine(open_series(service, OTHER)).query("traces_spanmetrics_calls_total", end).series
    assert {dict(one.labels)["service"] for one in others} <= {"vault"}
    everything = {dict(one.labels)["__name__"] for one in source.query('{__name__=~".+"}', end).series}
    assert not any("spanmetrics" in name for name in everything)
