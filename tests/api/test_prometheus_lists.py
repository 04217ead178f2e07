"""Lists of Prometheus' HTTP API: exemplars, metadata, buckets one by one, names of any characters, target_info."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import pytest
from opentelemetry.proto.metrics.v1 import metrics_pb2 as pb
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from neve.api.prometheus.routes import PREFIX, prometheus_routes
from neve.model.signals import Signal
from neve.query.config import QueryConfig
from neve.query.service import QueryService, no_limits
from neve.receive.authentication import OpenGuard
from tests.api.querying import Client, serving
from tests.promql.storage.otlp_metrics import (
    COUNT,
    CUMULATIVE,
    GAP_MS,
    START_MS,
    attributes,
    make_metric_lake,
    message,
    nanos,
    numbers,
)
from tests.query.lakes import ACME, put

if TYPE_CHECKING:
    from collections.abc import Iterator

END = (START_MS + (COUNT - 1) * GAP_MS) // 1000
BOUNDS = {"start": END - 1200, "end": END}
TRACE, SPAN = bytes(range(16)), bytes(range(8))
RESOURCE = {"service.name": "pay", "service.namespace": "shop", "host.name": "h1", "größe": "groß"}


def exemplar(index: int, value: float, **pairs: str) -> pb.Exemplar:
    """Return an exemplar one second before a point."""
    at = nanos(index) - 1_000_000_000
    return pb.Exemplar(
        time_unix_nano=at, as_double=value, filtered_attributes=attributes(pairs), trace_id=TRACE, span_id=SPAN
    )


def make_metrics() -> list[pb.Metric]:
    """Return a counter and a histogram with exemplars, and a summary."""
    points = numbers([float(index) for index in range(COUNT)], path="a")
    points[5].exemplars.append(exemplar(5, 5.0, user="u1"))
    points[6].exemplars.append(exemplar(5, 5.0, user="u1"))  # sent again
    points[6].exemplars.append(exemplar(6, 6.0, text="x" * 200))
    buckets = pb.HistogramDataPoint(
        time_unix_nano=nanos(7), count=3, sum=3.0, bucket_counts=[1, 1, 1], explicit_bounds=[0.5, 1]
    )
    buckets.exemplars.extend([exemplar(7, 0.5), exemplar(7, 0.7), exemplar(7, 9.0)])
    return [
        pb.Metric(
            name="paid",
            unit="{order}",
            description="Paid orders.",
            sum=pb.Sum(is_monotonic=True, aggregation_temporality=CUMULATIVE, data_points=points),
        ),
        pb.Metric(
            name="wait",
            unit="ms/s",
            description="Time.",
            histogram=pb.Histogram(aggregation_temporality=CUMULATIVE, data_points=[buckets]),
        ),
    ]


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory, iceberg: None) -> Iterator[Client]:
    """A client of acme."""
    lake = make_metric_lake(tmp_path_factory.mktemp("lake"))
    sent = message(make_metrics(), "pay")
    sent.resource_metrics[0].resource.CopyFrom(Resource(attributes=attributes(RESOURCE)))
    put(lake, ACME, Signal.METRICS, sent, batch="-exemplars")
    service = QueryService(lake, QueryConfig(), limits=no_limits)
    with serving(service, OpenGuard(ACME), first=prometheus_routes(service, OpenGuard(ACME))) as found:
        yield found
    service.close()


def get(client: Client, path: str, **parameters: Any) -> tuple[int, Any]:
    """Return status and document of a GET."""
    reply = client.send("GET", f"{PREFIX}{path}?{urlencode(parameters, doseq=True)}")
    return reply.status, json.loads(reply.body)


def data(client: Client, path: str, **parameters: Any) -> Any:
    """Return the data of a success."""
    status, document = get(client, path, **parameters)
    assert (status, document["status"]) == (200, "success")
    return document["data"]


def test_exemplars(client: Client) -> None:
    """Exemplars have the labels of their series, the trace, and attributes unless they are too long."""
    [series] = data(client, "/query_exemplars", query="rate(paid_total[5m]) > 0", **BOUNDS)
    assert series["seriesLabels"] == {
        "__name__": "paid_total",
        "path": "a",
        "job": "shop/pay",
        "service_name": "pay",
        "service_namespace": "shop",
        "host_name": "h1",
        "gr__e": "groß",
    }
    ids = {"trace_id": TRACE.hex(), "span_id": SPAN.hex()}
    first, second = series["exemplars"]
    assert first == {"labels": {**ids, "user": "u1"}, "value": "5", "timestamp": START_MS // 1000 + 5 * 60 - 1}
    assert second["labels"] == ids


def test_exemplars_of_buckets(client: Client) -> None:
    """An exemplar of a histogram belongs to the lowest bucket that has its value."""
    found = data(client, "/query_exemplars", query="wait_milliseconds_per_second_bucket", **BOUNDS)
    values = {one["seriesLabels"]["le"]: [each["value"] for each in one["exemplars"]] for one in found}
    assert values == {"0.5": ["0.5"], "1": ["0.7"], "+Inf": ["9"]}
    text = 'wait_milliseconds_per_second_bucket{le="1"}'
    assert len(data(client, "/query_exemplars", query=text, **BOUNDS)) == 1


@pytest.mark.parametrize(
    ("query", "bounds"),
    [
        ("test", {"start": END * 1000, "end": END * 1000}),  # the probe of Grafana, in milliseconds
        ("1", BOUNDS),
        ("memory_bytes", BOUNDS),
        ("wait_milliseconds_per_second_count", BOUNDS),
        ("paid_total", {"start": END - 60, "end": END}),
    ],
)
def test_no_exemplars(client: Client, query: str, bounds: dict[str, int]) -> None:
    """Expressions and times without exemplars have an empty list."""
    assert data(client, "/query_exemplars", query=query, **bounds) == []


def test_exemplar_errors(client: Client) -> None:
    """A malformed expression and a wrong order of times are bad requests."""
    for parameters in ({"query": "sum("}, {"query": "x", "start": 2, "end": 1}):
        status, document = get(client, "/query_exemplars", **parameters)
        assert (status, document["errorType"]) == (400, "bad_data")


def test_metadata(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Metadata has the type, the words of the unit, and the description."""
    monkeypatch.setattr("neve.promql.http.answers.LIST_MS", 10**13)
    found = data(client, "/metadata")
    assert found["paid_total"] == [{"type": "counter", "unit": "", "help": "Paid orders."}]
    assert found["wait_milliseconds_per_second"] == [
        {"type": "histogram", "unit": "milliseconds_per_second", "help": "Time."}
    ]
    assert found["target_info"] == [{"type": "gauge", "unit": "", "help": "Target metadata"}]
    assert list(data(client, "/metadata", metric="paid_total")) == ["paid_total"]
    assert len(data(client, "/metadata", limit=2)) == 2
    assert data(client, "/metadata", limit=0) == {}
    assert get(client, "/metadata", limit="many")[1]["errorType"] == "bad_data"


