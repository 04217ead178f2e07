"""Paths of Loki's, Tempo's and Jaeger's API for OpenAPI. Their documents are those of the systems they come from."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from neve.api.jaeger.routes import PREFIX as JAEGER
from neve.api.loki.routes import PREFIX as LOKI
from neve.api.query.operations import access_failures
from neve.api.tempo.routes import PREFIX as TEMPO
from neve.state.scopes import Scope

__all__ = ["LANGUAGE_TAGS", "describe_languages"]

LANGUAGE_TAGS = (
    ("logql", "Loki's HTTP API (`docs/logql.md`); the key needs the scope `read`"),
    ("traceql", "Tempo's HTTP API (`docs/traceql.md`); the key needs the scope `read`"),
    ("jaeger", "Jaeger's HTTP API (`docs/jaeger.md`); the key needs the scope `read`"),
)
BOTH = ("get", "post")
FAILURES = (
    (400, "a parameter or the query is wrong, or a limit is exceeded"),
    (429, "too many requests of this key"),
    (504, "the query took too long"),
)
_RANGE = ("start", "end")
_JAEGER_SEARCH = ("service", "operation", "tags", "tag", "minDuration", "maxDuration", *_RANGE, "limit", "traceID")
_V3_SEARCH = ("serviceName", "operationName", "attributes", "durationMin", "durationMax", "startTimeMin",
              "startTimeMax", "searchDepth")  # fmt: skip
_DESCRIPTIONS = {
    "start": "beginning of the time range",
    "end": "end of the time range, exclusive",
    "query": "a query of LogQL, or a selector",
    "q": "a query of TraceQL",
    "limit": "maximum number of lines, traces or values",
    "step": "time between two values",
}


@dataclass(frozen=True)
class LanguagePath:
    """Path of a language's API: its parameters, and the methods that it takes."""

    path: str
    summary: str
    parameters: tuple[str, ...] = ()
    methods: tuple[str, ...] = ("get",)
    is_public: bool = False


