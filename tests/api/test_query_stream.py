"""Answers while they are on their way: slow readers, clients that go away, errors in the middle, cancelling."""

from __future__ import annotations

import http.client
import itertools
import json
import logging
import time
from typing import TYPE_CHECKING, Any

import pytest

from neve.api.query import query_response
from neve.errors import LimitExceeded, QueryError
from tests.api.querying import QUERY, serving
from tests.api.running import JSON
from tests.api.scripted import Script, ScriptedService, batch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa

ASKED = json.dumps({"sql": "SELECT 1"}).encode()
KB = 1024


def until(reached: Callable[[], Any], seconds: float = 600) -> None:
    """Wait for something that another thread does."""
    end = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < end
        time.sleep(0.01)


def endless(script: Script) -> Iterator[pa.RecordBatch]:
    """Rows for ever, until it is interrupted."""
    for number in itertools.count():
        if script.interrupted.is_set():
            raise QueryError("interrupted")
        yield batch(number, text="x" * 100 * KB)


def stuck(script: Script) -> Iterator[pa.RecordBatch]:
    """No rows, until it is interrupted."""
    if script.interrupted.wait(600):
        raise QueryError("interrupted")
    yield batch(0)


def stuck_later(script: Script) -> Iterator[pa.RecordBatch]:
    """Some rows, then none, until it is interrupted."""
    yield batch(0)
    yield from stuck(script)


def failing(script: Script) -> Iterator[pa.RecordBatch]:
    """Two batches, then an error."""
    yield batch(1, 2)
    yield batch(2, 2)
    raise LimitExceeded("the result has more than 4 rows", limit="rows", hint="ask for fewer")


def broken(script: Script) -> Iterator[pa.RecordBatch]:
    """A batch, then a bug."""
    yield batch(1, 1)
    raise ZeroDivisionError("secret")


def test_the_first_rows_do_not_wait_for_the_last() -> None:
    """They are read while the query runs."""
    service = ScriptedService(stuck_later)
    with serving(service) as client, client.sent("POST", QUERY, ASKED, JSON) as response:
        assert response.status == 200
        assert response.read1(10 * KB).startswith(b'{"id":"')
        assert service.known[0].state == "running"
        assert response.headers["neve-query-id"] == service.known[0].id


def is_still(script: Script) -> bool:
    """Whether no rows are made for a while; asserts on the way that they are not made without end."""
    given = script.given
    assert given < 40
    time.sleep(1)
    return script.given == given


def test_a_slow_reader_slows_the_query_down() -> None:
    """No more is made than what is on its way; the memory stays what it is."""
    service = ScriptedService(endless)
    with serving(service) as client, client.sent("POST", QUERY, ASKED, JSON):
        until(lambda: service.scripts and service.scripts[0].given)
        until(lambda: is_still(service.scripts[0]))
        assert service.scripts[0].given < 40
    until(lambda: service.scripts[0].closed)


