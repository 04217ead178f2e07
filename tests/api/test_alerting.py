"""Rules and alerts over HTTP: Prometheus' and Alertmanager's documents, silences, tenancy."""

from __future__ import annotations

import json
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import pytest

from neve.api.alerting.routes import ALERTMANAGER, AlertingEndpoints, alerting_routes
from neve.api.prometheus.routes import PREFIX
from neve.app.settings import Settings
from neve.app.wiring import build_documents
from neve.promql.labels import make_labels
from neve.receive.authentication import KeyGuard, OpenGuard
from neve.rules.alerts import Alert, AlertState
from neve.rules.config import NotifierConfig
from neve.rules.evaluation import RuleResult, RuleState
from neve.rules.rule_file import parse_rules
from neve.rules.running.recorded_rows import GroupKey, GroupResult
from neve.rules.status import RuleStatuses
from neve.state.audit import AuditLog
from neve.state.scopes import Caller, Scope
from tests.api.querying import Client, serving
from tests.api.running import JSON
from tests.query.lakes import ACME, OTHER

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from neve.receive.authentication import Guard
    from neve.state.documents import Documents

AT = 1_760_000_040_000
RULES = """
groups:
  - name: shop
    interval: 30s
    rules:
      - {record: "load:max", expr: max(load), labels: {team: web}}
      - alert: Busy
        expr: load > 5
        for: 1m
        labels: {severity: page}
        annotations: {summary: busy}
  - name: other
    rules: [{alert: Quiet, expr: load < 1}]
"""


def make_alert(pod: str, state: AlertState, name: str = "Busy") -> Alert:
    """Return an alert of a pod."""
    fired = AT if state is AlertState.FIRING else None
    resolved = AT if state is AlertState.INACTIVE else None
    labels = make_labels({"alertname": name, "pod": pod, "severity": "page"})
    return Alert(labels, (("summary", "busy"),), 9.5, state, AT - 60_000, fired, resolved)


def publish(documents: Documents, organization: str, *alerts: Alert, error: str = "") -> None:
    """Store the last evaluation of an organization's groups, with alerts of the rule Busy."""
    for group in parse_rules(RULES, "").groups:
        states = [RuleState({}, frozenset(), AT, error) for _ in group.rules]
        if group.name == "shop":
            states[1] = RuleState({one.labels: one for one in alerts}, frozenset(), AT)
        key = GroupKey(organization, "/etc/secret/rules.yml", group.name)
        result = GroupResult(key, group, AT, [RuleResult(one) for one in states], 7, seconds=0.25)
        RuleStatuses(documents).publish([result], 3, 2**60, {key: group.interval_ms or 60_000})


@pytest.fixture
def documents(tmp_path: Path) -> Iterator[Documents]:
    """A state store with a firing, a pending and a resolved alert of acme, and one of another organization."""
    found = build_documents(Settings.model_validate({"state": {"path": str(tmp_path / "state.db")}}))
    publish(
        found,
        ACME,
        make_alert("a", AlertState.FIRING),
        make_alert("b", AlertState.PENDING),
        make_alert("c", AlertState.INACTIVE),
        error="too many series",
    )
    publish(found, OTHER, make_alert("secret", AlertState.FIRING))
    yield found
    found.close()


@contextmanager
def open_client(documents: Documents, guard: Guard | None = None) -> Iterator[Client]:
    """Serve the paths to one organization, or to keys."""
    guard = guard or OpenGuard(ACME)
    destinations = [
        NotifierConfig(name="pager", url="http://pager:9093"),
        NotifierConfig(name="theirs", url="http://pager:9093", organizations=(OTHER,)),
    ]
    routes = alerting_routes(AlertingEndpoints(documents, destinations), guard)
    with serving(None, guard, first=routes) as client:
        yield client


@pytest.fixture
def client(documents: Documents) -> Iterator[Client]:
    """A client of acme."""
    with open_client(documents) as found:
        yield found


def get(client: Client, path: str, headers: dict[str, str] | None = None, **parameters: Any) -> tuple[int, Any]:
    """Return status and document of a GET."""
    reply = client.send("GET", f"{path}?{urlencode(parameters, doseq=True)}", headers=headers)
    return reply.status, json.loads(reply.body)


def silence(**further: Any) -> dict[str, Any]:
    """Return a silence of an hour for the pod a."""
    now = datetime.now(UTC)
    matchers = [{"name": "pod", "value": "a", "isRegex": False}]
    times = {"startsAt": now.isoformat(), "endsAt": (now + timedelta(hours=1)).isoformat()}
    return {"matchers": matchers, **times, "createdBy": "me", "comment": "planned", **further}


def post(client: Client, document: Any, headers: dict[str, str] | None = None) -> tuple[int, Any]:
    """Store a silence."""
    body = json.dumps(document).encode()
    reply = client.send("POST", f"{ALERTMANAGER}/silences", body, {**JSON, **(headers or {})})
    return reply.status, json.loads(reply.body)


