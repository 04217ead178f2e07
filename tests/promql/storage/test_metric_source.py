"""PromQL over the table `metrics`: names, types, tenancy."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from neve.app.query.promql import open_series
from neve.errors import LimitExceeded
from neve.lake.lake import Lake
from neve.lexical.matchers import Matcher, MatchKind, match_regex
from neve.promql.engine import Engine
from neve.promql.language.parser import parse
from neve.promql.language.syntax import VectorSelector
from neve.promql.storage import series_rows, target_info
from neve.promql.storage.metric_source import MetricSource, TimeWindow
from neve.promql.storage.otel_names import Metric
from neve.query.config import QueryConfig
from neve.query.service import QueryService, no_limits
from neve.series.config import SeriesConfig
from neve.series.job import SeriesIndexer
from tests.compact.tables import documents_in
from tests.promql.examples import as_dict
from tests.promql.storage.otlp_metrics import COUNT, GAP_MS, START_MS, make_metric_lake, put_parts
from tests.query.lakes import ACME, OTHER

END_MS = START_MS + (COUNT - 1) * GAP_MS
BASE = "instance=i1 job=cart"
REST = "service_instance_id=i1 service_name=cart"


@pytest.fixture(scope="module", params=["no series", "series", "older rows", "half of the files"])
def lake(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, iceberg: None) -> Lake:
    """The lake with metrics of all types: with a table of series, with one that lacks files, and without ids."""
    folder = tmp_path_factory.mktemp("lake")
    made = make_metric_lake(folder, keeps_ids=request.param != "older rows", parts=2 if "half" in request.param else 1)
    if request.param != "no series":
        SeriesIndexer(made, SeriesConfig(), documents_in(folder)).run()
    if "half" in request.param:
        put_parts(made, 1, 2)
    return made


@pytest.fixture(scope="module")
def service(lake: Lake) -> Iterator[QueryService]:
    """The query service without limits."""
    made = QueryService(lake, QueryConfig(cache_bytes=0), limits=no_limits)
    yield made
    made.close()


@pytest.fixture
def engine(service: QueryService) -> Engine:
    """PromQL as acme."""
    return Engine(open_series(service, ACME))


def test_counter(engine: Engine) -> None:
    """A monotonic sum is a counter with `_total`, and its attributes are labels."""
    found = as_dict(engine.query("sum by (job, path) (rate(http_requests_total[5m]))", END_MS))
    assert found == {"job=cart path=a": pytest.approx(1), "job=cart path=b": pytest.approx(2)}


def test_both_spellings(engine: Engine) -> None:
    """A metric answers to its name in OpenTelemetry, and keeps the spelling of the question."""
    translated = as_dict(engine.query('http_requests_total{path="a"}', END_MS))
    assert translated == {f"__name__=http_requests_total {BASE} path=a {REST}": 1200}
    original = as_dict(engine.query('{"http.requests", path="a"}', END_MS))
    assert original == {f"__name__=http.requests {BASE} path=a {REST}": 1200}


def test_delta(engine: Engine) -> None:
    """A delta sum grows by its deltas."""
    assert as_dict(engine.query("sum(increase(jobs_total[10m]))", END_MS)) == {"": pytest.approx(30)}


def test_gauge_and_stale(engine: Engine) -> None:
    """A gauge has its value. A point without a recorded value ends a series."""
    assert as_dict(engine.query("sum(memory_bytes)", END_MS)) == {"": COUNT - 1}
    assert as_dict(engine.query("ended", START_MS)) != {}
    assert as_dict(engine.query("ended", END_MS)) == {}


def test_nan(engine: Engine) -> None:
    """NaN is a value."""
    [value] = as_dict(engine.query("load", END_MS + GAP_MS)).values()
    assert math.isnan(value)


def test_histogram(engine: Engine) -> None:
    """An explicit histogram has buckets that count up to a bound, a count and a sum."""
    found = as_dict(engine.query("sum by (le) (latency_seconds_bucket)", END_MS))
    assert found == {"le=0.1": 80, "le=1": 160, "le=+Inf": 200}
    assert as_dict(engine.query('sum(latency_seconds_bucket{le="1"})', END_MS)) == {"": 160}
    assert as_dict(engine.query("sum(latency_seconds_sum) / sum(latency_seconds_count)", END_MS)) == {"": 0.5}
    quantile = as_dict(engine.query("histogram_quantile(0.5, sum by (le) (rate(latency_seconds_bucket[5m])))", END_MS))
    assert quantile == {"": pytest.approx(0.325)}


def test_exponential_histogram(engine: Engine) -> None:
    """An exponential histogram is a native one: bucket 0 is (1, 2]."""
    found = as_dict(engine.query("histogram_quantile(0.5, rate(size_bytes[5m]))", END_MS))
    assert list(found.values()) == [pytest.approx(math.sqrt(2))]
    assert list(as_dict(engine.query("histogram_count(size_bytes)", END_MS)).values()) == [4 * (COUNT - 1)]


def test_summary(engine: Engine) -> None:
    """A summary has quantiles, a count and a sum."""
    assert as_dict(engine.query("sum by (quantile) (old)", END_MS)) == {"quantile=0.5": 2.5}
    assert as_dict(engine.query("sum(old_sum / old_count)", END_MS)) == {"": 3}


def test_tenancy(engine: Engine, service: QueryService) -> None:
    """An organization sees its own series only, whatever it selects."""
    assert as_dict(engine.query("secret", END_MS)) == {}
    names = {dict(one.labels)["__name__"] for one in engine.query('{__name__=~".+"}', END_MS).series}
    assert "secret" not in names
    assert "memory_bytes" in names
    other = Engine(open_series(service, OTHER))
    assert list(as_dict(other.query('{job=~".+"}', END_MS)).values()) == [1]


def test_hostile_names(engine: Engine) -> None:
    """Names are parameters of SQL, never its text."""
    assert as_dict(engine.query('{"x\') OR 1=1 --"}', END_MS)) == {}
    assert as_dict(engine.query('{job="cart\' OR 1=1"}', END_MS)) == {}


def test_lists(service: QueryService) -> None:
    """Label sets are listed with the names of Prometheus."""
    node = parse('{job="cart"}')
    assert isinstance(node, VectorSelector)
    found = [dict(one) for one in open_series(service, ACME).list_series(node.all_matchers, START_MS, END_MS)]
    names = {one["__name__"] for one in found}
    assert {"http_requests_total", "latency_seconds_bucket", "latency_seconds_count", "size_bytes", "old"} <= names


def test_far_times(engine: Engine) -> None:
    """Times before 1970 and after 9999 have no series."""
    for at in (-(10**15), 10**15, 58_000 * 365 * 86_400_000):
        assert as_dict(engine.query("memory_bytes", at)) == {}


def fake_source(metrics: int, series: int) -> MetricSource:
    """Return a source over made-up gauges, without a lake."""

    def make_row(index: int) -> dict[str, Any]:
        return {
            "metric_name": f"m{index % metrics}",
            "metric_type": "gauge",
            "unit": "",
            "is_monotonic": False,
            "aggregation_temporality": None,
        }

    def run(sql: str, _parameters: Sequence[Any], _window: TimeWindow) -> pa.Table:
        if sql in {"SELECT DISTINCT resource_attrs FROM metrics", target_info.SAMPLES}:
            return pa.Table.from_pylist([], pa.schema([("resource_attrs", pa.null()), ("points", pa.null())]))
        if "attributes" not in sql:
            return pa.Table.from_pylist([make_row(index) for index in range(metrics)])
        labels = [{"attributes": [("pod", f"p{index % 7}")], "resource_attrs": []} for index in range(series)]
        point = {"points": [{"time_unix_nano": 1, "start_time_unix_nano": 0, "flags": 0, "value": 1.0}]}
        return pa.Table.from_pylist([make_row(index) | one | point for index, one in enumerate(labels)])

    return MetricSource(run)


def test_regex_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """A regular expression runs once over the distinct values, not once for each series."""
    calls: list[list[str]] = []

    def count(pattern: str, texts: Sequence[str]) -> list[bool]:
        calls.append(list(texts))
        return match_regex(pattern, texts)

    monkeypatch.setattr("neve.lexical.matchers.match_regex", count)
    source = fake_source(20, 500)
    matchers = (Matcher("__name__", MatchKind.REGEX, "m1.?"), Matcher("pod", MatchKind.REGEX, "p[0-3]"))
    found = source.select(matchers, 0, 1000)
    assert {dict(labels)["pod"] for labels in found.labels} == {"p0", "p1", "p2", "p3"}
    assert len(set(source.list_series(matchers, 0, 1000))) == len(found.labels) == 11 * 4
    assert [len(texts) for texts in calls] == [20, 7, 1, 20, 7, 1]


def test_check() -> None:
    """A reason to stop ends the matching, between two of many matchers."""
    calls = 0

    def check() -> None:
        nonlocal calls
        calls += 1
        if calls > 50:
            raise LimitExceeded("late", limit="seconds")

    source = replace(fake_source(20, 500), check=check)
    matchers = [Matcher(f"a{index}", MatchKind.REGEX, ".*") for index in range(1000)]
    for read in (source.select, lambda *bounds: list(source.list_series(*bounds))):
        calls = 0
        with pytest.raises(LimitExceeded, match="late"):
            read(matchers, 0, 1000)


def test_list_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Listing reads the metric of each row once, whatever the number of metrics."""
    count = 0

    def count_reads(row: dict[str, Any]) -> Metric:
        nonlocal count
        count += 1
        return read_metric(row)

    read_metric = series_rows.read_metric
    monkeypatch.setattr(series_rows, "read_metric", count_reads)
    assert len(list(fake_source(300, 600).list_series((), 0, 1000))) == 600
    assert count == 600
