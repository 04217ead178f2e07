"""Snapshots expired by another program than Neve: nothing is lost, nothing comes twice, or it is refused in words."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, cast

import pytest

from neve.app.doctor import _streams
from neve.errors import LakeError
from neve.ingest.batch_writer import Publisher
from neve.ingest.config import IngestConfig, KafkaConfig
from neve.ingest.stream import kafka
from neve.ingest.stream.kafka import KafkaStream
from neve.ingest.stream.raw_zone import RawFeed, RawStream
from neve.ingest.stream.writer import StreamWriter, positions_summary, read_positions
from neve.lake.commit.append import append_once, find_batch
from neve.lake.commit.stream_properties import BATCHES_KEPT
from neve.raw.frame import Kind
from tests.ingest.stream.frames import frame, raw_config, receive, zone_of
from tests.ingest.stream.test_raw import count, run
from tests.telemetry import logs, traces

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from neve.ingest.stream.attempts import BatchAttempts
    from neve.lake.lake import Lake

TABLES = ("spans", "logs", "metrics", "quarantine")
AT = {"otlp_spans/0": 42}


def commit(lake: Lake, table: str, batch: str, stream: str = "", *, remember: bool = False) -> int:
    """An empty commit, of a stream or of somebody else."""
    summary = positions_summary(stream, AT) if stream else {}
    return append_once(
        lake.table(table), [], batch_id=batch, operation="test", summary=summary, remember_batch=remember
    ).snapshot_id


def expire(lake: Lake, table: str) -> None:
    """Expire all that can be, as a nightly script with pyiceberg does."""
    known = lake.table(table)
    gone = [one.snapshot_id for one in known.metadata.snapshots if one != known.current_snapshot()]
    known.maintenance.expire_snapshots().by_ids(gone).commit()


def writer_of(lake: Lake, stream: str) -> StreamWriter:
    """The stream's way into the tables."""
    return StreamWriter(stream, Publisher(lake, IngestConfig(), "ingest-stream"))


def test_positions_and_rows_are_one_commit(lake: Lake) -> None:
    """The property is set with the snapshot that it repeats, not after it."""
    before = len(lake.table("spans").metadata.metadata_log)
    snapshot = commit(lake, "spans", "one", "kafka")
    table = lake.table("spans")
    assert len(table.metadata.metadata_log) == before + 1
    assert json.loads(table.properties["neve.positions.kafka"]) == {
        "snapshot": snapshot,
        "sequence": 1,
        "positions": AT,
    }


def test_positions_outlive_their_snapshots(lake: Lake) -> None:
    """Other writers came after the stream, and then all but the last snapshot went."""
    commit(lake, "spans", "one", "kafka")
    commit(lake, "spans", "two")
    expire(lake, "spans")
    assert len(lake.table("spans").metadata.snapshots) == 1
    assert read_positions(lake.table("spans"), "kafka") == AT
    assert read_positions(lake.table("spans"), "other") == {}
    commit(lake, "spans", "three", "kafka")
    assert read_positions(lake.table("spans"), "kafka") == AT


