"""Live records: what is committed while a stream is open, with the number of all that matched."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import pyarrow as pa
import pytest

from neve.api.page import live as module
from neve.api.page.live import MAX_STREAMS_OF_ORGANIZATION, LiveStreams, Position, live_routes
from neve.api.query.errors import Failure
from neve.lake.commit.append import append_once
from neve.lake.write.table_writer import Target, write_files
from neve.model.signals import Signal
from neve.otlp import Intake, decode
from neve.query.config import QueryConfig
from neve.query.service import QueryService
from neve.receive.authentication import OpenGuard
from tests.api.querying import serving
from tests.query.lakes import ACME, OTHER, logs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from neve.lake.lake import Lake
    from tests.api.querying import Client

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def commit(lake: Lake, *messages: str, organization: str = ACME) -> None:
    """Commit log records that are received now."""
    at = datetime.now(UTC).timestamp()
    decoded = decode(Signal.LOGS, [logs(*messages).SerializeToString()], Intake(organization, int(at * 1e9)))
    table = lake.table("logs")
    files = write_files(Target.of(table), pa.Table.from_batches([decoded.batch]))
    append_once(table, files, batch_id=f"{organization}-{messages}", operation="test")


def read_event(response: Any) -> tuple[str, str, dict[str, Any]]:
    """Read the next event: its id, its name and its data."""
    found: dict[str, str] = {}
    while line := response.readline().decode().rstrip("\n"):
        name, _, value = line.partition(": ")
        found[name] = value
    return found["id"], found["event"], json.loads(found["data"])


@pytest.fixture
def client(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    """A client of acme at a server that looks for commits often."""
    monkeypatch.setattr(module, "POLL_SECONDS", 0.05)
    service = QueryService(lake, QueryConfig())
    guard = OpenGuard(ACME)
    streams = LiveStreams()
    with serving(service, guard, first=live_routes(service, guard, streams)) as found:
        yield found
        streams.close()
    service.close()


def path(**parameters: str) -> str:
    """Return the address of a stream."""
    return f"/api/v1/live?{urlencode(parameters)}"


def test_new_records_come_with_the_number_of_all_that_matched(client: Client, lake: Lake) -> None:
    """Records of other organizations, and those that do not match, are neither sent nor counted."""
    commit(lake, "before")
    with client.sent("GET", path(where="message LIKE $w", parameters='{"w": "a%"}')) as response:
        assert response.getheader("content-type") == "text/event-stream; charset=utf-8"
        first = read_event(response)
        assert (first[1], first[2]["matched"], first[2]["rows"]) == ("records", 0, [])
        commit(lake, "aa", "bb", "ab")
        _id, _name, data = read_event(response)
        assert (data["matched"], sorted(row["message"] for row in data["rows"])) == (2, ["aa", "ab"])
        commit(lake, "ac", organization=OTHER)
        assert read_event(response)[2] | {"snapshot": ""} == {"matched": 2, "rows": [], "snapshot": ""}


def test_a_stream_goes_on_after_the_last_event(client: Client, lake: Lake) -> None:
    """The count goes on too: what came meanwhile is in it."""
    with client.sent("GET", path()) as response:
        read_event(response)
        commit(lake, "one")
        position, _name, data = read_event(response)
        assert data["matched"] == 1
    commit(lake, "two", "three")
    with client.sent("GET", path(), headers={"last-event-id": position}) as response:
        data = read_event(response)[2]
        assert data["matched"] == 3
        assert {row["message"] for row in data["rows"]} >= {"two", "three"}


def test_more_rows_than_an_event_holds_are_counted(client: Client, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest are sent, and the number of all says how many were not."""
    monkeypatch.setattr(module, "MAX_ROWS", 2)
    with client.sent("GET", path()) as response:
        read_event(response)
        commit(lake, *(f"message {number}" for number in range(5)))
        data = read_event(response)[2]
        assert (data["matched"], len(data["rows"])) == (5, 2)


@pytest.mark.parametrize(
    "parameters",
    [
        {"where": "no_such_column = 1"},
        {"where": "1 = 1) UNION SELECT * FROM read_csv('/etc/passwd'"},
        {"parameters": "[]"},
        {"topic": "spans; DROP TABLE logs"},
        {"last_event_id": "yesterday"},
        {"unknown": "1"},
    ],
)
def test_a_wrong_request_is_an_error_and_no_stream(client: Client, parameters: dict[str, str]) -> None:
    """With a status, before the first event."""
    assert client.send("GET", path(**parameters)).status == 400


def test_streams_are_limited_and_end_with_the_server() -> None:
    """Each organization has its share."""
    streams = LiveStreams()
    for _ in range(MAX_STREAMS_OF_ORGANIZATION):
        streams.enter("acme")
    with pytest.raises(Failure, match="too many live streams"):
        streams.enter("acme")
    streams.enter("globex")
    streams.leave("acme")
    streams.enter("acme")
    streams.close()
    assert asyncio.run(asyncio.wait_for(streams.closing.wait(), 1))


def test_a_position_is_not_older_than_an_hour() -> None:
    """So that no count grows without end; a position of the future is refused."""
    old = Position(NOW - timedelta(days=1), NOW - timedelta(days=1))
    assert Position.parse(old.text, NOW).start == NOW - timedelta(hours=1)
    recent = Position(NOW - timedelta(minutes=5), NOW - timedelta(minutes=1))
    assert Position.parse(recent.text, NOW) == recent
    with pytest.raises(Failure, match="expected the id of an event"):
        Position.parse(Position(NOW + timedelta(days=1), NOW).text, NOW)
