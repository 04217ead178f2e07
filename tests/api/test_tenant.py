"""Tenants look at their own decisions, rejected records, costs and freshness, and never at those of others."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from neve.api.tenant.routes import tenant_routes
from neve.compact.budgets import SPACE as SPENT
from neve.query.config import QueryConfig
from neve.query.service import QueryService
from neve.raw import frame as frame_format
from neve.raw.zone import OTLP, RawZone
from neve.receive.authentication import KeyGuard
from neve.state.keys import Keys
from neve.state.scopes import Scope
from neve.state.store import StateStore
from tests.api.operating import error_of, send
from tests.api.own_rows import GOOD, RANGE, TRACE, owned
from tests.api.querying import Client, serving
from tests.api.test_query_openapi import check
from tests.query.lakes import ACME, OTHER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from neve.app.control import Control
    from tests.api.running import Reply

pytestmark = [pytest.mark.lake, pytest.mark.slow]


class Tenants:
    """Clients of two organizations, and one whose key may only read."""

    def __init__(self, client: Client, keys: dict[str, str]) -> None:
        self.client, self.keys = client, keys

    def get(self, path: str, who: str = ACME) -> Reply:
        """Read a path as one of them."""
        return send(self.client, "GET", path, headers={"x-api-key": self.keys[who]})

    def post(self, path: str, who: str = ACME) -> Reply:
        """Post nothing to a path as one of them."""
        return send(self.client, "POST", path, headers={"x-api-key": self.keys[who]})


@pytest.fixture(scope="module")
def control(tmp_path_factory: pytest.TempPathFactory, iceberg: None) -> Iterator[Control]:
    """The control of a lake with rows of two organizations."""
    with owned(tmp_path_factory.mktemp("owned")) as found:
        yield found


@pytest.fixture(scope="module")
def tenants(control: Control) -> Iterator[Tenants]:
    """Keys of two organizations at one server."""
    state = StateStore(control.settings.state)
    keys = Keys(state)
    made = {who: keys.create(who)[1] for who in (ACME, OTHER)}
    made["reader"] = keys.create(ACME, "reader", [Scope.READ])[1]
    guard, service = KeyGuard(keys, 10), QueryService(control.lake, QueryConfig())
    with serving(service, guard, first=tenant_routes(service, control, guard)) as client:
        yield Tenants(client, made)
    service.close()
    state.close()


def ids(tenants: Tenants, who: str = ACME) -> dict[str, str]:
    """The rejected records of an organization by reason."""
    listed = tenants.get(f"quarantine?{RANGE}", who).json["records"]
    return {one["reason"]: one["id"] for one in listed}


def test_rejected_records_are_grouped_by_reason_and_source(tenants: Tenants) -> None:
    """Each group has its records, and the bars add up to the total."""
    found = tenants.get(f"quarantine/groups?{RANGE}").json
    check("RefusalGroups", found)
    assert found["total"] == sum(bar["records"] for bar in found["bars"]) == 4
    assert {(one["reason"], one["source"], one["records"]) for one in found["groups"]} == {
        ("time_in_future", "otlp", 1),
        ("malformed_message", "otlp", 1),
        ("bad_line", "app.csv", 1),
        ("too_large", "otlp", 1),
    }


def test_rejected_records_come_by_pages_and_filters(tenants: Tenants) -> None:
    """Newest first; a page says whether more follow."""
    first = tenants.get(f"quarantine?{RANGE}&limit=1").json
    check("RefusedPage", first)
    assert ([one["reason"] for one in first["records"]], first["more"]) == (["malformed_message"], True)
    rest = tenants.get(f"quarantine?{RANGE}&limit=10&offset=1").json
    assert (len(rest["records"]), rest["more"]) == (3, False)
    only = tenants.get(f"quarantine?{RANGE}&reason=bad_line&source=app.csv").json
    assert [one["encoding"] for one in only["records"]] == ["csv"]


def test_a_rejected_record_is_shown_as_bytes_and_decoded(tenants: Tenants) -> None:
    """OTLP as JSON, text as it is, and for what can't be decoded the reason."""
    known = ids(tenants)
    good = tenants.get(f"quarantine/{known['time_in_future']}").json
    check("RefusedDetail", good)
    assert (good["hex"], good["retry"]) == (GOOD.hex(), "yes")
    assert '"stringValue": "refused once"' in good["decoded"]
    broken = tenants.get(f"quarantine/{known['malformed_message']}").json
    assert (broken["hex"], broken["decoded"]) == ("ff003c623e", None)
    assert broken["decoded_note"].startswith("it is not a message of OTLP")
    line = tenants.get(f"quarantine/{known['bad_line']}").json
    assert (line["decoded"], line["retry"].startswith("only messages of OTLP")) == ("a,b\n=1", True)
    large = tenants.get(f"quarantine/{known['too_large']}").json
    assert (large["bytes"], large["retry"]) == (None, "its bytes were too large to be stored")


