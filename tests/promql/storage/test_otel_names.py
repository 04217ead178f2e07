"""Names and labels of OpenTelemetry in Prometheus' spelling."""

import re

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neve.promql.labels import make_labels
from neve.promql.storage.otel_names import (
    PARTS,
    Metric,
    base_labels,
    translate_label,
    translate_name,
    write_name_pattern,
)

WORDS = st.sampled_from(["http", "total", "ratio", "seconds", "4xx", "a:b", "größe", "per", "x", ""])
NAMES = st.lists(st.tuples(WORDS, st.sampled_from(["", ".", "_", "-", "..", "é", "\n"])), min_size=1, max_size=5).map(
    lambda pairs: "".join(word + gap for word, gap in pairs)
)
METRICS = st.builds(
    Metric,
    NAMES,
    st.sampled_from(sorted(PARTS)),
    st.sampled_from(["", "1", "s", "By/s", "{x}", "total"]),
    st.booleans(),
)


@pytest.mark.parametrize(
    ("metric", "name"),
    [
        (Metric("http.server.request.duration", "histogram", "s"), "http_server_request_duration_seconds"),
        (Metric("jvm.memory.used", "sum", "By"), "jvm_memory_used_bytes"),
        (Metric("requests", "sum", "{request}", is_monotonic=True), "requests_total"),
        (Metric("total.requests", "sum", "1", is_monotonic=True), "requests_total"),
        (Metric("cpu.utilization", "gauge", "1"), "cpu_utilization_ratio"),
        (Metric("disk.io.bytes", "sum", "By", is_monotonic=True), "disk_io_bytes_total"),
        (Metric("speed", "gauge", "m/s"), "speed_meters_per_second"),
        (Metric("4xx", "gauge"), "_4xx"),
        (Metric("temp", "gauge", "Cel"), "temp_celsius"),
        (Metric("a:b", "gauge", "{x}/s"), "a:b_per_second"),
    ],
)
def test_names(metric: Metric, name: str) -> None:
    """Units and types become words, unless the name has them."""
    assert translate_name(metric) == name


def test_labels() -> None:
    """Points win over resources, colliding keys join their values, job and instance come from the service."""
    resource = {"service.name": "cart", "service.namespace": "shop", "service.instance.id": "i1", "zone": "a"}
    labels = base_labels({"zone": "b", "a.b": "1", "a_b": "2"}, resource)
    assert labels == make_labels({
        "job": "shop/cart", "instance": "i1", "zone": "b", "a_b": "1;2", "service_name": "cart",
        "service_namespace": "shop", "service_instance_id": "i1",
    })  # fmt: skip


def test_label_names() -> None:
    """Labels begin with a letter or an underscore."""
    assert translate_label("http.status code") == "http_status_code"
    assert translate_label("1st") == "key_1st"
    assert translate_label("größe") == "gr__e"
    assert translate_label("_a") == "key_a"
    assert translate_label("a__b") == "a__b"


def test_empty_values() -> None:
    """An empty attribute of a point does not hide that of the resource. An empty namespace is one."""
    labels = base_labels({"zone": ""}, {"zone": "a", "service.name": "cart", "service.namespace": ""})
    assert labels == make_labels({"zone": "a", "job": "/cart", "service_name": "cart"})


@given(METRICS)
def test_names_have_a_pattern_of_their_metric(metric: Metric) -> None:
    """The pattern of every name of a metric, in both spellings, matches the metric, in Python and in DuckDB."""
    for part in PARTS[metric.kind]:
        for name in (translate_name(metric) + part, metric.name + part):
            pattern = write_name_pattern(name)
            assert pattern is not None
            assert re.fullmatch(pattern, metric.name)
            assert duckdb.execute("SELECT regexp_full_match(?, ?)", [metric.name, pattern]).fetchall() == [(True,)]


def test_patterns_are_narrow() -> None:
    """A pattern does not match metrics of other names, and there is none for a name of very many words."""
    pattern = write_name_pattern("http_requests_total") or ""
    matched = [
        name for name in ("http.requests", "requests", "http.errors", "http.requests.x") if re.fullmatch(pattern, name)
    ]
    assert matched == ["http.requests"]
    assert write_name_pattern("_".join("abc" for _ in range(41))) is None
