"""Attacks in PromQL and in the parameters of Prometheus' HTTP API, for the suite of `tests/query/attacks.py`.

The lake of that suite has metrics of all types of both organizations here: the canary is a name, a label, a unit, a
description, and an exemplar of the other organization.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote as quote_path
from urllib.parse import urlencode

from hypothesis import strategies as st
from opentelemetry.proto.metrics.v1 import metrics_pb2 as pb

from neve.api.prometheus.routes import PREFIX
from neve.lexical.literals import quote
from neve.model.signals import Signal
from tests.promql.storage.otlp_metrics import (
    COUNT,
    CUMULATIVE,
    GAP_MS,
    START_MS,
    all_metrics,
    attributes,
    message,
    nanos,
    numbers,
)
from tests.query.attacks import CANARY, OWN
from tests.query.lakes import ACME, OTHER, put

if TYPE_CHECKING:
    from neve.lake.lake import Lake
    from tests.api.querying import Client

END = (START_MS + (COUNT - 1) * GAP_MS) // 1000

NAMES = (
    "organization_id",
    "__name__",
    "__tenant__",
    "metric_name",
    "resource_attrs",
    "attributes",
    "le",
    "quantile",
    "job",
    "a.b",
    "a b",
    "x' OR '1'='1",
    'x" OR "1"="1',
    "metric_name) OR true --",
    "'; SELECT * FROM metrics --",
    "?",
    "$1",
    "\u202e",
    "\u212a",
    "neve_source_0",
    "../../etc/passwd",
    "U__organization_2e_id",
    OTHER,
)
VALUES = (
    OTHER,
    ACME,
    "",
    "' OR organization_id <> ''",
    "%",
    "*",
    "\\",
    "\x00",
    "x') UNION ALL SELECT * FROM metrics --",
    "?",
    "${env:HOME}",
    "/etc/passwd",
    "\U0001f989",
)
PATTERNS = (".*", ".+", "(?i)CANARY.*", ".*canary.*", "(?s:.)*", "[^x]+", "|.+", "^.*$", "\\PC+", ".*?")
EXPRESSIONS = (
    "{{{s}}}",
    "{{__name__=~'.+', {s}}}",
    "{{__name__!='', {s}}}",
    "count by (__name__, organization_id, job) ({{__name__=~'.+', {s}}})",
    "sum without (job) ({{__name__=~'.+', {s}}})",
    "group by ({n}) ({{__name__=~'.+'}})",
    "count_values({n}, {{__name__=~'.+'}})",
    "label_replace({{__name__=~'.+', {s}}}, {n}, '$1', '__name__', '(.*)')",
    "label_join({{__name__=~'.+', {s}}}, {n}, ';', 'job', {n}, '__name__')",
    "info({{__name__=~'.+', {s}}}, {{{s}}})",
    "absent({{{s}}})",
    "last_over_time({{__name__=~'.+', {s}}}[1h])",
    "max_over_time({{__name__=~'.+', {s}}}[1h:1m])",
    "{{__name__=~'.+', {s}}} @ end() offset -1h",
    "topk(100, {{__name__=~'.+', {s}}})",
    "{{__name__=~'.+'}} or on ({n}) {{__name__=~'.+', {s}}}",
    "sort_by_label({{__name__=~'.+', {s}}}, {n})",
    "{{{n}, {s}}}",
)
KINDS = ("=~", "!~", "=~")
LISTS = ("/labels", "/series", "/label/{p}/values", "/metadata", "/query_exemplars", "/label/__name__/values")


def add_metrics(lake: Lake) -> None:
    """Add metrics of all types of both organizations."""
    for owner, text in ((ACME, OWN), (OTHER, CANARY)):
        exemplar = pb.Exemplar(
            time_unix_nano=nanos(1), as_double=1.0, filtered_attributes=attributes({"who": text, text: "x"})
        )
        points = numbers([1.0] * COUNT, who=text, **{text: "x"})
        for point in points:
            point.exemplars.append(exemplar)
        named = pb.Metric(name=f"{text}.metric", unit=text, description=text, gauge=pb.Gauge(data_points=points))
        total = pb.Sum(is_monotonic=True, aggregation_temporality=CUMULATIVE, data_points=points)
        counter = pb.Metric(name="shared", description=text, sum=total)
        put(lake, owner, Signal.METRICS, message([*all_metrics(), named, counter], text), batch=f"-{owner}")


@dataclass(frozen=True)
class PromqlDoor:
    """Prometheus' HTTP API. A statement is a path with its parameters."""

    client: Client

    def ask(self, statement: str) -> str:
        """Return the body of the answer, without the escapes of JSON that could hide a text."""
        headers = {"X-Scope-OrgID": OTHER, "X-Organization": OTHER}
        reply = self.client.send("GET", statement, headers=headers)
        body = reply.body.decode()
        return body if reply.status == 404 else json.dumps(json.loads(body), ensure_ascii=False)