LOGQL_PATHS = (
    LanguagePath(f"{LOKI}/query", "Values of a metric query at one time", ("query", "time"), BOTH),
    LanguagePath(
        f"{LOKI}/query_range",
        "Lines, or values at each step",
        ("query", *_RANGE, "since", "step", "interval", "limit", "direction"),
        BOTH,
    ),
    LanguagePath(f"{LOKI}/labels", "Names of labels", (*_RANGE, "since", "query"), BOTH),
    LanguagePath(f"{LOKI}/label", "Names of labels, by their older path", (*_RANGE, "since", "query"), BOTH),
    LanguagePath(f"{LOKI}/label/{{name}}/values", "Values of a label", (*_RANGE, "since", "query"), BOTH),
    LanguagePath(f"{LOKI}/series", "Streams", (*_RANGE, "since", "match[]"), BOTH),
    LanguagePath(f"{LOKI}/index/stats", "Streams, lines and bytes of a selector", ("query", *_RANGE), BOTH),
    LanguagePath(
        f"{LOKI}/index/volume", "Bytes by label", ("query", *_RANGE, "limit", "targetLabels", "aggregateBy"), BOTH
    ),
    LanguagePath(
        f"{LOKI}/index/volume_range",
        "Bytes by label at each step",
        ("query", *_RANGE, "step", "limit", "targetLabels", "aggregateBy"),
        BOTH,
    ),
    LanguagePath(f"{LOKI}/detected_labels", "Labels and the number of their values", ("query", *_RANGE), BOTH),
    LanguagePath(f"{LOKI}/detected_fields", "Fields in lines", ("query", *_RANGE, "limit", "line_limit"), BOTH),
    LanguagePath(
        f"{LOKI}/detected_field/{{name}}/values",
        "Values of a field in lines",
        ("query", *_RANGE, "limit", "line_limit"),
        BOTH,
    ),
    LanguagePath(f"{LOKI}/patterns", "Patterns of lines", ("query", *_RANGE, "step"), BOTH),
    LanguagePath(f"{LOKI}/tail", "Live tail, a WebSocket", ("query", "start", "limit")),
    LanguagePath(f"{LOKI}/status/buildinfo", "A version of Loki"),
    LanguagePath("/ready", "Ready for queries", is_public=True),
)
TRACEQL_PATHS = (
    LanguagePath(f"{TEMPO}/traces/{{trace_id}}", "A trace as OTLP"),
    LanguagePath(f"{TEMPO}/v2/traces/{{trace_id}}", "A trace as OTLP, with a status"),
    LanguagePath(
        f"{TEMPO}/search", "Traces that match", ("q", "tags", "minDuration", "maxDuration", *_RANGE, "limit", "spss")
    ),
    LanguagePath(f"{TEMPO}/search/tags", "Names of attributes", ("scope", "q", *_RANGE)),
    LanguagePath(f"{TEMPO}/v2/search/tags", "Names of attributes by scope", ("scope", "q", *_RANGE)),
    LanguagePath(f"{TEMPO}/search/tag/{{tag}}/values", "Values of an attribute", ("q", *_RANGE, "limit")),
    LanguagePath(f"{TEMPO}/v2/search/tag/{{tag}}/values", "Values with their types", ("q", *_RANGE, "limit")),
    LanguagePath(f"{TEMPO}/metrics/query_range", "Series at each step", ("q", *_RANGE, "since", "step", "exemplars")),
    LanguagePath(f"{TEMPO}/metrics/query", "One value of each series", ("q", *_RANGE, "since")),
    LanguagePath(f"{TEMPO}/echo", "Health check of Grafana's data source"),
    LanguagePath(f"{TEMPO}/status/buildinfo", "A version of Tempo"),
)
JAEGER_PATHS = (
    LanguagePath(f"{JAEGER}/services", "Names of services", _RANGE),
    LanguagePath(f"{JAEGER}/services/{{service}}/operations", "Names of a service's operations", _RANGE),
    LanguagePath(f"{JAEGER}/operations", "Names and kinds of operations", ("service", "spanKind", *_RANGE)),
    LanguagePath(f"{JAEGER}/traces", "Traces that match", _JAEGER_SEARCH),
    LanguagePath(f"{JAEGER}/traces/{{trace_id}}", "A trace"),
    LanguagePath(f"{JAEGER}/dependencies", "Calls between services", ("endTs", "lookback", "service")),
    LanguagePath(f"{JAEGER}/v3/services", "Names of services", _RANGE),
    LanguagePath(f"{JAEGER}/v3/operations", "Names and kinds of operations", ("service", "spanKind", *_RANGE)),
    LanguagePath(
        f"{JAEGER}/v3/traces", "Spans of traces that match, as OTLP", tuple(f"query.{one}" for one in _V3_SEARCH)
    ),
    LanguagePath(f"{JAEGER}/v3/traces/{{trace_id}}", "Spans of a trace, as OTLP"),
)
PATHS = {"logql": LOGQL_PATHS, "traceql": TRACEQL_PATHS, "jaeger": JAEGER_PATHS}


def describe_languages() -> dict[str, dict[str, Any]]:
    """Return the paths of all languages as OpenAPI has them."""
    return {
        one.path: {method: _describe(one, tag, method) for method in one.methods}
        for tag, paths in PATHS.items()
        for one in paths
    }


def _describe(one: LanguagePath, tag: str, method: str) -> dict[str, Any]:
    """Return an operation. A POST takes the parameters of the address in a form too."""
    failures = () if one.is_public else (*FAILURES, *access_failures(Scope.READ))
    responses = {str(status): {"description": words} for status, words in sorted(failures)}
    words = [part for part in re.split(r"[^A-Za-z0-9]+", one.path) if part]
    document: dict[str, Any] = {
        "operationId": "-".join((method, *words)),
        "summary": one.summary,
        "tags": [tag],
        "responses": {"200": {"description": one.summary}, **responses},
    }
    names = re.findall(r"\{(\w+)\}", one.path)
    parameters = [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names]
    parameters += [_describe_parameter(name) for name in one.parameters]
    if parameters:
        document["parameters"] = parameters
    return document | ({"security": []} if one.is_public else {})


def _describe_parameter(name: str) -> dict[str, Any]:
    words = {"description": _DESCRIPTIONS[name]} if name in _DESCRIPTIONS else {}
    return {"name": name, "in": "query", **words, "schema": {"type": "string"}}
