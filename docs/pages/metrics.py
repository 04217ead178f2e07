"""The page of metrics, from the calls that declare them."""

from collections.abc import Iterable
from itertools import groupby

from tools.metric_catalog import DeclaredMetric

from docs.pages import NOTICE
from docs.pages.markdown import code, codes, page, table

INTRODUCTION = """
Prometheus metrics at `/metrics` ([access](serve.md#access)). In a group of processes each also has the label `process`.
Histograms have the series `_bucket`, `_count` and `_sum`. [Monitoring](deploy/monitoring.md) has dashboards and alerts
that use them.
"""


def metrics_page(catalog: Iterable[DeclaredMetric]) -> str:
    """Every metric with its kind, its labels and its help, by area."""
    sections = [
        page(f"## {code(area)}", table(("Metric", "Kind", "Labels", "Description"), map(_row, metrics)))
        for area, metrics in groupby(catalog, key=_area)
    ]
    return page(NOTICE, "# Metrics", INTRODUCTION, *sections)


def _area(metric: DeclaredMetric) -> str:
    """The part of the name that related metrics share: `neve_query_rows_total` is of `neve_query`."""
    parts = metric.name.split("_")
    return parts[0] if parts[0] == "autopilot" else "_".join(parts[:2])


def _row(metric: DeclaredMetric) -> tuple[str, ...]:
    return (code(metric.name), metric.kind, codes(metric.labels), metric.help)