def test_a_second_attempt_reaches_the_raw_zone_once(tenants: Tenants, control: Control) -> None:
    """As a frame of the caller's organization; the same record is not accepted twice."""
    record = ids(tenants)["time_in_future"]
    accepted = tenants.post(f"quarantine/{record}/retry")
    assert (accepted.status, accepted.json["records"]) == (202, 1)
    check("RetryReport", accepted.json)
    zone = RawZone.of(control.settings.raw.location, control.settings.s3, OTLP)
    frames = [frame for segment in zone.segments() for frame in frame_format.decode(zone.read(segment.path)).frames]
    assert [(frame.organization_id, frame.payload) for frame in frames] == [(ACME, GOOD)]
    assert tenants.get(f"quarantine/{record}").json["retried"]
    [entry] = [entry for _space, entry in control.audit.waiting()]
    assert (entry.action, entry.subject, entry.organization) == ("quarantine.retry", record, ACME)
    assert entry.actor.startswith("key ")
    assert error_of(tenants.post(f"quarantine/{record}/retry"))[:2] == (409, "conflict")


def test_a_record_that_is_still_wrong_is_rejected_with_the_reason(tenants: Tenants) -> None:
    """And nothing is stored for it."""
    status, code, message = error_of(tenants.post(f"quarantine/{ids(tenants)['malformed_message']}/retry"))
    assert (status, code) == (409, "conflict")
    assert message.startswith("the record is still rejected: ")
    assert error_of(tenants.post(f"quarantine/{ids(tenants)['too_large']}/retry"))[0] == 409


def test_decisions_are_counted_once_for_each_trace(tenants: Tenants) -> None:
    """Kept traces stand for others, with the error of the estimate; later revisions are counted apart."""
    found = tenants.get(f"decisions/volumes?{RANGE}").json
    check("DecisionVolumes", found)
    whole = found["all"]
    assert (whole["traces"], whole["kept"], whole["spans"], whole["kept_spans"]) == (3, 2, 13, 6)
    assert (whole["estimated"], round(whole["estimated_error"], 3)) == (11.0, 9.487)
    assert {one["policy"]: one["traces"] for one in found["policies"]} == {"errors": 1, "rest": 1, "": 1}
    assert ([one["service"] for one in found["services"]], found["revisions"]) == (["cart"], 1)
    assert sum(bar["traces"] for bar in found["bars"]) == 3


def test_decisions_come_by_pages_and_filters(tenants: Tenants) -> None:
    """Each with its trace, its policy and its reason."""
    found = tenants.get(f"decisions?{RANGE}&policy=errors&decision=sampled&service=cart").json
    check("DecisionPage", found)
    assert [(one["trace_id"], one["reason"]) for one in found["decisions"]] == [(TRACE, "policy errors")]
    assert tenants.get(f"decisions?{RANGE}&limit=1").json["more"]


def test_a_trace_is_explained_to_its_owner_alone(tenants: Tenants) -> None:
    """Ids of snapshots are text; for others there is no such trace."""
    found = tenants.get(f"decisions/{TRACE}").json
    check("TraceDecisionReport", found)
    assert found["state"] == "decided"
    assert found["trace"]["decisions"][0]["source_snapshot_id"] == str(2**62 + 1)
    for path in (f"decisions/{TRACE}", f"decisions/{'ff' * 16}"):
        assert error_of(tenants.get(path, OTHER if TRACE in path else ACME))[:2] == (404, "not_found")
    assert error_of(tenants.get("decisions/nothing"))[:2] == (404, "not_found")


