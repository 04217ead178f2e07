"""Grafana dashboards as values, and their JSON.

The JSON has the fields that Grafana needs and no others: it fills in the rest when it loads a dashboard.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

SCHEMA_VERSION = 39  # Grafana 10 and later
WIDTH = 24
STAT_SIZE, GRAPH_SIZE = (4, 4), (8, 8)
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
TAG = "neve"
METRIC = re.compile(r"\b((?:neve|autopilot|process)_\w+)(\{(?=\S))?")
JOB = 'job=~"$job"'
Document = dict[str, object]


@dataclass(frozen=True)
class Query:
    """A PromQL expression and the legend of its series, in Grafana's `{{label}}` notation."""

    expression: str
    legend: str = ""


@dataclass(frozen=True)
class Panel:
    """A graph, or a single number if `kind` is `stat`. `unit` is one of Grafana's ids; `limit` is where red begins."""

    title: str
    queries: tuple[Query, ...]
    unit: str = "short"
    kind: Literal["timeseries", "stat"] = "timeseries"
    help: str = ""
    limit: float | None = None

    @property
    def size(self) -> tuple[int, int]:
        """Return width and height in units of Grafana's grid."""
        return STAT_SIZE if self.kind == "stat" else GRAPH_SIZE


@dataclass(frozen=True)
class Row:
    """Panels below a heading."""

    title: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True)
class Dashboard:
    """A dashboard; `name` is its file and, with the prefix `neve-`, its id in Grafana."""

    name: str
    title: str
    description: str
    rows: tuple[Row, ...]

    @property
    def uid(self) -> str:
        """Return the id in Grafana, by which links find the dashboard."""
        return f"{TAG}-{self.name}"


def graph(title: str, *queries: tuple[str, str], unit: str = "short", text: str = "") -> Panel:
    """Return a graph of expressions with their legends."""
    return Panel(title, tuple(Query(*query) for query in queries), unit, help=text)


def stat(title: str, expression: str, unit: str = "short", limit: float | None = None, text: str = "") -> Panel:
    """Return a single number, red from `limit` on."""
    return Panel(title, (Query(expression),), unit, "stat", text, limit)


def select_job(expression: str) -> str:
    """Restrict every selector of a metric of Neve to the jobs that the reader selected.

    >>> select_job('sum(rate(neve_query_rows_total{engine="duckdb"}[5m])) + neve_query_running')
    'sum(rate(neve_query_rows_total{job=~"$job",engine="duckdb"}[5m])) + neve_query_running{job=~"$job"}'
    """
    return METRIC.sub(lambda found: f"{found[1]}{{{JOB}" + ("," if found[2] else "}"), expression)


def render(dashboard: Dashboard) -> Document:
    """Return the JSON document of a dashboard."""
    return {
        "uid": dashboard.uid,
        "title": dashboard.title,
        "description": dashboard.description,
        "tags": [TAG],
        "schemaVersion": SCHEMA_VERSION,
        "editable": False,
        "timezone": "browser",
        "refresh": "1m",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": _variables()},
        "links": [{"type": "dashboards", "tags": [TAG], "title": "Neve", "asDropdown": True, "includeVars": True}],
        "panels": _panels(dashboard),
    }


def _variables() -> list[Document]:
    jobs = {"query": "label_values(process_start_time_seconds, job)", "refId": "jobs"}
    return [
        {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"},
        {
            "name": "job",
            "label": "Job",
            "type": "query",
            "datasource": DATASOURCE,
            "query": jobs,
            "regex": "/neve/",
            "includeAll": True,
            "multi": True,
            "refresh": 2,
            "current": {"text": "All", "value": "$__all"},
        },
    ]


def _panels(dashboard: Dashboard) -> list[Document]:
    """Return headings and panels with unique ids, placed from left to right and from top to bottom."""
    found: list[Document] = []
    top = 0
    for row in dashboard.rows:
        place = {"x": 0, "y": top, "w": WIDTH, "h": 1}
        found.append({"id": len(found) + 1, "type": "row", "title": row.title, "collapsed": False, "gridPos": place})
        top, left, height = top + 1, 0, 0
        for panel in row.panels:
            wide, high = panel.size
            if left + wide > WIDTH:
                top, left, height = top + height, 0, 0
            place = {"x": left, "y": top, "w": wide, "h": high}
            found.append({"id": len(found) + 1, "gridPos": place, **_panel(panel)})
            left, height = left + wide, max(height, high)
        top += height
    return found


def _panel(panel: Panel) -> Document:
    steps: list[Document] = [{"color": "green", "value": None}]
    if panel.limit is not None:
        steps.append({"color": "red", "value": panel.limit})
    defaults: Document = {"unit": panel.unit, "min": 0, "thresholds": {"mode": "absolute", "steps": steps}}
    return {
        "type": panel.kind,
        "title": panel.title,
        "description": panel.help,
        "datasource": DATASOURCE,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "targets": [_target(letter, query) for letter, query in zip("ABCDEFGH", panel.queries, strict=False)],
    }


def _target(letter: str, query: Query) -> Document:
    return {
        "refId": letter,
        "datasource": DATASOURCE,
        "expr": select_job(query.expression),
        "legendFormat": query.legend or "__auto",
    }