def test_rules(client: Client) -> None:
    """Groups and rules have Prometheus' fields, and no path of the server."""
    status, document = get(client, f"{PREFIX}/rules")
    assert (status, document["status"]) == (200, "success")
    other, shop = document["data"]["groups"]
    assert (other["name"], shop["name"], shop["file"], shop["interval"]) == ("other", "shop", "rules.yml", 30)
    recording, alerting = shop["rules"]
    assert (recording["type"], recording["health"], recording["lastError"]) == ("recording", "err", "too many series")
    assert (alerting["type"], alerting["state"], alerting["duration"], alerting["health"]) == (
        "alerting",
        "firing",
        60,
        "ok",
    )
    assert sorted((one["labels"]["pod"], one["state"]) for one in alerting["alerts"]) == [
        ("a", "firing"),
        ("b", "pending"),
    ]
    assert alerting["alerts"][0]["value"] == "9.5e+00"
    assert "secret" not in json.dumps(document)


@pytest.mark.parametrize(
    ("parameters", "names"),
    [
        ({"type": "alert"}, ["Quiet", "Busy"]),
        ({"type": "record"}, ["load:max"]),
        ({"rule_name[]": ["Busy", "Quiet"]}, ["Quiet", "Busy"]),
        ({"rule_group[]": "shop"}, ["load:max", "Busy"]),
        ({"file[]": "none.yml"}, []),
        ({"match[]": '{team="web"}'}, ["load:max"]),
        ({"group_limit": "1"}, ["Quiet"]),
    ],
)
def test_filters_of_rules(client: Client, parameters: dict[str, Any], names: list[str]) -> None:
    """Parameters choose groups and rules."""
    _, document = get(client, f"{PREFIX}/rules", **parameters)
    assert [rule["name"] for group in document["data"]["groups"] for rule in group["rules"]] == names


def test_pages_of_rules(client: Client) -> None:
    """The token of a page leads to the next one, and a wrong one is an error."""
    _, first = get(client, f"{PREFIX}/rules", group_limit=1)
    _, second = get(client, f"{PREFIX}/rules", group_limit=1, group_next_token=first["data"]["groupNextToken"])
    assert [one["name"] for one in second["data"]["groups"]] == ["shop"]
    assert "groupNextToken" not in second["data"]
    for wrong in ({"group_limit": 1, "group_next_token": "x"}, {"group_next_token": "x"}, {"type": "x"}):
        status, document = get(client, f"{PREFIX}/rules", **wrong)
        assert (status, document["errorType"]) == (400, "bad_data")


def test_alerts(client: Client) -> None:
    """Prometheus lists pending and firing alerts, Alertmanager firing ones with their receivers."""
    _, document = get(client, f"{PREFIX}/alerts")
    assert sorted(one["labels"]["pod"] for one in document["data"]["alerts"]) == ["a", "b"]
    _, alerts = get(client, f"{ALERTMANAGER}/alerts")
    assert [(one["labels"]["pod"], one["status"]["state"]) for one in alerts] == [("a", "active")]
    assert [one["name"] for one in alerts[0]["receivers"]] == ["pager"]
    assert alerts[0]["startsAt"] == "2025-10-09T08:54:00.000Z"
    _, groups = get(client, f"{ALERTMANAGER}/alerts/groups")
    assert [(one["labels"], one["receiver"]["name"], len(one["alerts"])) for one in groups] == [
        ({"alertname": "Busy"}, "pager", 1)
    ]
    for wanted in ('pod="b"', "pod!=a", 'alertname=~"Q.*"'):
        assert get(client, f"{ALERTMANAGER}/alerts", filter=wanted) == (200, [])
    assert get(client, f"{ALERTMANAGER}/alerts", receiver="page.*")[1]
    assert get(client, f"{ALERTMANAGER}/alerts", filter='a=~"("')[0] == 400
    assert get(client, f"{ALERTMANAGER}/alerts", active="x")[0] == 400


def test_grafana_finds_an_alertmanager(client: Client) -> None:
    """The status is at one prefix and not at two, as Grafana's health check of Prometheus' Alertmanager needs."""
    assert get(client, f"{ALERTMANAGER}/status")[1]["versionInfo"]["version"]
    assert client.send("GET", f"/alertmanager{ALERTMANAGER}/status").status == 404
    assert get(client, f"{ALERTMANAGER}/receivers")[1] == [{"name": "pager"}]


