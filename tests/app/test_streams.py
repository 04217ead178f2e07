"""Streams that are kept running: what they fail of is told, and when they are well again."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from neve.app.serve.parts.announcer import ChangedTables
from neve.app.serve.parts.stream import StreamPart
from neve.app.serve.streams import Streams, keep_running, sqs_bridge
from neve.app.settings import Settings
from neve.errors import ConfigError, StreamFailed
from neve.ingest.results import StreamResult
from neve.ingest.stream import query_job
from neve.state.config import StateConfig
from neve.state.sql_documents import SqlDocuments
from neve.state.store import StateStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from neve.ingest.stream.job import StreamJob

RESULT = StreamResult("raw")
INITIALIZING = {"message": "Initializing sources", "isTriggerActive": False}
BUSY = {"message": "Processing new data", "isTriggerActive": True}
IDLE = {"message": "Waiting for data to arrive", "isTriggerActive": False}


class Idle:
    """A stream that fails a few times, and then finds nothing to take in until it is told to stop."""

    name = "raw"
    lake = None

    def __init__(self, failures: int, well: Callable[[], None] = lambda: None) -> None:
        self.failures, self.well = failures, well
        self.stopped = threading.Event()

    def run(self, *, until_caught_up: bool = False, well: Callable[[], None] = lambda: None) -> StreamResult:
        """Fail, or wait."""
        if until_caught_up:
            return RESULT
        if self.failures:
            self.failures -= 1
            raise StreamFailed("the stream raw ended: the store is away")
        well()
        self.well()
        self.stopped.wait()
        return RESULT

    def stop(self) -> None:
        """End."""
        self.stopped.set()


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """No pauses between attempts."""
    monkeypatch.setattr("neve.app.serve.streams.FIRST_PAUSE_SECONDS", 0.01)


@pytest.mark.parametrize(
    ("failures", "expected"), [(0, []), (2, [*["the stream raw ended: the store is away"] * 2, None])]
)
def test_a_stream_that_recovers_says_so(failures: int, expected: list[str | None]) -> None:
    """As soon as it has looked for data without an error; one that never failed has nothing to say."""
    stop, told = threading.Event(), list[str | None]()
    job = Idle(failures, stop.set)

    def tell(error: BaseException | None) -> None:
        told.append(error.message if isinstance(error, StreamFailed) else None)

    assert keep_running(cast("StreamJob", job), stop, tell) is RESULT
    assert told == expected


def test_the_part_is_well_again_without_a_batch(tmp_path: Path) -> None:
    """A stream to which nothing comes does not stay ill of what is over."""
    documents = SqlDocuments(StateStore(StateConfig(path=str(tmp_path / "state.db"))))
    part = StreamPart(
        "ingest:events", lambda _tell: cast("StreamJob", Idle(1)), documents, ChangedTables(), 1.0, "host-1"
    )
    stop, said = threading.Event(), list[list[str]]()

    def say(details: Any) -> None:
        said.append([*details])
        if said == [["since"], ["error"], ["since"]]:
            stop.set()

    part.run(stop, say)
    documents.close()
    assert said == [["since"], ["error"], ["since"]]


@pytest.mark.parametrize(
    ("statuses", "expected"),
    [([INITIALIZING, BUSY], 0), ([INITIALIZING, BUSY, IDLE, BUSY, IDLE], 1)],
)
def test_a_query_is_well_when_it_is_through_with_a_trigger(
    monkeypatch: pytest.MonkeyPatch, statuses: list[dict[str, object]], expected: int
) -> None:
    """Not while it gets ready, nor while it is at its first one; said once."""
    monkeypatch.setattr(query_job, "watch_stream", lambda *_given: None)
    left, calls = iter(statuses), list[bool]()

    class Query:
        status: dict[str, object]

        def awaitTermination(self, _seconds: int) -> bool:  # noqa: N802 - its name in Spark
            self.status = next(left, {})
            return not self.status

    job = query_job.QueryJob(
        cast("Any", SimpleNamespace(check_driver=lambda _work: None)),
        cast("Any", None),
        "raw",
        cast("Any", None),
    )
    job._wait(cast("Any", Query()), lambda: calls.append(True))
    assert len(calls) == expected


def test_what_was_put_off_is_tried_between_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Never while a batch is under way; an attempt that fails does not end the query."""
    monkeypatch.setattr(query_job, "watch_stream", lambda *_given: None)
    left, tried = iter([INITIALIZING, BUSY, IDLE, BUSY, IDLE]), list[object]()

    class Query:
        status: dict[str, object]

        def awaitTermination(self, _seconds: int) -> bool:  # noqa: N802 - its name in Spark
            self.status = next(left, {})
            return not self.status

    query = Query()

    def retry(_start_engine: object) -> None:
        tried.append(query.status)
        raise OSError("no answer")

    job = query_job.QueryJob(
        cast("Any", SimpleNamespace(check_driver=lambda _work: None)),
        cast("Any", None),
        "raw",
        cast("Any", SimpleNamespace(retry=retry)),
    )
    job._wait(cast("Any", query), lambda: None)
    assert [status for status in tried if status in (BUSY, IDLE)] == [IDLE, IDLE]


