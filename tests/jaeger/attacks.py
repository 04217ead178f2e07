"""Attacks in the parameters and paths of Jaeger's HTTP API, for the suite of `tests/query/attacks.py`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from hypothesis import strategies as st

from neve.api.jaeger.routes import PREFIX
from tests.query.attacks import CANARY, OWN
from tests.query.lakes import ACME, OTHER
from tests.traceql.attacks import TRACES, VALUES
from tests.traceql.plain_traces import BASE, trace_id

if TYPE_CHECKING:
    from tests.api.querying import Client

START, END = BASE // 1000 - 10**8, BASE // 1000 + 10**8
DATES = {"query.startTimeMin": "2025-10-09T08:00:00Z", "query.startTimeMax": "2025-10-09T10:00:00Z"}
NAMES = ("who", CANARY, "organization_id", "organization", "x'] OR true --", "event", "error", "span.kind", "a]b", "?")
IDS = (trace_id(TRACES[OTHER]).hex(), trace_id(TRACES[ACME]).hex(), "0" * 32, "2' OR '1'='1", "2", "%27", "f" * 33)
PATHS = ("/services", "/operations", "/traces", "/dependencies", "/v3/services", "/v3/operations", "/v3/traces")


@dataclass(frozen=True)
class JaegerDoor:
    """Jaeger's HTTP API. A statement is a path with its parameters."""

    client: Client

    def ask(self, statement: str) -> str:
        """Return the body of the answer."""
        headers = {"X-Scope-OrgID": OTHER, "X-Organization": OTHER, "X-Tenant": OTHER}
        return self.client.send("GET", statement, headers=headers).body.decode(errors="replace")


def request(path: str, **parameters: str | int | list[str]) -> str:
    """Return the address of a request, with parameters that try to choose the organization."""
    wide = {"organization": OTHER, "organization_id": OTHER, "org": OTHER, "tenant": OTHER}
    times = {"start": START, "end": END, "endTs": END // 1000, "lookback": 2 * 10**5, **DATES}
    return f"{PREFIX}{path}?{urlencode({**times, **parameters, **wide}, doseq=True)}"


def search(service: str, name: str, value: str) -> list[str]:
    """Return searches of both versions with a tag."""
    tags = json.dumps({name: value})
    return [
        request("/traces", service=service, tags=tags),
        request("/traces", service=service, tag=f"{name}:{value}", operation=value, minDuration="0s"),
        request("/v3/traces", **{"query.serviceName": service, "query.attributes": tags}),
        request("/v3/traces", **{"query.operation_name": value}),
    ]


def fixed_attacks() -> list[str]:
    """Return requests with every path, id, name and value."""
    found = [request(path, service=one) for path in PATHS for one in (CANARY, OWN, OTHER, "")]
    found += [request(f"{path}/{quote(one, safe='')}") for path in ("/traces", "/v3/traces") for one in IDS]
    found += [request("/traces", traceID=[one, IDS[0]], service=OWN) for one in IDS]
    for value in (*VALUES, CANARY):
        found.append(request(f"/services/{quote(value, safe='')}/operations"))
        found.append(request("/operations", service=value, spanKind="server"))
    for index, name in enumerate(NAMES):
        for service in (OWN, CANARY, VALUES[index % len(VALUES)]):
            found += search(service, name, VALUES[(index + 3) % len(VALUES)])
    return found + search(OWN, "who", OWN) + search(OWN, "span.kind", "server")


@st.composite
def generated_attacks(draw: st.DrawFn) -> str:
    """Return requests with drawn services, names and values."""
    texts = st.sampled_from((*VALUES, *NAMES)) | st.text(st.characters(exclude_categories=["Cs"]), max_size=9)
    searches = search(draw(texts), draw(texts), draw(texts))
    path, place = draw(st.sampled_from(PATHS)), quote(draw(texts), safe="")
    others = [request(path, **{draw(st.sampled_from(("service", "traceID", "limit", "lookback"))): draw(texts)})]
    others += [request(f"/services/{place}/operations"), request(f"/traces/{place}")]
    return draw(st.sampled_from(searches + others))
