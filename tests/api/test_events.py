"""`/events/s3` under attack: who may announce, what, in which form, and what the others notice of it."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest

from neve.ingest.config import WatchConfig
from neve.raw.frame import MAGIC
from neve.raw.zone import EVENTS
from neve.state.config import StateConfig
from neve.state.keys import Keys
from neve.state.scopes import ALL_SCOPES, Scope
from neve.state.store import StateStore
from tests.api.running import JSON, LoopThread, Running, settings_for
from tests.ingest.watch.events import s3, s3_record
from tests.ingest.watch.test_places import HOSTILE_PATHS
from tests.telemetry import traces

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.api.running import Reply

PATH = "/events/s3"
GOOD = {"path": "s3://raw/acme/a.json"}


def announce(receiver: Running, document: Any, key: str = "", **headers: str) -> Reply:
    """Send an event."""
    own = {"x-api-key": key} if key else {}
    return receiver.post(PATH, json.dumps(document).encode(), JSON | own | headers)


@pytest.fixture
def keys(tmp_path: Path) -> Iterator[Callable[..., str]]:
    """Makes keys of organizations."""
    state = StateStore(StateConfig(path=str(tmp_path / "state.db")))
    yield lambda organization, *scopes: Keys(state).create(organization, "", scopes)[1]
    state.close()


def test_only_a_key_that_may_announce_is_let_in(start: Callable[..., Running], keys: Callable[..., str]) -> None:
    """To write is not enough, nor are all other scopes together; to announce does not let one write."""
    receiver = start(auth="keys")
    for scopes in (ALL_SCOPES, (Scope.WRITE,), (Scope.READ,), (Scope.ADMIN,), (Scope.WRITE, Scope.READ, Scope.ADMIN)):
        reply = announce(receiver, GOOD, keys("acme", *scopes))
        assert (reply.status, "announce" in reply.json["message"]) == (403, True)
    assert announce(receiver, GOOD).status == 401
    assert receiver.frames(EVENTS) == []
    key = keys("acme", Scope.ANNOUNCE)
    assert announce(receiver, GOOD, key).status == 200
    assert (
        receiver.post("/v1/traces", traces(), {"content-type": "application/x-protobuf", "x-api-key": key}).status
        == 403
    )


def test_each_organization_has_its_own_places(start: Callable[..., Running], keys: Callable[..., str]) -> None:
    """The answer names those of the sender and no others; nothing that is refused as a whole is kept."""
    receiver = start(auth="keys")
    other = keys("umbrella", Scope.ANNOUNCE)
    reply = announce(receiver, GOOD, other)
    assert reply.status == 403
    assert reply.json["message"].endswith("watch.places has no places for the organization umbrella")
    assert "acme/" not in reply.json["message"].removeprefix(GOOD["path"])
    reply = announce(receiver, {"path": "s3://raw/umbrella/a.json"}, keys("acme", Scope.ANNOUNCE))
    reason = "is not below s3://raw/acme/ (watch.places of acme)"
    expected = {"path": "s3://raw/umbrella/a.json", "reason": reason}
    assert (reply.status, reply.json) == (
        403,
        {"code": 7, "message": f"{expected['path']} {reason}", "details": [expected]},
    )
    assert receiver.frames(EVENTS) == []
    assert receiver.counted("neve_receiver_refusals_total", reason="refused_announcement") == 2


@pytest.mark.parametrize("path", [path for path in HOSTILE_PATHS if "/lake/" not in path])
def test_a_hostile_path_is_refused_at_the_door(open_receiver: Running, path: str) -> None:
    """Also where no key is needed: a place is allowed by the configuration alone."""
    reply = announce(open_receiver, {"path": path, "format": "json_lines", "signal": "logs"})
    assert reply.status in {403, 422}, path


def test_what_is_refused_in_part_is_said_and_the_rest_is_kept(open_receiver: Running) -> None:
    """200 with a list of the refused; 422 where nothing is left for another reason than a place."""
    reply = announce(open_receiver, {"paths": [GOOD["path"], "s3://raw/b.json", "s3://raw/acme/notes.txt", 7]})
    assert reply.status == 200
    assert [file["path"] for file in reply.json["refused"]] == [
        "s3://raw/b.json",
        "s3://raw/acme/notes.txt",
        "paths[3]",
    ]
    assert announce(open_receiver, {"path": "s3://raw/acme/notes.txt"}).status == 422
    assert announce(open_receiver, {"Records": [{"eventName": "ObjectCreated:Put"}]}).status == 422
    assert announce(open_receiver, {"what": "ever"}).status == 400


def test_what_announces_nothing_is_not_kept(open_receiver: Running) -> None:
    """A store's test and a removal are answered well, and nobody has to read them again."""
    before = len(open_receiver.frames(EVENTS))
    for document in ({"Event": "s3:TestEvent"}, s3(s3_record("acme/a.json", "ObjectRemoved:Delete"))):
        assert announce(open_receiver, document).status == 200
    assert len(open_receiver.frames(EVENTS)) == before


