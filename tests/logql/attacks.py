"""Attacks in LogQL and in the parameters of Loki's HTTP API, for the suite of `tests/query/attacks.py`.

The canary is the service, an attribute's name and value, and the line of the other organization.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote as quote_path
from urllib.parse import urlencode

from hypothesis import strategies as st

from neve.api.loki.routes import PREFIX
from neve.lexical.literals import quote
from neve.model.signals import Signal
from tests.logql.otlp_logs import END, START, message, record
from tests.query.attacks import CANARY, OWN
from tests.query.lakes import ACME, OTHER, put

if TYPE_CHECKING:
    from neve.lake.lake import Lake
    from tests.api.querying import Client

NAMES = (
    "service_name",
    "organization_id",
    "k8s_pod_name",
    "__name__",
    "__error__",
    "trace_id",
    "detected_level",
    "neve_source_0",
    "line",
    CANARY.replace("-", "_"),
    OTHER,
)
VALUES = (
    OTHER,
    ACME,
    CANARY,
    "' OR organization_id <> ''",
    "%",
    "\\",
    "x') UNION ALL SELECT * FROM logs --",
    "?",
    "${env:HOME}",
    "/etc/passwd",
    "\U0001f989",
)
PATTERNS = (".*", ".+", "(?i)CANARY.*", ".*canary.*", "(?s:.)*", "[^x]+", "|.+", "^.*$", ".*?")
STAGES = (
    "|= {v}",
    "!= {v}",
    "|~ {p}",
    "!~ {p}",
    "| json",
    "| logfmt | {n}=~{p}",
    "| {n}!={v}",
    "| regexp {g}",
    "| pattern {c}",
    "| line_format {t}",
    "| label_format x={t}",
    "| unpack | decolorize",
    "| keep {n}",
    "| drop {n}",
    "| json x={j}",
    "|> {w}",
)
METRICS = (
    "sum by ({n}) (count_over_time({q} [1h]))",
    "count_over_time({q} [1h])",
    "topk(10, rate({q} [1h]))",
    "absent_over_time({q} [1h])",
    "max_over_time({q} | unwrap {n} [1h])",
    "sum(bytes_over_time({q} [1h])) or vector(1)",
    'label_replace(count_over_time({q} [1h]), "x", "$1", "service_name", "(.*)")',
)
LISTS = (
    "/labels",
    "/series",
    "/label/{p}/values",
    "/index/stats",
    "/index/volume",
    "/index/volume_range",
    "/detected_labels",
    "/detected_fields",
    "/detected_field/{p}/values",
    "/patterns",
)


def add_logs(lake: Lake) -> None:
    """Add lines of both organizations."""
    for owner, text in ((ACME, OWN), (OTHER, CANARY)):
        lines = [
            record(index, f'{{"who":"{text}","{text}":1}} who={text}', pairs={"who": text, text: "x"})
            for index in range(5)
        ]
        put(lake, owner, Signal.LOGS, message(text, lines, k8s__pod__name=text, host=text), batch=f"-{owner}-lines")


@dataclass(frozen=True)
class LogqlDoor:
    """Loki's HTTP API. A statement is a path with its parameters."""

    client: Client

    def ask(self, statement: str) -> str:
        """Return the body of the answer."""
        headers = {"X-Scope-OrgID": OTHER, "X-Organization": OTHER}
        return self.client.send("GET", statement, headers=headers).body.decode()


def request(path: str, **parameters: str | int) -> str:
    """Return the address of a request, with parameters that try to choose the organization."""
    wide = {"organization": OTHER, "organization_id": OTHER, "org": OTHER, "tenant": OTHER, "shards": "0_of_1"}
    return f"{PREFIX}{path}?{urlencode({**parameters, **wide})}"


def fill(template: str, name: str, value: str, pattern: str) -> str:
    """Return a stage with texts in their quotes."""
    return template.format(
        n=name,
        v=quote(value),
        p=quote(pattern),
        g=quote(f"(?P<x>{pattern})"),
        c=quote("<x> <_>"),
        t=quote("{{ . }} {{ .organization_id }} {{ __line__ }}"),
        j=quote("who"),
        w=quote("<_>who<_>"),
    )


def ask_all(query: str, name: str) -> list[str]:
    """Return requests for lines and for values of a query."""
    bounds = {"start": START, "end": END, "step": 60}
    found = [request("/query_range", query=query, limit=5000, **bounds)]
    for template in METRICS:
        metric = template.replace("{q}", query).replace("{n}", name)
        found.append(request("/query", query=metric, time=END))
    return found


def fixed_attacks() -> list[str]:
    """Return requests with every name, value, pattern, stage and path."""
    found: list[str] = []
    for index, template in enumerate(STAGES):
        name, value = NAMES[index % len(NAMES)], VALUES[index % len(VALUES)]
        pattern = PATTERNS[index % len(PATTERNS)]
        found += ask_all(f'{{service_name=~".+"}} {fill(template, name, value, pattern)}', name)
    for index, name in enumerate(NAMES):
        matchers = [f"{name}={quote(one)}" for one in VALUES] + [f"{name}=~{quote(one)}" for one in PATTERNS]
        chosen = f'{{{matchers[index]}, {matchers[-1 - index % 5]}, service_name!=""}}'
        found.append(request("/query_range", query=chosen, start=START, end=END))
        for path in LISTS:
            place = path.format(p=quote_path(name, safe=""))
            query = {"query": f'{{service_name=~".+", {name}=~".*"}}', "targetLabels": name}
            found.append(request(place, start=START, end=END, step=60, **query, **{"match[]": '{service_name=~".+"}'}))
    return found


@st.composite
def generated_attacks(draw: st.DrawFn) -> str:
    """Return requests with drawn names, values and stages."""
    texts = st.sampled_from((*VALUES, *PATTERNS)) | st.text(st.characters(exclude_categories=["Cs"]), max_size=9)
    name = draw(st.sampled_from(NAMES))
    stages = [
        fill(draw(st.sampled_from(STAGES)), name, draw(texts), draw(texts)) for _ in range(draw(st.integers(0, 3)))
    ]
    matcher = f"{name}{draw(st.sampled_from(('=', '!=', '=~', '!~')))}{quote(draw(texts))}"
    query = f'{{service_name=~".+", {matcher}}} {" ".join(stages)}'
    return draw(st.sampled_from(ask_all(query, name)))