@pytest.mark.parametrize("places", [{}, {"umbrella": ("s3://raw",)}])
def test_a_queue_without_places_is_refused_at_the_start(places: Any) -> None:
    """Each of its events would go to quarantine, and be gone from the queue."""
    watch = {"sqs": {"queue_url": "https://sqs.example/1/raw"}, "places": places}
    settings = Settings.model_validate({"organization": "acme", "watch": watch})
    with (
        pytest.raises(ConfigError, match=r"watch.places has no places of acme"),
        sqs_bridge(settings, threading.Event()),
    ):
        pass


def test_events_in_kafka_without_places_are_refused_at_the_start() -> None:
    """Before Spark is started for them."""
    with pytest.raises(ConfigError, match=r"watch.places has no places of any organization"):
        Streams(Settings(), cast("Any", None)).kafka_events(lambda _result: None)


def test_who_stands_by_says_for_which_service(tmp_path: Path) -> None:
    """By the name that the service has in `neve status`."""
    documents = SqlDocuments(StateStore(StateConfig(path=str(tmp_path / "state.db"))))
    stop, said = threading.Event(), list[str]()

    def say(details: Any) -> None:
        said.append(str(details.get("standby")))
        stop.set()

    def make(_tell: object) -> StreamJob:
        second = StreamPart(
            "ingest:raw", lambda _tell: pytest.fail("it ran"), documents, ChangedTables(), 1.0, "host-2"
        )
        second.run(stop, say)
        raise StreamFailed("enough was seen")

    first = StreamPart("ingest:raw", make, documents, ChangedTables(), 1.0, "host-1")
    with pytest.raises(StreamFailed):
        first.run(threading.Event(), lambda _details: None)
    documents.close()
    assert "of the service host-1 " in said[0]


def test_the_last_data_is_ingested_only_if_spark_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is durable in the raw zone, and a stop must not start a JVM."""
    documents = SqlDocuments(StateStore(StateConfig(path=str(tmp_path / "state.db"))))
    runs: list[bool] = []

    class Job(Idle):
        def run(self, *, until_caught_up: bool = False, well: Callable[[], None] = lambda: None) -> StreamResult:
            runs.append(until_caught_up)
            return RESULT

    for started in (False, True):
        monkeypatch.setattr("neve.app.serve.parts.stream.has_spark_started", lambda started=started: started)
        stop = threading.Event()
        part = StreamPart(
            "ingest:raw",
            lambda _tell, stop=stop: cast("StreamJob", (stop.set(), Job(0))[1]),  # type: ignore[misc]
            documents,
            ChangedTables(),
            1.0,
            "host-1",
        )
        part.run(stop, lambda _details: None)
    documents.close()
    assert runs == [False, False, True]