def test_nothing_of_another_organization_is_in_any_answer(tenants: Tenants, control: Control) -> None:
    """Neither in lists nor by ids, whatever a filter contains."""
    control.documents.put(SPENT, f"{control.documents.now():%Y-%m-%d}/{OTHER}", {"dollars": 7.5, "bytes": 1})
    theirs = ids(tenants, OTHER)
    assert set(theirs) == {"time_in_future"}
    evil = "x%27%20OR%20organization_id%3D%27globex"
    for path in (
        f"quarantine?{RANGE}",
        f"quarantine?{RANGE}&source=secret%20source",
        f"quarantine?{RANGE}&reason={evil}",
        f"quarantine/groups?{RANGE}",
        f"decisions?{RANGE}",
        f"decisions?{RANGE}&policy=secret",
        f"decisions?{RANGE}&service={evil}",
        f"decisions/volumes?{RANGE}",
        f"decisions/{'09' * 16}",
        "own/costs",
        "own/freshness",
        f"quarantine/{theirs['time_in_future']}",
    ):
        reply = tenants.get(path)
        assert b"secret" not in reply.body, path
        assert OTHER.encode() not in reply.body, path
    assert error_of(tenants.get(f"quarantine/{theirs['time_in_future']}"))[:2] == (404, "not_found")
    assert error_of(tenants.post(f"quarantine/{theirs['time_in_future']}/retry"))[:2] == (404, "not_found")


def test_own_costs_and_freshness(tenants: Tenants) -> None:
    """A tenant needs no admin for them."""
    costs, fresh = tenants.get("own/costs").json, tenants.get("own/freshness").json
    check("OwnCostReport", costs)
    check("FreshnessDocument", fresh)
    assert (costs["organization"], costs["days"]) == (ACME, [])
    assert {one["table"]: one["rows"] for one in fresh["tables"]}["logs"] == 2


def test_a_second_attempt_needs_the_scope_write(tenants: Tenants) -> None:
    """A key that may only read sends nothing."""
    record = ids(tenants)["too_large"]
    assert error_of(tenants.post(f"quarantine/{record}/retry", "reader"))[:2] == (403, "wrong_scope")


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("decisions?since=yesterday", 'since is "yesterday", expected an RFC 3339 time'),
        ("decisions?since=2026-03-02T00:00:00Z&until=2026-03-01T00:00:00Z", "expected a time after since"),
        ("quarantine?since=2020-03-02T00:00:00Z&until=2026-03-01T00:00:00Z", "expected at most 400 days"),
        ("quarantine?limit=1001", "from 1 to 1000"),
        ("decisions?decision=maybe", "one of sampled, not_sampled, dropped"),
        ("own/costs?days=36", "from 1 to 35"),
    ],
)
def test_a_wrong_parameter_is_refused(tenants: Tenants, path: str, words: str) -> None:
    """With the key, its value and what was expected."""
    status, code, message = error_of(tenants.get(path))
    assert (status, code) == (400, "bad_request")
    assert words in message


@pytest.mark.parametrize("record", ["nothing", "%00", "1-" + "0" * 32, "9" * 20 + "-" + "0" * 32, "z" * 3000])
def test_a_record_that_does_not_exist(tenants: Tenants, record: str) -> None:
    """Is not found, however it is requested."""
    assert error_of(tenants.get(f"quarantine/{record}"))[:2] == (404, "not_found")


def test_explanations_are_limited(tenants: Tenants, control: Control) -> None:
    """More than two at a time are refused, because each may use a core."""
    from neve.api.query.errors import Failure
    from neve.api.tenant.routes import TenantEndpoints
    from neve.state.scopes import Caller

    async def ask() -> None:
        service: Any = None
        paths = TenantEndpoints(service, control)
        for busy in (object(), object()):
            paths.explaining.acquire_on_behalf_of_nowait(busy)
        request: Any = type("Request", (), {"path_params": {"id": TRACE}})()
        await paths.explain(request, Caller(ACME))

    with pytest.raises(Failure, match="2 traces are explained already"):
        asyncio.run(ask())
