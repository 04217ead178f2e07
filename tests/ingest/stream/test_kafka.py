"""From topics of Kafka into the tables, once."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from neve.errors import StreamFailed
from neve.ingest.batch_writer import Publisher
from neve.ingest.config import IngestConfig, KafkaConfig
from neve.ingest.decoder import decode_all
from neve.ingest.stream.attempts import BatchAttempts
from neve.ingest.stream.kafka import KafkaStream
from neve.ingest.stream.query_job import QueryJob
from neve.ingest.stream.writer import StreamWriter, read_positions
from neve.model.signals import Signal
from neve.otlp.json import to_json
from neve.state.config import StateConfig
from neve.state.sql_documents import SqlDocuments
from neve.state.store import StateStore
from tests.ingest.stream import killer
from tests.telemetry import logs, metrics, traces

if TYPE_CHECKING:
    from pathlib import Path

    from neve.ingest.decoder import Decode
    from neve.ingest.results import StreamResult
    from neve.lake.lake import Lake
    from tests.parts.kafka import Kafka

pytestmark = pytest.mark.parts


class Topics:
    """Topics of their own for a test: one of each signal, with two partitions."""

    def __init__(self, address: str) -> None:
        run = uuid4().hex[:8]
        self.names = {signal: f"{signal.value}.{run}" for signal in Signal}
        admin = AdminClient({"bootstrap.servers": address})  # kept alive until its answers are there
        made = admin.create_topics(
            [NewTopic(name, num_partitions=2, replication_factor=1) for name in self.names.values()]
        )
        for future in made.values():
            future.result(20)
        self.producer = Producer({"bootstrap.servers": address})
        topics = [{"topic": name, "signal": signal.value} for signal, name in self.names.items()]
        self.config = KafkaConfig.model_validate({"bootstrap_servers": address, "topics": topics})

    def send(self, signal: Signal, *values: bytes | None) -> None:
        """Messages, over both partitions in turns."""
        for place, value in enumerate(values):
            self.producer.produce(self.names[signal], value, partition=place % 2)
        assert self.producer.flush(20) == 0


@pytest.fixture
def topics(kafka: Kafka) -> Topics:
    """New topics."""
    return Topics(kafka.bootstrap)


def run(lake: Lake, folder: Path, topics: Topics, decode: Decode = decode_all, **settings: object) -> StreamResult:
    """Ingest everything in the topics."""
    config = IngestConfig.model_validate({"checkpoints": str(folder / "checkpoints"), **settings})
    writer = StreamWriter("kafka", Publisher(lake, config, "ingest-stream"))
    documents = SqlDocuments(StateStore(StateConfig(path=str(folder / "state.db"))))
    try:
        stream = KafkaStream(
            writer, topics.config, "acme", BatchAttempts(documents, "kafka", lake.lake.location), decode
        )
        return QueryJob(lake, config, "kafka", stream).run(until_caught_up=True)
    finally:
        documents.close()


def count(lake: Lake, table: str) -> int:
    """How many rows a table has."""
    return int(lake.table(table).scan().count())


def test_messages_of_every_signal_and_encoding(spark_lake: Lake, tmp_path: Path, topics: Topics) -> None:
    """Protobuf and JSON side by side, and a poison message that costs itself only."""
    topics.send(Signal.TRACES, traces(5), to_json(Signal.TRACES, traces(2, first=50)).encode(), b"\xff\xff", None)
    topics.send(Signal.LOGS, logs(4), b'{"resourceLogs": [' + b"[" * 5000, b"")
    topics.send(Signal.METRICS, metrics(3))
    result = run(spark_lake, tmp_path, topics)
    assert result.records == {"traces": 7, "logs": 4, "metrics": 3}
    assert result.rejected == {"malformed_message": 2}
    assert (count(spark_lake, "spans"), count(spark_lake, "logs"), count(spark_lake, "metrics")) == (7, 4, 3)
    refused = spark_lake.table("quarantine").scan().to_arrow().to_pylist()
    assert {(row["source"], row["position"]) for row in refused} == {
        (f"kafka:{topics.names[Signal.TRACES]}/0", 1),
        (f"kafka:{topics.names[Signal.LOGS]}/1", 0),
    }
    positions = read_positions(spark_lake.table("spans"), "kafka")
    assert {positions[f"{topics.names[Signal.TRACES]}/{number}"] for number in (0, 1)} == {2}
    topics.send(Signal.LOGS, logs(3, first=100))
    assert run(spark_lake, tmp_path, topics).records == {"logs": 3}


def test_a_lost_checkpoint_doubles_nothing(spark_lake: Lake, tmp_path: Path, topics: Topics) -> None:
    """Everything is read again, and each table skips what it has by its offset."""
    topics.send(Signal.TRACES, traces(5), traces(3, first=20), b"\xff\xff")
    topics.send(Signal.LOGS, logs(2))
    run(spark_lake, tmp_path, topics)
    shutil.rmtree(tmp_path / "checkpoints")
    topics.send(Signal.TRACES, traces(4, first=40))
    result = run(spark_lake, tmp_path, topics, deduplicate_seconds=0)
    assert (result.records, result.rejected) == ({"traces": 4}, {})
    assert (count(spark_lake, "spans"), count(spark_lake, "logs"), count(spark_lake, "quarantine")) == (12, 2, 1)


def test_a_stream_goes_on_past_a_message_that_kills_workers(spark_lake: Lake, tmp_path: Path, topics: Topics) -> None:
    """Two attempts fail with their worker; the third quarantines the culprit alone, in either encoding."""
    culprits = [killer.message(), to_json(Signal.LOGS, killer.message()).encode()]
    topics.send(Signal.LOGS, logs(3), culprits[0], culprits[1], logs(2, first=50))
    topics.send(Signal.TRACES, traces(4))
    for _failure in range(2):
        with pytest.raises(StreamFailed):
            run(spark_lake, tmp_path, topics, killer.decode)
    result = run(spark_lake, tmp_path, topics, killer.decode)
    assert (result.records, result.rejected) == ({"logs": 5, "traces": 4}, {"killed_worker": 2})
    refused = spark_lake.table("quarantine").scan().to_arrow().to_pylist()
    topic = topics.names[Signal.LOGS]
    assert {(row["source"], row["position"], row["encoding"], row["payload"]) for row in refused} == {
        (f"kafka:{topic}/1", 0, "otlp_proto", culprits[0]),
        (f"kafka:{topic}/0", 1, "otlp_json", culprits[1]),
    }
    assert {(row["reason"], row["organization_id"], "SIGKILL" in row["detail"]) for row in refused} == {
        ("killed_worker", "acme", True)
    }
    assert (count(spark_lake, "logs"), count(spark_lake, "spans")) == (5, 4)
    topics.send(Signal.LOGS, logs(1, first=90))
    assert run(spark_lake, tmp_path, topics, killer.decode).records == {"logs": 1}
