"""Neve beside a real Alertmanager: alerts arrive there and end there, and both answer alike, also to amtool."""

from __future__ import annotations

import json
import time
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import pytest

from neve.api.alerting.routes import AlertingEndpoints, alerting_routes
from neve.receive.authentication import OpenGuard
from tests.api.querying import serving
from tests.parts.alertmanager import alertmanager, amtool
from tests.query.lakes import ACME
from tests.rules.running.alert_receiver import Receiver, open_receiver
from tests.rules.running.desk import MINUTE, write_rules
from tests.rules.running.test_delivery import Room

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from neve.lake.lake import Lake
    from tests.parts.alertmanager import Alertmanager

pytestmark = pytest.mark.parts
LIMIT_SECONDS = 120
MANAGER = """
route: {{receiver: manager, group_by: [alertname], group_wait: 1s, group_interval: 1s, repeat_interval: 4h}}
receivers: [{{name: manager, webhook_configs: [{{url: "{url}/hook"}}]}}]
"""
RULES = """
groups:
  - name: shop
    rules:
      - {alert: Busy, expr: load > 5, labels: {severity: page}, annotations: {summary: 'load {{ $value }}'}}
      - {alert: Full, expr: load > 8, labels: {team: 'a "quoted" one'}}
"""


@dataclass(frozen=True)
class Pair:
    """An Alertmanager that gets the alerts of a room, and the room's own API. `hook` is Alertmanager's receiver."""

    room: Room
    manager: Alertmanager
    hook: Receiver
    own: Receiver
    neve: str

    @property
    def addresses(self) -> tuple[str, str]:
        """Return the addresses of both APIs."""
        return self.manager.uri, self.neve


@pytest.fixture
def pair(alertmanager_binary: Path, lake: Lake, tmp_path: Path) -> Iterator[Pair]:
    """A room whose time is ten minutes ago, because an alert ends by the clock of Alertmanager."""
    start_ms = time.time_ns() // 1_000_000 // MINUTE * MINUTE - 10 * MINUTE
    with open_receiver() as hook, open_receiver() as own, alertmanager(MANAGER.format(url=hook.url)) as manager:
        destinations = [
            {"name": "manager", "url": manager.uri},
            {"name": "hook", "kind": "webhook", "url": f"{own.url}/hook"},
        ]
        files = {ACME: write_rules(tmp_path, RULES, "shop.yml")}
        given = {"files": files, "resend_seconds": 3600, "external_url": "http://neve:8480"}
        room = Room(lake, tmp_path, *destinations, start_ms=start_ms, **given)
        with serve(room) as address:
            yield Pair(room, manager, hook, own, address)


@contextmanager
def serve(room: Room) -> Iterator[str]:
    """Serve the API of a room, with Alertmanager as the only receiver."""
    config = room.desk.settings.rules
    guard = OpenGuard(ACME)
    endpoints = AlertingEndpoints(room.desk.documents, config.destinations[:1])
    with serving(None, guard, first=alerting_routes(endpoints, guard)) as client:
        yield f"http://127.0.0.1:{client.port}/alertmanager"


def fetch(address: str, path: str, body: Any = None, method: str = "GET") -> tuple[int, Any]:
    """Return status and document of an answer."""
    data = None if body is None else json.dumps(body).encode()
    request = Request(  # noqa: S310 - a server of this test
        f"{address}/api/v2{path}", data, {"content-type": "application/json"}, method=method
    )
    try:
        with urlopen(request, timeout=LIMIT_SECONDS) as answer:  # noqa: S310 - a server of this test
            text = answer.read()
            return answer.status, json.loads(text) if text else None
    except HTTPError as error:
        return error.code, None


def describe(alert: dict[str, Any]) -> tuple[Any, ...]:
    """Return what both servers say about an alert."""
    status = alert["status"]
    return (
        sorted(alert["labels"].items()),
        sorted(alert["annotations"].items()),
        datetime.fromisoformat(alert["startsAt"]),
        alert["fingerprint"],
        [one["name"] for one in alert["receivers"]],
        (status["state"], len(status["silencedBy"]), status["inhibitedBy"]),
    )


def list_alerts(address: str, **parameters: Any) -> tuple[int, Any]:
    """Return the alerts of a server, in an order of their own."""
    status, found = fetch(address, f"/alerts?{urlencode(parameters, doseq=True)}")
    return status, None if found is None else sorted(map(describe, found))