def test_a_reader_that_takes_nothing_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The query ends and makes room for others. The connection is closed on purpose, which is no error."""
    monkeypatch.setattr(query_response, "READER_SECONDS", 0.3)
    service = ScriptedService(endless)
    with serving(service) as client, client.sent("POST", QUERY, ASKED, JSON) as response:
        until(lambda: service.scripts and service.scripts[0].closed)
        assert service.known[0].state == "cancelled"
        with pytest.raises((http.client.IncompleteRead, ConnectionError)):
            response.read()
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


@pytest.mark.parametrize("make", [endless, stuck_later, stuck], ids=["writing", "waiting", "beginning"])
def test_a_client_that_goes_away_ends_its_query(make: Any) -> None:
    """Whether rows are on their way, are waited for, or the query has not begun to give any."""
    service = ScriptedService(make)
    with serving(service) as client:
        connection = http.client.HTTPConnection("127.0.0.1", client.port)
        connection.request("POST", QUERY, ASKED, JSON)
        until(lambda: service.scripts)
        time.sleep(0.2)
        connection.close()
        until(lambda: service.scripts[0].closed)
        assert service.known[0].state == "cancelled"
        assert [entry.state for entry in service.entries] == ["cancelled"]


def test_a_query_is_cancelled_by_its_id() -> None:
    """Its reader is told, in JSON that is whole; the second time nothing happens."""
    service = ScriptedService(stuck_later)
    with serving(service) as client, client.sent("POST", QUERY, ASKED, JSON) as response:
        path = f"/queries/{response.headers['neve-query-id']}"
        assert client.get(path).json["state"] == "running"
        assert [one["sql"] for one in client.get("/queries").json["queries"]] == ["SELECT 1"]
        reply = client.send("DELETE", f"/api/v1{path}")
        assert (reply.status, reply.headers["neve-query-id"]) == (202, service.known[0].id)
        document = json.loads(response.read())
        assert len(document["rows"]) == 10
        assert document["error"]["code"] == "cancelled"
        assert client.send("DELETE", f"/api/v1{path}").json["state"] == "cancelled"
        assert client.get("/queries").json == {"queries": []}


def test_an_error_behind_the_first_row_is_told_in_the_answer() -> None:
    """As JSON and as a line; the rows before it are there."""
    with serving(ScriptedService(failing)) as client:
        document = client.ask("SELECT 1").json
        assert document["rows"] == [[1, "x"], [1, "x"], [2, "x"], [2, "x"]]
        assert document["error"] == {
            "code": "limit_exceeded",
            "message": "the result has more than 4 rows",
            "hint": "ask for fewer",
            "limit": "rows",
        }
        lines = [json.loads(line) for line in client.ask("SELECT 1", format="jsonl").body.splitlines()]
        assert lines[0] == {"n": 1, "text": "x"}
        assert lines[-1] == {"error": document["error"]}


@pytest.mark.parametrize("form", ["csv", "arrow"])
def test_a_file_that_is_cut_off_is_not_taken_for_a_whole_one(form: str, caplog: pytest.LogCaptureFixture) -> None:
    """The connection ends before the answer does, which is no error of the server."""
    with serving(ScriptedService(failing)) as client, pytest.raises(http.client.IncompleteRead):
        client.ask("SELECT 1", format=form)
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


def test_an_error_before_the_first_byte_has_a_status() -> None:
    """Also in forms whose first rows are gathered for a while."""
    with serving(ScriptedService(failing)) as client:
        reply = client.ask("SELECT 1", format="parquet")
        assert (reply.status, reply.json["error"]["limit"]) == (422, "rows")


def test_a_bug_is_told_without_its_words(capsys: pytest.CaptureFixture[str]) -> None:
    """They are in the log."""
    with serving(ScriptedService(broken)) as client:
        body = client.ask("SELECT 1").body
    assert json.loads(body)["error"]["code"] == "failed"
    assert b"secret" not in body
    assert "secret" in "".join(capsys.readouterr())


def test_a_bug_before_the_first_row_is_an_internal_error() -> None:
    """With the same few words."""

    def bad(script: Script) -> Iterator[pa.RecordBatch]:
        yield from (batch(1 // script.given) for _ in range(1))

    with serving(ScriptedService(bad)) as client:
        reply = client.ask("SELECT 1")
    assert (reply.status, reply.json["error"]["code"]) == (500, "failed")
    assert b"division" not in reply.body


@pytest.mark.slow
def test_a_large_batch_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """What goes out at a time is about as much as the form asks for."""
    sizes: list[int] = []
    pieces = query_response._pieces

    def noted(*arguments: Any) -> Iterator[bytes]:
        for piece in pieces(*arguments):
            sizes.append(len(piece))
            yield piece

    monkeypatch.setattr(query_response, "_pieces", noted)
    with serving(ScriptedService(lambda _script: iter([batch(0, 100_000, "x" * 50)]))) as client:
        for form in ("json", "jsonl", "csv", "arrow"):
            assert client.ask("SELECT 1", format=form).status == 200
    assert max(sizes) < 2 * KB * KB
    assert len(sizes) > 50


@pytest.mark.slow
def test_queries_that_wait_do_not_hold_up_others() -> None:
    """More of them than there are threads to begin with: those that run go on, and the rest is looked at."""
    service = ScriptedService(lambda script: endless(script) if len(service.scripts) == 1 else stuck(script))
    with serving(service) as client, client.sent("POST", QUERY, ASKED, JSON) as first:
        waiting = [http.client.HTTPConnection("127.0.0.1", client.port) for _ in range(70)]
        for connection in waiting:
            connection.request("POST", QUERY, ASKED, JSON)
        until(lambda: len(service.scripts) >= 65)
        before = service.scripts[0].given
        for _ in range(100):
            first.read1(64 * KB)
        until(lambda: service.scripts[0].given > before)
        assert client.get("/queries").status == 200
        for connection in waiting:
            connection.close()
        until(lambda: not any(one.state == "running" for one in service.known[1:]))
