"""The batcher: every announcement becomes work, at least once, and as rarely as it may."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from neve.errors import LeaseLost
from neve.jobs import metrics
from neve.jobs.batcher import Batcher, PendingBatch, PendingBatches, load_pending
from neve.jobs.job import Task
from neve.jobs.policy import MB, Batch
from neve.jobs.queue import JobQueue
from neve.jobs.routing import Announcement, list_topics, topic_for
from neve.state.config import StateConfig
from neve.state.sql_documents import SqlDocuments
from neve.state.store import StateStore
from tests.contracts.memory_bus import MemoryBus
from tests.jobs.support import START, Clock

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from neve.state.bus import Reader

NOW_MS = round(START.timestamp() * 1000)
TABLES = ("logs", "metrics", "metrics_1m")
DAY = "2026-01-31"
BATCH = Batch(count=3, age_seconds=60)


@dataclass
class House:
    """A bus, a store, and a batcher that may die and be started anew."""

    documents: SqlDocuments
    bus: MemoryBus = field(default_factory=MemoryBus)
    clock: Clock = field(default_factory=Clock)
    batch: Batch | None = BATCH

    @property
    def jobs(self) -> JobQueue:
        """The jobs that there are."""
        return JobQueue(self.documents, clock=self.clock)

    def reader(self) -> Reader:
        """A batcher's reader."""
        return self.bus.reader("batcher", list_topics(TABLES))

    def batcher(self, reader: Reader) -> Batcher:
        """A batcher that gathers for compaction and rollups."""
        return Batcher(reader, self.pending, self.jobs)

    @property
    def pending(self) -> PendingBatches:
        """The batches of the store."""
        return PendingBatches(self.documents, batch_of=self._batch_of, clock=self.clock)

    def boxes(self) -> list[PendingBatch]:
        """The batches that are not due yet."""
        return load_pending(self.documents)

    def announce(self, table: str, *snapshots: int, operation: str = "ingest-stream") -> None:
        """Say that there were commits of one file each."""
        every = [Announcement(table, number, operation, DAY, 10, 1, MB, NOW_MS) for number in snapshots]
        self.bus.publish(topic_for(operation, table), [(table, one.value) for one in every])

    def _batch_of(self, task: Task, _table: str) -> Batch | None:
        return None if task in {Task.SEARCH, Task.SERIES} else self.batch


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """A store in a file, and a bus."""
    state = StateStore(StateConfig(path=str(tmp_path / "state.db")))
    yield House(SqlDocuments(state))
    state.close()


def test_announcements_are_gathered_until_there_are_enough(house: House) -> None:
    """By table and window: the third file makes a job of compaction, and of the rollup that it feeds."""
    with house.reader() as reader:
        batcher = house.batcher(reader)
        house.announce("metrics", 1, 2)
        assert batcher.turn(0) == []
        assert [(box.task, box.table, box.window, box.count) for box in house.boxes()] == [
            (Task.COMPACT, "metrics", DAY, 2),
            (Task.ROLLUP, "metrics_1m", "", 2),
        ]
        house.announce("metrics", 3)
        jobs = batcher.turn(0)
        assert [(job.task, job.table, job.window) for job in jobs] == [
            (Task.COMPACT, "metrics", DAY),
            (Task.ROLLUP, "metrics_1m", ""),
        ]
        assert {job.reason for job in jobs} == {"3 files of 3.15 MB in 0 s: batch.count is 3"}
        assert house.boxes() == []
        assert batcher.turn(0) == []
        assert sum(reader.lag().values()) == 0


def test_a_box_that_is_old_enough_is_handed_out(house: House) -> None:
    """Nothing waits for ever for more."""
    with house.reader() as reader:
        batcher = house.batcher(reader)
        house.announce("logs", 1)
        assert batcher.turn(0) == []
        house.clock.forward(60)
        assert [(job.table, job.reason) for job in batcher.turn(0)] == [
            ("logs", "1 file of 1.05 MB in 60 s: batch.age_seconds is 60")
        ]


def test_compaction_announces_no_work(house: House) -> None:
    """What tends the lake is heard of, and nothing is gathered for it."""
    with house.reader() as reader:
        batcher = house.batcher(reader)
        house.announce("logs", 1, 2, 3, operation="compact")
        assert batcher.turn(0) == []
        assert house.boxes() == []
        assert sum(reader.lag().values()) == 0