@pytest.mark.parametrize(
    "kind", ["", "text/plain", "text/plain; charset=utf-8", "application/x-www-form-urlencoded", "multipart/form-data"]
)
def test_only_json_is_taken(open_receiver: Running, kind: str) -> None:
    """A form of another web page can send all of these without asking, and no JSON."""
    reply = open_receiver.post(PATH, json.dumps(GOOD).encode(), {"content-type": kind} if kind else {})
    assert (reply.status, "application/json" in reply.json["message"]) == (415, True)
    assert announce(open_receiver, GOOD, **{"content-type": "Application/JSON; charset=utf-8"}).status == 200


def test_an_event_announces_a_bounded_number_of_files(open_receiver: Running) -> None:
    """A thousand by default; the answer names the setting."""
    paths = [f"s3://raw/acme/{number}.json" for number in range(1001)]
    reply = announce(open_receiver, {"paths": paths})
    assert (reply.status, "watch.max_objects" in reply.json["message"]) == (400, True)
    assert announce(open_receiver, {"paths": paths[1:]}).status == 200
    refused = announce(open_receiver, {"paths": [path.replace("acme", "b") for path in paths[1:]]})
    assert (refused.status, len(refused.json["details"])) == (403, 100)


def test_one_organization_does_not_fill_the_zone_of_events(
    loop_thread: LoopThread, tmp_path: Path, keys: Callable[..., str]
) -> None:
    """It is refused at its share of the backlog; the announcements of others are taken."""
    raw = {"max_backlog_bytes": 1024 * 1024, "segment_seconds": 3600}
    settings = settings_for(tmp_path, raw, auth="keys", backlog_share=0.25)
    places = WatchConfig(places={"acme": ["s3://raw/acme"], "umbrella": ["s3://raw/umbrella"]})
    hostile, honest = (keys(organization, Scope.ANNOUNCE) for organization in ("acme", "umbrella"))
    padded, headers = json.dumps(GOOD).encode() + b" " * 100 * 1024, JSON | {"x-api-key": hostile}
    with loop_thread.receiver(tmp_path, settings.model_copy(update={"watch": places})) as receiver:
        assert [receiver.post(PATH, padded, headers).status for _ in range(5)] == [200, 200, 200, 429, 429]
        assert announce(receiver, {"path": "s3://raw/umbrella/a.json"}, honest).status == 200
        assert receiver.counted("neve_receiver_refusals_total", reason="backlog_share") == 2


def test_announcements_count_against_the_quota(start: Callable[..., Running], keys: Callable[..., str]) -> None:
    """In bytes, with what the organization sends otherwise."""
    limit = {"organization": "acme", "bytes_per_second": 1, "burst_seconds": 1}
    receiver, key = start(auth="keys", limits=[limit]), keys("acme", Scope.ANNOUNCE, Scope.WRITE)
    assert announce(receiver, GOOD, key).status == 200
    reply = announce(receiver, GOOD, key)
    assert (reply.status, int(reply.headers["retry-after"]) > 10) == (429, True)
    reply = receiver.post("/v1/traces", traces(), {"content-type": "application/x-protobuf", "x-api-key": key})
    assert reply.status == 429


@pytest.mark.slow
def test_a_full_zone_of_events_leaves_otlp_ready(
    loop_thread: LoopThread, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Events are refused and the probes say so; telemetry is taken as before, and the receiver stays ready."""
    monkeypatch.setattr("neve.receive.backpressure.MEASURE_SECONDS", 0.05)
    segment = tmp_path / "raw" / "events" / "20200101T000000-00000000" / "000000000000.raw"
    segment.parent.mkdir(parents=True)
    segment.write_bytes(MAGIC + bytes(2 * 1024 * 1024))
    with loop_thread.receiver(tmp_path, settings_for(tmp_path, {"max_backlog_bytes": 1024 * 1024})) as receiver:
        assert announce(receiver, GOOD).status == 503
        assert receiver.post("/v1/traces", traces()).status == 200
        ready, health = receiver.get("/readyz"), receiver.get("/healthz")
        assert (ready.status, ready.json["status"], health.status) == (200, "ready", 200)
        assert "raw.max_backlog_bytes" in ready.json["events"]
        assert health.json["events"] == ready.json["events"]
        segment.unlink()
        for _ in range(600):
            if "events" not in receiver.get("/readyz").json:
                break
            time.sleep(0.05)
        assert receiver.get("/readyz").json == {"status": "ready"}
        assert announce(receiver, GOOD).status == 200