def list_groups(address: str) -> list[Any]:
    """Return the groups of a server: labels, receiver and alerts."""
    _, groups = fetch(address, "/alerts/groups")
    return sorted(
        (sorted(one["labels"].items()), one["receiver"]["name"], sorted(map(describe, one["alerts"]))) for one in groups
    )


def await_equal(first: Callable[[], Any], second: Callable[[], Any]) -> None:
    """Wait until Alertmanager has processed everything, and both are equal."""
    deadline = time.monotonic() + LIMIT_SECONDS
    while first() != second() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert first() == second()


def test_alerts_arrive_and_end(pair: Pair) -> None:
    """Alertmanager has the firing alerts with the same fingerprints, until they are resolved."""
    pair.room.cycle(6, 9, 1)
    assert len(list_alerts(pair.neve)[1]) == 3
    await_equal(lambda: list_alerts(pair.manager.uri), lambda: list_alerts(pair.neve))
    await_equal(lambda: list_groups(pair.manager.uri), lambda: list_groups(pair.neve))
    pair.room.cycle(6, 1, 1)
    assert [dict(one[0])["alertname"] for one in list_alerts(pair.neve)[1]] == ["Busy"]
    await_equal(lambda: list_alerts(pair.manager.uri), lambda: list_alerts(pair.neve))
    pair.room.cycle(1, 1, 1)
    await_equal(lambda: list_alerts(pair.manager.uri), lambda: (200, []))


def test_a_restart_repeats_the_same_alerts(pair: Pair) -> None:
    """Alerts that are sent again after a restart are the same alerts for Alertmanager, which notifies once."""
    pair.room.cycle(6, deliver=False)
    pair.room.restart()
    pair.room.service.deliver()
    await_equal(lambda: len(pair.hook.requests), lambda: 1)
    for queue in pair.room.service.queues:
        queue.documents.put("rules_cursors", queue.destination.name, {"cycle": 0, "sent": {}})  # killed before it
    pair.room.restart()
    pair.room.service.deliver()
    pair.room.cycle(1)
    await_equal(lambda: [body["status"] for _, _, body in pair.hook.requests], lambda: ["firing", "resolved"])
    assert len({one["startsAt"] for one in pair.hook.alerts()}) == 1


def test_webhooks_are_those_of_alertmanager(pair: Pair) -> None:
    """A webhook of Neve gets the body that Alertmanager sends for the same alerts."""
    for values in ((9, 6), (1, 1)):
        pair.room.cycle(*values)
        await_equal(lambda: bodies(pair.hook), lambda: bodies(pair.own))
    assert [body["status"] for body in bodies(pair.own)] == ["firing", "firing", "resolved", "resolved"]


def bodies(receiver: Receiver) -> list[dict[str, Any]]:
    """Return the bodies of a webhook without what differs: the receiver's name, its address, and ends in the future."""
    found = []
    for _, _, body in receiver.requests:
        alerts = []
        for one in sorted(body["alerts"], key=lambda one: str(one["fingerprint"])):
            ends = datetime.fromisoformat(one["endsAt"]) if one["status"] == "resolved" else None
            starts = datetime.fromisoformat(one["startsAt"])
            alerts.append({**one, "startsAt": starts, "endsAt": ends})
        own = {**body, "alerts": alerts, "receiver": "", "externalURL": ""}
        for name in NEWER:
            own.pop(name, None)
        found.append(own)
    return sorted(found, key=lambda own: (own["status"], own["groupKey"]))


NEWER = ("notification_reason", "routeLabels")  # keys that older versions of Alertmanager do not send either
SILENCES = (
    [{"name": "pod", "value": "0", "isRegex": False, "isEqual": True}],
    [{"name": "alertname", "value": "Fu.*", "isRegex": True}],
    [
        {"name": "team", "value": "a.*", "isRegex": True, "isEqual": False},
        {"name": "pod", "value": "1", "isRegex": False},
    ],
)
# Neve also accepts braces around a filter and an empty one. It rejects words that are no booleans.
FILTERS: tuple[dict[str, Any], ...] = (
    {},
    {"active": "false"},
    {"silenced": "false"},
    {"active": "false", "silenced": "false"},
    {"inhibited": "false"},
    {"unprocessed": "false"},
    {"receiver": "man.*"},
    {"receiver": "other"},
    {"filter": "pod=0"},
    {"filter": 'pod="0"'},
    {"filter": '"pod"="0"'},
    {"filter": "pod!=0"},
    {"filter": 'pod=~"0|1"'},
    {"filter": "pod!~0"},
    {"filter": "missing="},
    {"filter": ["severity=page", "pod=1"]},
    {"filter": r'team="a \"quoted\" one"'},
    {"filter": 'a=~"("'},
    {"filter": "pod"},
    {"receiver": "("},
)


