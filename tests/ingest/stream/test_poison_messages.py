"""A message that kills its worker is quarantined alone, and the stream goes on."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import xxhash

from neve.errors import StreamFailed
from neve.ingest.batch_writer import Publisher
from neve.ingest.config import IngestConfig
from neve.ingest.stream import poison_messages
from neve.ingest.stream.attempts import SPACE, BatchAttempts
from neve.ingest.stream.poison_messages import killers_of
from neve.ingest.stream.raw_zone import RawFeed, RawStream
from neve.ingest.stream.segment_job import SegmentJob
from neve.ingest.stream.writer import StreamWriter
from neve.lake.child_process import Child
from neve.raw.frame import Kind
from neve.state.config import StateConfig
from neve.state.sql_documents import SqlDocuments
from neve.state.store import StateStore
from tests.ingest.stream import killer
from tests.ingest.stream.frames import frame, raw_config, receive, zone_of
from tests.telemetry import logs, traces

if TYPE_CHECKING:
    from pathlib import Path

    from neve.lake.lake import Lake


@pytest.mark.slow
def test_the_frame_that_ends_a_process_is_found() -> None:
    """Among others, which are decoded by a new process."""
    frames = list(
        enumerate([frame(Kind.LOGS, logs(2)), frame(Kind.LOGS, killer.message()), frame(Kind.TRACES, traces(1))])
    )
    found = killers_of(frames, IngestConfig(), killer.decode)
    assert list(found) == [1]
    assert "ended by SIGKILL" in found[1]


def test_nothing_is_condemned_where_no_process_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The batch fails and comes again: what is wrong is wrong with the machine."""
    monkeypatch.setattr(poison_messages, "MODULE", "tests.ingest.stream.missing")
    with pytest.raises(StreamFailed, match="did not start: its process ended with code 1"):
        killers_of([(0, frame(Kind.LOGS, logs(2)))], IngestConfig())

    def refuse(*_arguments: object, **_options: object) -> None:
        raise BlockingIOError("Resource temporarily unavailable")

    monkeypatch.setattr("subprocess.Popen", refuse)
    with pytest.raises(
        StreamFailed, match="did not start: its process could not be started: Resource temporarily unavailable"
    ):
        killers_of([(0, frame(Kind.LOGS, logs(2)))], IngestConfig())


@pytest.mark.slow
def test_nothing_is_condemned_where_harmless_frames_end_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each child shows first that it can decode one."""
    ask = Child.ask

    def kill(child: Child, header: Any, body: bytes, seconds: float) -> Any:
        if "kind" in header:
            child.kill()
        return ask(child, header, body, seconds)

    monkeypatch.setattr(Child, "ask", kill)
    with pytest.raises(StreamFailed, match="ended by SIGKILL"):
        killers_of([(0, frame(Kind.LOGS, logs(2)))], IngestConfig())


@pytest.mark.parametrize("frames", [1, 3])
def test_a_whole_batch_is_condemned_last(frames: int) -> None:
    """Where every message ends its process, the batch fails some more times before that is believed."""
    for failures in range(2, poison_messages.CERTAIN_FAILURES):
        with pytest.raises(StreamFailed, match=f"each of the {frames} messages"):
            poison_messages.check_credible(frames, frames, failures)
    poison_messages.check_credible(frames, frames, poison_messages.CERTAIN_FAILURES)
    poison_messages.check_credible(frames, frames - 1, 2)
    poison_messages.check_credible(0, 0, 2)


def test_attempts_at_a_batch_are_counted_until_it_is_committed(tmp_path: Path) -> None:
    """Across processes, by lake and stream; a commit moves the positions. Without the store a batch counts as new."""
    path = str(tmp_path / "state.db")

    def begin(offset: int, stream: str = "kafka", lake: str = "s3://lake") -> int:
        documents = SqlDocuments(StateStore(StateConfig(path=path)))
        try:
            return BatchAttempts(documents, stream, lake).begin({"logs": {"otlp_logs/0": offset}, "spans": {}})
        finally:
            documents.close()

    assert [begin(7) for _ in range(3)] == [1, 2, 3]
    assert begin(7, "other") == 1
    assert [begin(7, lake="s3://second"), begin(9, lake="s3://second"), begin(7)] == [1, 1, 4]
    assert [begin(9), begin(7), begin(7)] == [1, 1, 2]
    (tmp_path / "state.db").unlink()
    (tmp_path / "state.db").mkdir()
    assert begin(7) == 1


def test_attempts_of_an_earlier_release_are_counted(tmp_path: Path) -> None:
    """It stored them by the name of the stream; the first lake that finds them takes them over."""
    documents = SqlDocuments(StateStore(StateConfig(path=str(tmp_path / "state.db"))))
    positions = {"logs": {"otlp_logs/0": 7}}
    batch = xxhash.xxh3_128_hexdigest(json.dumps(positions, sort_keys=True).encode())
    documents.put(SPACE, "kafka", {"batch": batch, "started": 2})
    assert BatchAttempts(documents, "kafka", "s3://lake").begin(positions) == 3
    assert BatchAttempts(documents, "kafka", "s3://second").begin(positions) == 1
    assert BatchAttempts(documents, "kafka", "s3://lake").begin(positions) == 4
    documents.close()


def test_how_often_a_batch_began_is_remembered(tmp_path: Path) -> None:
    """Across processes; what succeeded is forgotten with the next batch."""
    raw = raw_config(tmp_path)
    receive(raw, [frame(Kind.LOGS, logs(1))], [frame(Kind.LOGS, logs(2))])
    first, second = zone_of(raw).segments()
    assert [zone_of(raw).begin([first]) for _ in range(3)] == [1, 2, 3]
    assert zone_of(raw).begin([first, second]) == 4
    assert zone_of(raw).begin([second]) == 2
    assert zone_of(raw).begin([first]) == 1
    assert zone_of(raw).backlog() == [first, second]


def test_a_stream_goes_on_past_a_message_that_kills_workers(spark_lake: Lake, tmp_path: Path) -> None:
    """Two batches fail with their worker; the third finds the culprit, and everything else is in the tables."""
    raw = raw_config(tmp_path)
    receive(
        raw,
        [frame(Kind.LOGS, logs(3)), frame(Kind.LOGS, killer.message())],
        [frame(Kind.TRACES, traces(2), "umbrella")],
    )
    config = IngestConfig.model_validate({"checkpoints": str(tmp_path / "checkpoints")})

    def run() -> dict[str, int]:
        writer = StreamWriter("raw", Publisher(spark_lake, config, "ingest-stream"))
        feed = RawFeed(zone_of(raw), config.batch_bytes, raw.keep_seconds)
        job = SegmentJob(spark_lake, config, "raw", RawStream(writer, feed, killer.decode))
        return dict(job.run(until_caught_up=True).rejected)

    for _failure in range(2):
        with pytest.raises(StreamFailed):
            run()
    assert run() == {"killed_worker": 1}
    [row] = spark_lake.table("quarantine").scan().to_arrow().to_pylist()
    assert (row["reason"], row["organization_id"], row["payload"]) == ("killed_worker", "acme", killer.message())
    assert "SIGKILL" in row["detail"]
    assert (spark_lake.table("logs").scan().count(), spark_lake.table("spans").scan().count()) == (3, 2)
    receive(raw, [frame(Kind.LOGS, logs(4, first=10))])
    assert run() == {}
    assert spark_lake.table("logs").scan().count() == 7
