"""Announced files that wait: counted in the store, tried in time, given up at last."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from neve.ingest.config import WatchConfig
from neve.ingest.files.formats import Format
from neve.ingest.watch import retries as retries_module
from neve.ingest.watch.events import AnnouncedFile, Event
from neve.ingest.watch.retries import SPACE, RetryQueue
from neve.model.signals import Signal
from neve.state.config import StateConfig
from neve.state.sql_documents import SqlDocuments
from neve.state.store import StateStore

if TYPE_CHECKING:
    from pathlib import Path

START = datetime(2026, 11, 15, tzinfo=UTC)
LAKE = "/data/warehouse"
EVENT = Event("raw:w/1", 3, b"{}", "acme", signal=Signal.LOGS, received_unix_nano=7)
FILE = AnnouncedFile("s3://raw/acme/a b.json", format=Format.JSON_LINES)


class Clocked(SqlDocuments):
    """Documents whose clock the test winds."""

    time = START

    def now(self) -> datetime:
        """The time of the test."""
        return self.time


@pytest.fixture
def documents(tmp_path: Path) -> Clocked:
    """A store in a file."""
    return Clocked(StateStore(StateConfig(path=str(tmp_path / "state.db"))))


@pytest.fixture(autouse=True)
def _look_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries_module, "READ_SECONDS", 0.0)


def make(documents: Clocked, **config: Any) -> RetryQueue:
    """The retries of a stream, as a process that was just started has them."""
    return RetryQueue(documents, "watch", LAKE, WatchConfig(**config))


def test_a_file_waits_longer_each_time_and_is_given_up(documents: Clocked) -> None:
    """Ten, twenty, forty seconds; the count is in the store and survives every process."""
    pauses = []
    for _attempt in range(3):
        assert make(documents, attempts=4).postpone(EVENT, FILE, "no answer", tried=True) is None
        waited = 0
        while not make(documents).due():
            documents.time += timedelta(seconds=5)
            waited += 5
        pauses.append(waited)
    assert pauses == [10, 20, 40]
    assert make(documents, attempts=4).postpone(EVENT, FILE, "no answer", tried=True) == (
        "failed 4 times (watch.attempts): no answer"
    )


def test_a_file_that_was_not_tried_has_lost_no_attempt(documents: Clocked) -> None:
    """Others of its bucket failed, and nobody asked for it."""
    for _turn in range(20):
        assert make(documents, attempts=2).postpone(EVENT, FILE, "not tried", tried=False) is None
    [(_key, document)] = documents.entries(SPACE)
    assert document["attempts"] == 0


def test_what_waits_comes_back_as_an_event_of_one_file(documents: Clocked) -> None:
    """With what was said of it, for the organization that it was announced for."""
    event = replace(EVENT, may_name_organization=True)
    make(documents, retry_seconds=0).postpone(event, replace(FILE, organization="umbrella"), "no answer", tried=True)
    [waiting] = make(documents).due()
    assert (waiting.attempts, waiting.event.organization_id, waiting.event.position) == (1, "umbrella", 3)
    assert json.loads(waiting.event.payload) == {"path": FILE.path, "format": "json_lines", "signal": "logs"}
    assert not waiting.event.may_name_organization
    assert waiting.key == make(documents).key_of(waiting.event, FILE.path)
    make(documents).forget(waiting.key)
    assert make(documents).due() == []


def test_one_organization_holds_so_many_and_no_more(documents: Clocked) -> None:
    """Others have room of their own; a file that waits already does not count again."""
    retries = make(documents, max_waiting=2)
    files = [replace(FILE, path=f"s3://raw/{number}.json") for number in range(3)]
    assert [retries.postpone(EVENT, file, "no answer", tried=True) for file in files[:2]] == [None, None]
    assert "already wait for a retry (watch.max_waiting)" in str(
        retries.postpone(EVENT, files[2], "no answer", tried=True)
    )
    assert retries.postpone(EVENT, files[0], "no answer", tried=True) is None
    assert retries.postpone(replace(EVENT, organization_id="umbrella"), files[2], "no answer", tried=True) is None


def test_streams_do_not_see_each_other(documents: Clocked) -> None:
    """Nor does one whose name begins like another's."""
    make(documents, retry_seconds=0).postpone(EVENT, FILE, "no answer", tried=True)
    assert RetryQueue(documents, "watch-kafka", LAKE, WatchConfig()).due() == []
    assert len(make(documents).due()) == 1


def test_lakes_that_share_a_store_do_not_see_each_other(documents: Clocked) -> None:
    """Their streams have the same names; a file of one must not be ingested into the other."""
    make(documents, retry_seconds=0).postpone(EVENT, FILE, "no answer", tried=True)
    other = RetryQueue(documents, "watch", "s3://other/warehouse", WatchConfig(max_waiting=1))
    assert other.due() == []
    assert other.postpone(EVENT, FILE, "no answer", tried=True) is None
    assert len(list(documents.entries(SPACE))) == 2


def test_documents_of_an_earlier_release_are_read(documents: Clocked) -> None:
    """They were stored by the stream alone: their attempts count, and they are due once."""
    retries = make(documents, attempts=3, retry_seconds=0)
    assert retries.postpone(EVENT, FILE, "no answer", tried=True) is None
    [(key, document)] = documents.entries(SPACE)
    documents.delete(SPACE, key)
    old_key = f"watch/{key.rpartition('/')[2]}"
    documents.put(SPACE, old_key, document)
    assert make(documents, attempts=3, retry_seconds=0).postpone(EVENT, FILE, "no answer", tried=True) is None
    [waiting] = make(documents).due()
    assert (waiting.key, waiting.attempts) == (key, 2)
    assert [found for found, _document in documents.entries(SPACE)] == [key]


def test_the_longest_waits_first_and_few_at_once(documents: Clocked, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is passed over for ever."""
    monkeypatch.setattr(retries_module, "MAX_AT_ONCE", 2)
    for number in range(4):
        documents.time += timedelta(seconds=1)
        make(documents, retry_seconds=0).postpone(
            EVENT, replace(FILE, path=f"s3://raw/{number}.json"), "no", tried=True
        )
    found = [json.loads(waiting.event.payload)["path"] for waiting in make(documents).due()]
    assert found == ["s3://raw/0.json", "s3://raw/1.json"]