def request(path: str, **parameters: str | int) -> str:
    """Return the address of a request, with parameters that try to choose the organization."""
    wide = {"organization": OTHER, "organization_id": OTHER, "org": OTHER, "tenant": OTHER}
    return f"{PREFIX}{path}?{urlencode({**parameters, **wide})}"


def selector(name: str, value: str, kind: str = "=") -> str:
    """Return one matcher, with a name of any text."""
    return f"{quote(name)}{kind}{quote(value)}"


def query(expression: str) -> str:
    """Return an instant query."""
    return request("/query", query=expression, time=END)


def fixed_attacks() -> list[str]:
    """Return requests with every name, value and pattern."""
    matchers = []
    for index, name in enumerate(NAMES):
        matchers += [selector(name, VALUES[(index + step) % len(VALUES)]) for step in (0, 5)]
        matchers += [selector(name, PATTERNS[(index + step) % len(PATTERNS)], kind) for step, kind in enumerate(KINDS)]
    found = [
        query(EXPRESSIONS[index % len(EXPRESSIONS)].format(s=matcher, n=quote(NAMES[index % len(NAMES)])))
        for index, matcher in enumerate(matchers)
    ]
    bounds = {"start": END - 3600, "end": END}
    for index, name in enumerate(NAMES):
        place = LISTS[index % len(LISTS)].format(p=quote_path(name, safe=""))
        found.append(request(f"/label/{quote_path(name, safe='')}/values", **bounds))
        found.append(request(place, **bounds, query=f"{{{selector(name, '.+', '=~')}}}", metric=name))
        found.append(request(place, **bounds, **{"match[]": f"{{{selector(name, '.*', '=~')},__name__=~'.+'}}"}))
    for text in ("{__name__=~'.+'}", "shared_total", "memory_bytes", "{'memory'}", "target_info"):
        found += [query(text), request("/query_range", query=text, start=END - 600, end=END, step=60)]
        found += [request(path.format(p="who"), **bounds, query=text, **{"match[]": text}) for path in LISTS]
    return found


@st.composite
def generated_attacks(draw: st.DrawFn) -> str:
    """Return requests with drawn names, values and places."""
    texts = st.sampled_from((*NAMES, *VALUES, *PATTERNS)) | st.text(
        st.characters(exclude_categories=["Cs"]), max_size=9
    )
    matcher = selector(draw(texts) or "x", draw(texts), draw(st.sampled_from(("=", "!=", "=~", "!~"))))
    expression = draw(st.sampled_from(EXPRESSIONS)).format(s=matcher, n=quote(draw(texts)))
    if draw(st.booleans()):
        return query(expression)
    path = draw(st.sampled_from(LISTS)).format(p=quote_path(draw(texts) or "x", safe=""))
    return request(path, start=END - 3600, end=END, **{"match[]": f"{{__name__=~'.+',{matcher}}}"})
