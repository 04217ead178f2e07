"""Attacks in TraceQL and in the parameters of Tempo's HTTP API, for the suite of `tests/query/attacks.py`.

The canary is the service, the name, an attribute's name and value, an event and a link of the other organization.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote as quote_path
from urllib.parse import urlencode

from hypothesis import strategies as st

from neve.api.tempo.routes import PREFIX
from neve.lexical.literals import quote
from neve.model.signals import Signal
from tests.query.attacks import CANARY, OWN
from tests.query.lakes import ACME, OTHER, put
from tests.traceql.plain_traces import BASE, PlainSpan, to_otlp, trace_id

if TYPE_CHECKING:
    from neve.lake.lake import Lake
    from tests.api.querying import Client
    from tests.traceql.plain_traces import Value

START, END = BASE // 10**9 - 100, BASE // 10**9 + 100
TRACES = {ACME: 1, OTHER: 2}
FIELDS = (
    "name",
    "rootServiceName",
    "statusMessage",
    "event:name",
    "trace:id",
    "resource.service.name",
    "span.organization_id",
    ".who",
    'span."x\'] OR true --"',
    'resource."?"',
    "event.who",
    "link.who",
    "instrumentation.who",
)
VALUES = (
    OTHER,
    CANARY,
    "' OR organization_id <> ''",
    "\\",
    "x') UNION ALL SELECT * FROM spans --",
    "?",
    "%",
    "\U0001f989",
)
PATTERNS = (".*", ".+", "(?i)CANARY.*", ".*canary.*", "(?s:.)*", "[^x]+", "|.+")
PIPELINES = (
    "{f}",
    "{f} >> {{ }}",
    "{{ }} !>> {f}",
    "{{ }} &~ {f}",
    "{f} || {{ }}",
    "{{ }} && {f}",
    "{f} | by({n}) | count() > 0",
    "{f} | select({n}, span.who, event.who)",
    "({f} | coalesce()) << {{ }}",
)
METRICS = (
    "{f} | rate() by ({n})",
    "{f} | count_over_time() by ({n}, span.who)",
    "{f} | compare({{ }}, 100)",
    "({f} | rate()) / ({{ }} | rate())",
)
LISTS = ("/search/tags", "/v2/search/tags", "/search/tag/{p}/values", "/v2/search/tag/{p}/values")


def add_spans(lake: Lake) -> None:
    """Add a trace of both organizations, with the texts in every place."""
    for owner, text in ((ACME, OWN), (OTHER, CANARY)):
        pairs: dict[str, Value] = {"who": text, text: "x"}
        trace, events = TRACES[owner], ((1, text, pairs),)
        texts = (text, text, 2, 2, text, pairs, pairs, pairs, text, events, ((trace, 1, pairs),))
        spans = [PlainSpan(trace, number, number - 1 or None, number, 50, *texts) for number in range(1, 5)]
        put(lake, owner, Signal.TRACES, to_otlp(spans), batch=f"-{owner}-spans")


@dataclass(frozen=True)
class TraceqlDoor:
    """Tempo's HTTP API. A statement is a path with its parameters."""

    client: Client

    def ask(self, statement: str) -> str:
        """Return the body of the answer."""
        headers = {"X-Scope-OrgID": OTHER, "X-Organization": OTHER}
        return self.client.send("GET", statement, headers=headers).body.decode(errors="replace")


def request(path: str, **parameters: str | int) -> str:
    """Return the address of a request, with parameters that try to choose the organization."""
    wide = {"organization": OTHER, "organization_id": OTHER, "org": OTHER, "tenant": OTHER}
    return f"{PREFIX}{path}?{urlencode({'start': START, 'end': END, **parameters, **wide})}"


def ask_all(field: str, condition: str) -> list[str]:
    """Return requests for traces and for series."""
    given = f"{{ {condition} }}"
    found = [request("/search", q=one.format(f=given, n=field), limit=1000, spss=100) for one in PIPELINES]
    return found + [request("/metrics/query_range", q=one.format(f=given, n=field), step=60) for one in METRICS]


def write_condition(field: str, symbol: str, value: str) -> str:
    """Return a comparison, or whether a field exists."""
    return f"{field} {symbol} {quote(value)}" if symbol else f"{field} != nil"


def fixed_attacks() -> list[str]:
    """Return requests with every field, value, pattern and path."""
    found = [request(f"{path}{trace_id(TRACES[OTHER]).hex()}") for path in ("/traces/", "/v2/traces/")]
    for index, field in enumerate(FIELDS):
        value, pattern = VALUES[index % len(VALUES)], PATTERNS[index % len(PATTERNS)]
        symbols = (("=", value), ("!=", value), ("=~", pattern), ("!~", pattern), ("", ""))
        symbol, text = symbols[index % len(symbols)]
        found += ask_all(field, write_condition(field, symbol, text))[index % 2 :: 2]
        for path in LISTS:
            place = path.format(p=quote_path(field.split(".", 1)[-1] if "v2" not in path else field, safe=""))
            found.append(request(place, q=f"{{ {write_condition(field, '=~', pattern)} }}", scope="all", tags=value))
    return [*found, *(request("/search", tags=f"{field}={quote(one)}") for field in ("name", "who") for one in VALUES)]


@st.composite
def generated_attacks(draw: st.DrawFn) -> str:
    """Return requests with drawn fields, values and pipelines."""
    texts = st.sampled_from((*VALUES, *PATTERNS)) | st.text(st.characters(exclude_categories=["Cs"]), max_size=9)
    field = draw(st.sampled_from(FIELDS))
    condition = write_condition(field, draw(st.sampled_from(("=", "!=", "=~", "!~", "<", ">", ""))), draw(texts))
    return draw(st.sampled_from(ask_all(field, condition)))