def test_silences(client: Client) -> None:
    """A silence is stored, listed, applied, changed and ended."""
    status, document = post(client, silence())
    assert status == 200
    found = document["silenceID"]
    _, alerts = get(client, f"{ALERTMANAGER}/alerts")
    assert (alerts[0]["status"]["state"], alerts[0]["status"]["silencedBy"]) == ("suppressed", [found])
    assert get(client, f"{ALERTMANAGER}/alerts", silenced="false")[1] == []
    assert post(client, silence(id=found, comment="longer"))[1] == {"silenceID": found}
    _, one = get(client, f"{ALERTMANAGER}/silence/{found}")
    assert (one["comment"], one["status"]["state"]) == ("longer", "active")
    assert client.send("DELETE", f"{ALERTMANAGER}/silence/{found}").status == 200
    _, listed = get(client, f"{ALERTMANAGER}/silences")
    assert [one["status"]["state"] for one in listed] == ["expired"]
    assert get(client, f"{ALERTMANAGER}/alerts")[1][0]["status"]["state"] == "active"


def test_changes_of_silences_are_audited(client: Client, documents: Documents) -> None:
    """Who silenced what until when is in the audit log of the organization; refused changes are not."""
    pod = {"name": "pod", "value": "a|b", "isRegex": True, "isEqual": False}
    found = post(client, silence(matchers=[{"name": "job", "value": "api"}, pod]))[1]["silenceID"]
    assert client.send("DELETE", f"{ALERTMANAGER}/silence/{found}").status == 200
    assert client.send("DELETE", f"{ALERTMANAGER}/silence/unknown").status == 404
    entries = [entry for _space, entry in AuditLog(documents).waiting()]
    told = [(one.action, one.subject, one.organization) for one in entries]
    assert told == [("silence.put", found, ACME), ("silence.expire", found, ACME)]
    assert entries[0].details["matchers"] == 'job="api", pod!~"a|b"'
    assert (entries[0].details["createdBy"], entries[0].details["comment"]) == ("me", "planned")


@pytest.mark.parametrize(
    "document",
    [
        [],
        silence(matchers=[]),
        silence(matchers=[{"name": "pod", "value": ".*", "isRegex": True}]),
        silence(matchers=[{"name": "pod", "value": "(", "isRegex": True}]),
        silence(matchers=[{"name": "", "value": "a"}]),
        silence(matchers=[{"name": "pod", "value": "a"}] * 1000),
        silence(endsAt="2020-01-01T00:00:00Z"),
        silence(endsAt="soon"),
        silence(comment="x" * 5000),
        silence(comment=5),
    ],
)
def test_bad_silences(client: Client, document: Any) -> None:
    """A silence that can't be stored is an error."""
    assert post(client, document)[0] == 400
    assert get(client, f"{ALERTMANAGER}/silences")[1] == []


class Book:
    """Keys `organization:scopes`."""

    def verify(self, text: str) -> Caller | None:
        """Look one up."""
        organization, _, scopes = text.partition(":")
        return Caller(organization, text, tuple(Scope(one) for one in scopes.split(",")))


def test_keys(documents: Documents) -> None:
    """A key reaches rules, alerts and silences of its own organization alone, and changes them with the scope write."""

    def key(text: str) -> dict[str, str]:
        return {"authorization": f"Bearer {text}"}

    with open_client(documents, KeyGuard(Book(), 60)) as client:
        assert post(client, silence(), key(f"{ACME}:read"))[0] == 403
        assert get(client, f"{ALERTMANAGER}/silences", key(f"{ACME}:write"))[0] == 403
        status, document = post(client, silence(), key(f"{ACME}:read,write"))
        assert status == 200
        place = f"{ALERTMANAGER}/silence/{document['silenceID']}"
        for theirs in (f"{OTHER}:read,write", f"{ACME}2:read,write", "ac:read,write"):
            assert get(client, f"{ALERTMANAGER}/silences", key(theirs))[1] == []
            assert get(client, place, key(theirs))[0] == 404
            assert client.send("DELETE", place, headers=key(theirs)).status == 404
            assert post(client, silence(id=document["silenceID"]), key(theirs))[0] == 404
        attack = f"{ALERTMANAGER}/silence/..%2F{ACME}%2F{document['silenceID']}"
        assert client.send("DELETE", attack, headers=key(f"{OTHER}:read,write")).status == 404
        assert client.send("DELETE", place, headers=key(f"{ACME}:read")).status == 403
        assert get(client, place, key(f"{ACME}:read"))[1]["status"]["state"] == "active"
        for path in (f"{PREFIX}/rules", f"{PREFIX}/alerts", f"{ALERTMANAGER}/alerts", f"{ALERTMANAGER}/alerts/groups"):
            assert "secret" not in json.dumps(get(client, path, key(f"{ACME}:read"))[1])
            assert client.send("GET", path).status == 401


def test_other_pages_change_nothing(client: Client) -> None:
    """A web page of another origin can't silence alerts on a port without keys."""
    assert post(client, silence(), {"origin": "http://evil.example"})[0] == 403