def test_a_boxer_that_dies_before_it_is_done_counts_nothing_twice(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it had put into boxes comes again to the next one, who knows it."""
    house.announce("logs", 1, 2)
    with house.reader() as reader:

        def die() -> None:
            raise SystemExit

        monkeypatch.setattr(reader, "acknowledge", die)
        with pytest.raises(SystemExit):
            house.batcher(reader).turn(0)
    with house.reader() as reader:
        batcher = house.batcher(reader)
        assert batcher.turn(0) == []
        assert [box.count for box in house.boxes()] == [2]
        house.announce("logs", 3)
        assert [job.table for job in batcher.turn(0)] == ["logs"]


def test_a_boxer_that_dies_after_the_job_wants_it_once_more(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """The box is there until the job is: the next batcher's wish is folded into the same job."""
    house.announce("logs", 1, 2, 3)
    with house.reader() as reader, monkeypatch.context() as dying:

        def wanted_and_dead(*arguments: object, **named: object) -> None:
            house.jobs.request(*arguments, **named)  # type: ignore[arg-type]
            raise SystemExit

        batcher = house.batcher(reader)
        dying.setattr(batcher._jobs, "request", wanted_and_dead)
        with pytest.raises(SystemExit):
            batcher.turn(0)
    with house.reader() as reader:
        batcher = house.batcher(reader)
        jobs = batcher.turn(0)
        assert jobs == house.jobs.list()
        assert len(jobs) == 1
        assert house.boxes() == []


def test_a_reader_that_lost_its_topics_does_not_stop_the_boxer(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes again is known; what is due is handed out all the same."""
    house.announce("logs", 1, 2, 3)
    with house.reader() as reader:

        def lost() -> None:
            raise LeaseLost("another one reads ingest.logs")

        monkeypatch.setattr(reader, "acknowledge", lost)
        assert [job.table for job in house.batcher(reader).turn(0)] == ["logs"]


def test_what_is_no_announcement_is_counted_and_left(house: House) -> None:
    """It would come again and again, and keep all others back."""
    before = metrics.ANNOUNCED.labels("rejected")._value.get()
    house.bus.publish("ingest.logs", [("logs", {"table": "logs"}), ("logs", {"nonsense": True})])
    sound = Announcement("logs", 7, "ingest-stream", DAY, 10, 1, MB, NOW_MS).value
    house.bus.publish("ingest.logs", [("logs", {**sound, "bytes": "many"}), ("logs", {**sound, "snapshot_id": "x"})])
    house.announce("logs", 1, 2, 3)
    with house.reader() as reader:
        assert [job.table for job in house.batcher(reader).turn(0)] == ["logs"]
        assert sum(reader.lag().values()) == 0
    assert metrics.ANNOUNCED.labels("rejected")._value.get() == before + 4


def test_a_box_that_no_policy_gathers_for_is_dropped(house: House) -> None:
    """Whoever turns gathering off wants no work of what was gathered."""
    with house.reader() as reader:
        batcher = house.batcher(reader)
        house.announce("metrics", 1)
        batcher.turn(0)
        house.batch = None
        house.announce("metrics", 2, 3)
        assert batcher.turn(0) == []
        assert house.boxes() == []


def test_boxes_and_queues_are_told_to_prometheus(house: House) -> None:
    """How much is gathered, how much is due, and for how long."""
    with house.reader() as reader:
        house.announce("metrics", 1)
        house.batcher(reader).turn(0)
    assert metrics.PENDING_BATCHES.labels("rollup")._value.get() == 1
    assert metrics.PENDING_BYTES.labels("compact")._value.get() == MB
    house.jobs.request(Task.COMPACT, "logs", reason="")
    house.clock.forward(90)
    metrics.update_queue(house.jobs)
    assert metrics.QUEUE.labels("compact")._value.get() == 1
    assert metrics.OLDEST.labels("compact")._value.get() == 90
    assert metrics.JOBS.labels("compact", "queued")._value.get() == 1


def test_announcers_add_to_batches_without_a_bus(house: House) -> None:
    """Two of them at once, and one that announces again after it died: each commit counts once."""
    told = [Announcement("logs", number, "ingest-stream", DAY, 10, 1, MB, NOW_MS) for number in range(2)]
    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(house.pending.add, told) for _ in range(8)]:
            done.result()
    assert [(box.table, box.count) for box in house.boxes()] == [("logs", 2)]
    assert house.pending.request_jobs(house.jobs) == []
    house.pending.add([Announcement("logs", 7, "ingest-stream", DAY, 10, 1, MB, NOW_MS)])
    assert [job.table for job in house.pending.request_jobs(house.jobs)] == ["logs"]
    assert house.boxes() == []
