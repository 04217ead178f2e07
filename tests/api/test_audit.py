"""The audit log over HTTP: changes by operators are in it, with who made them and from where."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from neve.api.control.routes import control_routes
from neve.receive.authentication import KeyGuard
from neve.state.audit import CHANGES, record_command
from neve.state.keys import Keys
from neve.state.scopes import Scope
from neve.state.store import StateStore
from tests.api.operating import error_of, send
from tests.api.querying import Client, serving
from tests.api.test_query_openapi import check
from tests.query.lakes import ACME, OTHER

if TYPE_CHECKING:
    from neve.app.control import Control

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def no_entries(control: Control) -> None:
    """A log without entries of other tests."""
    for key, _value in list(control.documents.entries(CHANGES)):
        control.documents.delete(CHANGES, key)


def test_each_change_has_an_entry(operator: Client) -> None:
    """Jobs, pauses and policies, with the address of the client; a rejected change has none."""
    job = send(operator, "POST", "jobs", {"task": "compact", "table": "spans", "reason": "in a hurry"}).json["id"]
    assert send(operator, "POST", "jobs", {"task": "compact", "table": "nothing"}).status == 400
    send(operator, "POST", f"jobs/{job}/cancel")
    send(operator, "POST", f"jobs/{job}/replay")
    pause = send(operator, "POST", "pauses", {"tables": "metrics_*", "reason": "migration"}).json["id"]
    send(operator, "DELETE", f"pauses/{pause}")
    policies = {"policies": [{"name": "nightly", "tables": ["m*"], "tasks": {"compact": {"cron": "30 2 * * *"}}}]}
    send(operator, "PUT", "policies", policies, {"if-match": "*"})
    send(operator, "DELETE", "policies", headers={"if-match": "*"})
    reply = send(operator, "GET", "audit")
    check("AuditDocument", reply.json)
    entries = reply.json["entries"]
    assert [(one["action"], one["subject"]) for one in reversed(entries)][:5] == [
        ("job.start", job),
        ("job.cancel", job),
        ("job.replay", job),
        ("pause.start", pause),
        ("pause.end", pause),
    ]
    assert [one["action"] for one in entries[:2]] == ["policies.clear", "policies.write"]
    assert {(one["actor"], one["origin"], one["organization_id"]) for one in entries} == {
        ("anyone on this machine", "127.0.0.1", "*")
    }
    assert entries[-1]["details"]["reason"] == "in a hurry"
    found = send(operator, "GET", "audit?action=pause&limit=1").json["entries"]
    assert [one["action"] for one in found] == ["pause.end"]
    assert send(operator, "GET", "audit?since=2099-01-01T00:00:00Z").json["entries"] == []
    assert error_of(send(operator, "GET", "audit?since=never"))[:2] == (400, "bad_request")


def test_a_key_without_admin_reads_no_entries(control: Control) -> None:
    """An operator's key is named in the entries that it causes."""
    state = StateStore(control.settings.state)
    keys = Keys(state)
    _, plain = keys.create(OTHER)
    made, admin = keys.create(ACME, "on-call", [Scope.ADMIN])
    guard = KeyGuard(keys, 10)
    record_command(control.documents, "key.create", "k1", OTHER)
    with serving(None, guard, first=control_routes(control, guard)) as client:
        assert error_of(send(client, "GET", "audit", headers={"x-api-key": plain}))[:2] == (403, "wrong_scope")
        send(client, "POST", "pauses", {"tables": "logs"}, {"x-api-key": admin})
        [entry] = send(client, "GET", "audit?action=pause", headers={"x-api-key": admin}).json["entries"]
        assert (entry["actor"], entry["details"]["by_organization"]) == (f"key {made.id}", ACME)
        [own] = send(client, "GET", f"audit?organization={OTHER}", headers={"x-api-key": admin}).json["entries"]
        assert own["subject"] == "k1"
    state.close()