def test_silences_and_filters(pair: Pair) -> None:
    """With the same silences, both servers answer alike to filters, right and wrong ones."""
    pair.room.cycle(9, 6, 9)
    await_equal(lambda: list_alerts(pair.manager.uri), lambda: list_alerts(pair.neve))
    for matchers in (None, *SILENCES):
        if matchers is not None:
            for address in pair.addresses:
                assert fetch(address, "/silences", silence(matchers), "POST")[0] == 200
        wanted = {json.dumps(one): list_alerts(pair.neve, **one) for one in FILTERS}
        await_equal(lambda: {json.dumps(one): list_alerts(pair.manager.uri, **one) for one in FILTERS}, lambda: wanted)  # noqa: B023 - used at once
        await_equal(lambda: list_groups(pair.manager.uri), lambda: list_groups(pair.neve))
    for name in ("pod=0", "pod=1", 'alertname=~"Fu.*"', "alertname=Full"):
        path = f"/silences?{urlencode({'filter': name})}"
        theirs, ours = (
            sorted(json.dumps(one["matchers"], sort_keys=True) for one in fetch(address, path)[1])
            for address in pair.addresses
        )
        assert ours == theirs, name


def silence(matchers: Any, **further: Any) -> dict[str, Any]:
    """Return a silence of an hour."""
    now = datetime.now(UTC)
    times = {"startsAt": now.isoformat(), "endsAt": (now + timedelta(hours=1)).isoformat()}
    return {"matchers": matchers, **times, "createdBy": "me", "comment": "planned", **further}


WRONG: tuple[Any, ...] = (
    silence([]),
    silence([{"name": "pod", "value": ".*", "isRegex": True}]),
    silence([{"name": "pod", "value": "(", "isRegex": True}]),
    silence([{"name": "", "value": "a", "isRegex": False}]),
    silence(SILENCES[0], endsAt="2020-01-01T00:00:00Z"),
    silence(SILENCES[0], endsAt="soon"),
    silence(SILENCES[0], comment=5),
    {"matchers": SILENCES[0]},
    silence(SILENCES[0], id="12345678-1234-1234-1234-123456789012"),
)


def test_wrong_silences(pair: Pair) -> None:
    """Silences that Alertmanager rejects are rejected, and none is stored."""
    for document in WRONG:
        statuses = [fetch(address, "/silences", document, "POST")[0] for address in pair.addresses]
        assert [status // 100 for status in statuses] == [4, 4], (document, statuses)
    assert [fetch(address, "/silences")[1] for address in pair.addresses] == [[], []]
    path = "/silence/12345678-1234-1234-1234-123456789012"
    assert [fetch(address, path)[0] for address in pair.addresses] == [404, 404]
    assert [fetch(address, path, method="DELETE")[0] for address in pair.addresses] == [404, 404]


def test_amtool(pair: Pair) -> None:
    """The commands of amtool about alerts and silences print the same for both servers."""
    pair.room.cycle(9, 6)
    await_equal(lambda: list_alerts(pair.manager.uri), lambda: list_alerts(pair.neve))
    assert "Busy" in amtool(pair.neve, "alert", "query", "-o", "extended")
    for query in (["alert", "query"], ["alert", "query", "pod=0"], ["alert", "query", "--silenced"]):
        theirs, ours = (amtool(address, *query, "-o", "simple") for address in pair.addresses)
        assert sorted(ours.splitlines()) == sorted(theirs.splitlines())
    for address in pair.addresses:
        options = ["--author=me", "--comment=planned", "--duration=1h"]
        found = amtool(address, "silence", "add", *options, "alertname=Busy", "pod=~0|5").strip()
        assert found in amtool(address, "silence", "query")
        silenced = json.loads(amtool(address, "alert", "query", "--silenced", "-o", "json"))
        assert [(one["labels"]["alertname"], one["labels"]["pod"]) for one in silenced] == [("Busy", "0")]
        amtool(address, "silence", "update", "--comment=longer", "--duration=2h", found)
        (known,) = json.loads(amtool(address, "silence", "query", "-o", "json"))
        assert known["comment"] == "longer"
        amtool(address, "silence", "expire", known["id"])
        assert json.loads(amtool(address, "silence", "query", "-o", "json")) == []
        assert len(json.loads(amtool(address, "silence", "query", "--expired", "-o", "json"))) >= 1