def test_metadata_of_a_range(client: Client) -> None:
    """Metadata of a range has the metrics of that range only."""
    assert "paid_total" in data(client, "/metadata", **BOUNDS)
    assert data(client, "/metadata", start=1, end=2) == {}


def test_buckets_one_by_one(client: Client) -> None:
    """Each bucket and quantile is a series of a list."""
    assert data(client, "/label/le/values", **BOUNDS) == ["+Inf", "0.1", "0.5", "1"]
    match = {"match[]": 'latency_seconds_bucket{le=~"0.*"}'}
    assert data(client, "/label/le/values", **BOUNDS, **match) == ["0.1"]
    assert [one["le"] for one in data(client, "/series", **BOUNDS, **match)] == ["0.1"]
    assert [one["quantile"] for one in data(client, "/series", **BOUNDS, **{"match[]": "old"})] == ["0.5"]
    assert "le" not in data(client, "/labels", **BOUNDS, **{"match[]": "latency_seconds_count"})


def test_escaped_names(client: Client) -> None:
    """A name in a path may be escaped, or that of the attribute."""
    for name in ("host_name", "U__host_2e_name", "host.name"):
        assert data(client, f"/label/{name}/values", **BOUNDS) == ["h1"]


def test_target_info(client: Client) -> None:
    """A resource with attributes beside its identity has a series with them, and info() adds them."""
    [series] = data(client, "/query", query="target_info", time=END)["result"]
    labels = {"__name__": "target_info", "job": "shop/pay", "host_name": "h1", "gr__e": "groß"}
    assert series == {"metric": labels, "value": [END, "1"]}
    assert data(client, "/series", **BOUNDS, **{"match[]": "target_info"}) == [labels]
    assert "target_info" in data(client, "/label/__name__/values", **BOUNDS)
    text = "sum by (host_name) (paid_total * on (job) group_left (gr__e) target_info)"
    assert data(client, "/query", query=text, time=END)["result"][0]["value"][1] == "20"
    assert (
        data(client, "/query", query='count_over_time(target_info{host_name="h1"}[5m])', time=END)["result"][0][
            "value"
        ][1]
        == "5"
    )
    assert data(client, "/query", query='target_info{host_name="h2"}', time=END)["result"] == []


def test_limit_errors(client: Client) -> None:
    """A limit is a number that is not negative."""
    for limit in ("-1", "x", "1.5"):
        status, document = get(client, "/labels", limit=limit, **BOUNDS)
        assert (status, document["errorType"]) == (400, "bad_data")
