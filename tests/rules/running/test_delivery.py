"""Delivery of alerts: Alertmanager and webhooks, silences, unavailable destinations, restarts."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest

from neve.app.rules.service import RuleService
from neve.rules.notify.outgoing_alert import fingerprint_labels
from neve.rules.notify.silences import Silences
from neve.rules.status import RuleStatuses
from tests.query.lakes import ACME, OTHER
from tests.rules.running.alert_receiver import Receiver, open_receiver
from tests.rules.running.desk import MINUTE, START_MS, Desk, write_rules

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from neve.lake.lake import Lake
    from neve.rules.running.cycle_result import CycleResult

RULES = """
groups:
  - name: shop
    rules:
      - {alert: Busy, expr: load > 5, labels: {severity: page}, annotations: {summary: 'load {{ $value }}'}}
"""


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """A destination."""
    with open_receiver() as found:
        yield found


class Room:
    """A service of rules whose clock moves by a minute with each cycle."""

    def __init__(
        self, lake: Lake, folder: Path, *destinations: dict[str, Any], start_ms: int = START_MS, **rules: Any
    ) -> None:
        path = write_rules(folder, RULES)
        given = {"files": {ACME: path}, "destinations": list(destinations), **rules}
        self.desk = Desk(lake, folder, given)
        self.minute = -1
        self.start_ms = start_ms
        self.restart()

    def restart(self) -> None:
        """Forget everything that is not stored."""
        self.desk.restart()
        self.service = RuleService(self.desk.runner, self.desk.documents)
        self.service.open()

    def cycle(self, *values: float, deliver: bool = True, org: str = ACME) -> CycleResult:
        """Run a cycle in which series have these values, and deliver."""
        self.minute += 1
        self.desk.now_ms = self.start_ms + self.minute * MINUTE
        for number, value in enumerate(values):
            self.desk.put("load", value, pod=str(number), org=org)
        with self.service.hold_lease() as lease:
            result = self.service.run_cycle(lease)
            while self.desk.runner.is_behind:
                result = self.service.run_cycle(lease)
        if deliver:
            self.service.deliver()
        return result


def manager(receiver: Receiver, **settings: Any) -> dict[str, Any]:
    """Return the settings of an Alertmanager."""
    return {"name": "manager", "url": receiver.url, **settings}


def webhook(receiver: Receiver, **settings: Any) -> dict[str, Any]:
    """Return the settings of a webhook."""
    return {"name": "hook", "kind": "webhook", "url": f"{receiver.url}/hook", **settings}


def test_alertmanager_gets_alerts_again(lake: Lake, tmp_path: Path, receiver: Receiver) -> None:
    """A firing alert is sent with each evaluation after the resend delay, and ends four intervals later by itself."""
    room = Room(lake, tmp_path, manager(receiver), resend_seconds=30, external_labels={"region": "eu", "severity": "x"})
    for _ in range(3):
        room.cycle(9)
    alerts = receiver.alerts()
    assert {path for _, path, _ in receiver.requests} == {"/api/v2/alerts"}
    assert [alert["startsAt"] for alert in alerts] == ["2025-10-09T08:54:00.000Z"] * 3
    lasts = [datetime.fromisoformat(one["endsAt"]) - datetime.fromisoformat(one["startsAt"]) for one in alerts]
    assert [one.total_seconds() for one in lasts] == [240, 300, 360]
    assert alerts[0]["labels"]["region"] == "eu"
    assert alerts[0]["labels"]["severity"] == "page"
    assert alerts[0]["annotations"] == {"summary": "load 9"}


def test_resolved_alerts_have_their_end(lake: Lake, tmp_path: Path, receiver: Receiver) -> None:
    """A resolved alert is sent with the time of its resolution."""
    room = Room(lake, tmp_path, manager(receiver))
    room.cycle(9)
    room.cycle(1)
    assert [one["endsAt"] for one in receiver.alerts()][-1] == "2025-10-09T08:55:00.000Z"


def test_webhooks_get_changes(lake: Lake, tmp_path: Path, receiver: Receiver) -> None:
    """A webhook gets the body of version 4 when alerts fire and are resolved, and repeats only after its own delay."""
    room = Room(lake, tmp_path, webhook(receiver, repeat_seconds=180), resend_seconds=30)
    for values in ((9, 8), (9, 8), (9, 8), (9, 8), (1, 1), (1, 1)):
        room.cycle(*values)
    bodies = [body for _, _, body in receiver.requests]
    assert [(body["status"], len(body["alerts"])) for body in bodies] == [("firing", 2), ("firing", 2), ("resolved", 2)]
    first = bodies[0]
    assert (first["version"], first["receiver"], first["groupLabels"]) == ("4", "hook", {"alertname": "Busy"})
    assert "pod" not in first["commonLabels"]
    alert = first["alerts"][0]
    assert alert["fingerprint"] == fingerprint_labels(tuple(sorted(alert["labels"].items())))


def test_an_unavailable_destination_waits(lake: Lake, tmp_path: Path, receiver: Receiver) -> None:
    """A destination that was away gets every alert when it is back, also those that ended meanwhile."""
    with open_receiver() as second:
        room = Room(lake, tmp_path, manager(receiver), {**webhook(second), "name": "second"})
        receiver.status = 503
        for value in (9, 9, 1, 1):
            room.cycle(value)
        assert receiver.alerts() == []
        assert [one["status"] for one in second.alerts()] == ["firing", "resolved"]
        receiver.status = 200
        room.restart()
        room.service.deliver()
        assert [(one["labels"]["pod"], one["startsAt"]) for one in receiver.alerts()] == [
            ("0", "2025-10-09T08:54:00.000Z")
        ]
        room.service.deliver()
        assert len(receiver.alerts()) == 1


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_webhook_that_was_away_gets_the_end(
    lake: Lake, tmp_path: Path, receiver: Receiver, *, is_restarted: bool
) -> None:
    """An alert that ended while a webhook was away arrives, also if its end was repeated meanwhile."""
    room = Room(lake, tmp_path, webhook(receiver), resend_seconds=30)
    receiver.status = 503
    for value in (9, 1, 1, 1):
        room.cycle(value)
    receiver.status = 200
    if is_restarted:
        room.restart()
    room.service.deliver()
    assert [one["status"] for one in receiver.alerts()] == ["resolved"]
    room.cycle(1)
    assert len(receiver.alerts()) == 1


@pytest.mark.parametrize("kind", [manager, webhook])
def test_an_alert_survives_a_kill_before_its_delivery(
    lake: Lake, tmp_path: Path, receiver: Receiver, kind: Any
) -> None:
    """An alert that was committed and not sent is sent by the next process, with the same start."""
    room = Room(lake, tmp_path, kind(receiver))
    room.cycle(9, deliver=False)
    room.restart()
    room.service.deliver()
    room.restart()
    room.service.deliver()
    assert [one["startsAt"] for one in receiver.alerts()] == ["2025-10-09T08:54:00.000Z"]


def test_silenced_alerts_are_not_sent(lake: Lake, tmp_path: Path, receiver: Receiver) -> None:
    """A silence holds alerts back while it is active, and a webhook gets them when it ends."""
    room = Room(lake, tmp_path, webhook(receiver), resend_seconds=30)
    silences, now = Silences(room.desk.documents), START_MS - MINUTE
    times = {"startsAt": "2025-10-09T08:53:30Z", "endsAt": "2025-10-09T08:56:30Z"}
    matchers = [{"name": "pod", "value": "0", "isRegex": False, "isEqual": True}]
    stored = silences.put(ACME, {"matchers": matchers, **times, "createdBy": "me", "comment": "planned"}, now)
    assert stored is not None
    silences.put(OTHER, {"matchers": [{"name": "alertname", "value": ".+", "isRegex": True}], **times}, now)
    room.cycle(9, 9)
    assert [one["labels"]["pod"] for one in receiver.alerts()] == ["1"]
    for _ in range(3):
        room.cycle(9, 9)
    assert [one["labels"]["pod"] for one in receiver.alerts()] == ["1", "0"]


def test_the_list_has_the_labels_that_are_sent(lake: Lake, tmp_path: Path, receiver: Receiver) -> None:
    """Silences match external labels in the list of alerts, too, and fingerprints are those of the destination."""
    room = Room(lake, tmp_path, manager(receiver), external_labels={"region": "eu"})
    room.cycle(9)
    (group,) = (one for one in RuleStatuses(room.desk.documents).of(ACME) if one.document["name"] == "shop")
    (alert,) = group.alerts
    assert dict(alert.sent_labels) == receiver.alerts()[0]["labels"]
    assert dict(alert.sent_labels)["region"] == "eu"


def test_rejected_alerts_cost_themselves_only(lake: Lake, tmp_path: Path, receiver: Receiver) -> None:
    """Of a request that is rejected, the alerts that are not the reason arrive."""
    room = Room(lake, tmp_path, manager(receiver))
    receiver.refused = {"pod": "1"}
    room.cycle(9, 9, 9)
    assert sorted(one["labels"]["pod"] for one in receiver.alerts()) == ["0", "2"]
    assert room.service.queues[0].pending == 0


def test_a_full_queue_drops_alerts_of_the_largest_organization(
    lake: Lake, tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a destination is away, an organization with many alerts costs another one none."""
    path = write_rules(tmp_path, RULES, "other.yml")
    room = Room(lake, tmp_path, manager(receiver), files={ACME: path, OTHER: path})
    monkeypatch.setattr("neve.rules.notify.delivery_queue.MAX_PENDING", 3)
    receiver.status = 503
    room.cycle(9)
    room.cycle(9, 9, 9, 9, org=OTHER)
    receiver.status = 200
    room.service.deliver()
    found = [one["labels"]["organization_id"] for one in receiver.alerts()]
    assert sorted(found) == [ACME, OTHER, OTHER]


def test_destinations_have_organizations(lake: Lake, tmp_path: Path, receiver: Receiver) -> None:
    """A destination gets alerts of its organizations only, and with several of them a label names each."""
    with open_receiver() as second:
        path = write_rules(tmp_path, RULES, "other.yml")
        room = Room(
            lake, tmp_path, manager(receiver, organizations=[OTHER]), {**manager(second), "name": "second"},
            files={ACME: path, OTHER: path},
        )  # fmt: skip
        room.desk.put("load", 9.0, START_MS, pod="spoof", organization_id=OTHER)  # a label that a tenant may send
        room.cycle(9)
        room.cycle(9, org=OTHER)
        assert {one["labels"]["organization_id"] for one in receiver.alerts()} == {OTHER}
        assert {one["labels"]["pod"] for one in receiver.alerts()} == {"0"}
        spoofed = [one["labels"] for one in second.alerts() if one["labels"]["pod"] == "spoof"]
        assert {one["organization_id"] for one in spoofed} == {ACME}
        assert {one["labels"]["organization_id"] for one in second.alerts()} == {ACME, OTHER}
