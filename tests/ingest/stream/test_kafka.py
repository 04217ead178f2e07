"""From topics of Kafka into the tables, once."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from neve.ingest.config import IngestConfig
from neve.ingest.publish import Publisher
from neve.ingest.stream.batch import StreamWriter
from neve.ingest.stream.job import StreamJob
from neve.ingest.stream.kafka import KafkaStream
from neve.ingest.stream.positions import read_positions
from neve.ingest.stream.topics import KafkaConfig
from neve.model.signals import Signal
from neve.otlp.json import to_json
from tests.telemetry import logs, metrics, traces

if TYPE_CHECKING:
    from pathlib import Path

    from neve.ingest.stream.result import StreamResult
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


def run(lake: Lake, folder: Path, topics: Topics, **settings: object) -> StreamResult:
    """Take in all that is in the topics."""
    config = IngestConfig.model_validate({"checkpoints": str(folder / "checkpoints"), **settings})
    writer = StreamWriter("kafka", Publisher(lake, config, "ingest-stream"))
    return StreamJob(lake, config, "kafka", KafkaStream(writer, topics.config, "acme")).run(until_caught_up=True)


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