def test_kafka_without_a_checkpoint_does_not_start_at_the_end(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """`kafka.starting: latest` is for streams that were never read; this one would lose what came meanwhile."""
    started: list[str] = []
    monkeypatch.setattr(kafka, "read_topics", lambda *arguments: started.append(arguments[-1]))
    attempts = cast("BatchAttempts", None)  # no batch is ingested here
    stream = KafkaStream(writer_of(lake, "kafka"), KafkaConfig(starting="latest"), "acme", attempts)
    spark = cast("SparkSession", None)
    stream.load(spark)
    commit(lake, "logs", "one", "kafka")
    commit(lake, "logs", "two")
    expire(lake, "logs")
    stream.load(spark)
    assert started == ["latest", "earliest"]


def test_a_table_that_was_rolled_back_and_then_expired_is_refused(lake: Lake, tmp_path: Path) -> None:
    """Nobody knows how far it is: the stream does not begin, and the words say what to do."""
    commit(lake, "logs", "one")
    early = commit(lake, "logs", "two")
    commit(lake, "logs", "three", "raw")
    late = lake.table("logs")
    late.manage_snapshots().rollback_to_snapshot(snapshot_id=early).commit()
    assert read_positions(lake.table("logs"), "raw") == {}  # the whole line is known, and the stream is not in it
    expire(lake, "logs")
    feed = RawFeed(zone_of(raw_config(tmp_path)), 10**6, 0)
    with pytest.raises(LakeError, match=r"the position of the stream raw in telemetry.logs is unknown") as refused:
        RawStream(writer_of(lake, "raw"), feed).open(anew=False)
    assert "unset the property neve.positions.raw" in str(refused.value.hint)
    with lake.table("logs").transaction() as change:
        change.remove_properties("neve.positions.raw")
    assert read_positions(lake.table("logs"), "raw") == {}


def test_a_batch_of_files_is_known_without_its_snapshot(lake: Lake) -> None:
    """A run that was killed after its commit is finished by the next, and the rows are not written again."""
    first = commit(lake, "spans", "files", remember=True)
    commit(lake, "spans", "other")
    expire(lake, "spans")
    assert find_batch(lake.table("spans"), "files") == first
    again = append_once(lake.table("spans"), [], batch_id="files", operation="test")
    assert (again.new, again.snapshot_id) == (False, first)
    publisher = Publisher(lake, IngestConfig(), "ingest-files")
    assert "spans" not in publisher.assign("files", publisher.tables(), 1).targets
    assert find_batch(lake.table("spans"), "other two") is None


def test_the_list_of_batches_does_not_grow_for_ever(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest go first."""
    monkeypatch.setattr("neve.lake.commit.stream_properties.BATCHES_KEPT", 3)
    for number in range(5):
        commit(lake, "logs", f"batch {number}", remember=True)
    assert list(json.loads(lake.table("logs").properties["neve.batches"])) == ["batch 2", "batch 3", "batch 4"]
    assert BATCHES_KEPT >= 100


def test_doctor_tells_of_foreign_expiry(lake: Lake) -> None:
    """While Neve's own snapshots are there all is well; then it is a note, and what can't be told is an error."""
    commit(lake, "logs", "one", "raw")
    assert _streams(lake).status == "ok"
    commit(lake, "logs", "two")
    expire(lake, "logs")
    found = _streams(lake)
    assert (found.status, "raw in logs" in found.detail) == ("note", True)


def test_a_stream_goes_on_after_a_nightly_expiry(spark_lake: Lake, tmp_path: Path) -> None:
    """Neither Spark's memory, nor the zone's, nor snapshots, nor the horizon of resends: the properties are left."""
    raw = raw_config(tmp_path)
    receive(raw, [frame(Kind.TRACES, traces(5)), frame(Kind.LOGS, logs(4)), frame(Kind.TRACES, b"\xff\xff")])
    run(spark_lake, tmp_path, raw)
    for table in TABLES:
        commit(spark_lake, table, f"somebody else in {table}")
        spark_lake.spark.sql(
            f"CALL {spark_lake.catalog_config.name}.system.expire_snapshots(table => 'telemetry.{table}', "
            "older_than => TIMESTAMP '2100-01-01 00:00:00', retain_last => 1)"
        ).collect()
        assert len(spark_lake.table(table).metadata.snapshots) == 1
    shutil.rmtree(tmp_path / "checkpoints")
    (tmp_path / "raw" / "otlp" / "consumed.json").unlink()
    receive(raw, [frame(Kind.LOGS, logs(2, first=100))])
    run(spark_lake, tmp_path, raw, deduplicate_seconds=0)
    assert {table: count(spark_lake, table) for table in TABLES} == {
        "spans": 5,
        "logs": 6,
        "metrics": 0,
        "quarantine": 1,
    }
