"""Names and labels of OpenTelemetry in Prometheus' spelling."""

import pytest

from neve.promql.labels import make_labels
from neve.promql.storage.otel_names import Metric, base_labels, translate_label, translate_name


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
