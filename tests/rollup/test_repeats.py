"""Repeated points: a resent message is known, and equal points of one message are several."""

from __future__ import annotations

from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics, Sum

from neve.model.levels import LEVELS
from neve.model.signals import Signal
from neve.rollup.config import RollupConfig
from tests.rollup.compare import rolled
from tests.telemetry import NOW, SCOPE, decoded, resource

DELTA = 1


def message(*values: int) -> bytes:
    """A message of points of one counter, all of the same time."""
    points = [NumberDataPoint(time_unix_nano=NOW, as_int=value) for value in values]
    metric = Metric(name="orders", sum=Sum(data_points=points, aggregation_temporality=DELTA, is_monotonic=True))  # type: ignore[arg-type]
    scope = ScopeMetrics(scope=SCOPE, metrics=[metric])
    group = ResourceMetrics(resource=resource("shop"), scope_metrics=[scope])
    return ExportMetricsServiceRequest(resource_metrics=[group]).SerializeToString()


def rolled_up(*messages: bytes) -> tuple[int, float]:
    """The number of points and their sum in the only row."""
    rows: list[dict[str, Any]] = decoded(Signal.METRICS, *messages).batch.to_pylist()
    [row] = rolled(rows, RollupConfig(), LEVELS[0]).to_pylist()
    return row["points"], row["sum"]


def test_equal_points_of_one_message_are_several_points() -> None:
    """As in the table `metrics`: no exporter repeats a point within a message, so each counts."""
    assert rolled_up(message(2, 2, 3)) == (3, 7.0)


def test_points_of_a_resent_message_count_once() -> None:
    """Also if the message has equal points, and although all its rows are in the table."""
    assert rolled_up(message(2, 2, 3), message(2, 2, 3)) == (3, 7.0)
    assert rolled_up(message(2, 2, 3), message(2)) == (3, 7.0)
