"""Topics of Kafka as a stream."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from neve.ingest.stream.kafka_task import COLUMNS, KafkaReport, KafkaTask
from neve.ingest.stream.positions import Positions, furthest
from neve.lake.lane import parallelism

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from neve.ingest.assignment import Assignment
    from neve.ingest.gather import Written
    from neve.ingest.stream.batch import StreamWriter
    from neve.ingest.stream.result import BatchResult
    from neve.ingest.stream.topics import KafkaConfig, TopicConfig


@dataclass(frozen=True)
class KafkaWork:
    """The messages of one batch."""

    messages: DataFrame
    topics: dict[str, TopicConfig]
    organization_id: str
    writers: int

    def frame(self) -> DataFrame:
        """The messages themselves: Spark's source reads them in the JVM."""
        return self.messages

    def task(self, assignment: Assignment, positions: dict[str, Positions]) -> KafkaTask:
        """Decoding messages."""
        return KafkaTask(assignment, self.topics, self.organization_id, positions)

    def prune(self, positions: Positions) -> Positions:
        """All of them: a topic that is gone may come back."""
        return positions

    def read(self, written: Written) -> tuple[Positions, int]:
        """Behind the last message of each partition."""
        reports = [KafkaReport(**told) for told in written.reports]
        newest = max((report.newest_unix_nano for report in reports), default=0)
        return furthest(*(report.positions for report in reports)), newest


@dataclass
class KafkaStream:
    """Takes topics of OTLP messages in."""

    writer: StreamWriter
    config: KafkaConfig
    organization_id: str
    _last_bytes: int = 0

    @property
    def topics(self) -> dict[str, TopicConfig]:
        """Each topic by its name."""
        return {topic.topic: topic for topic in self.config.topics}

    def load(self, spark: SparkSession) -> DataFrame:
        """The messages as they come.

        A stream that the tables know and that has no checkpoint has lost it. It is read from the beginning: what the
        tables have is skipped by its offset, unread by the decoder. (Spark's source takes offsets for all partitions of
        all topics or for none.)
        """
        known = any(self.writer.positions().values())
        starting = "earliest" if known else self.config.starting
        return read_topics(spark, self.config, list(self.topics), starting)

    def take(self, frame: DataFrame) -> BatchResult | None:
        """Take a batch of messages in; how many tasks share the writing is told by the size of the last batch."""
        many = self._last_bytes > self.writer.publisher.config.task_bytes and frame.rdd.getNumPartitions() > 1
        writers = parallelism(frame.sparkSession) if many else 1
        result = self.writer.take(KafkaWork(frame, self.topics, self.organization_id, writers))
        self._last_bytes = result.bytes_in
        return result

    def retry(self) -> BatchResult | None:
        """Nothing of it is ever put off."""
        return None

    def caught_up(self) -> bool:
        """Spark reads all that was there when the run began."""
        return True


def read_topics(spark: SparkSession, config: KafkaConfig, topics: list[str], starting: str) -> DataFrame:
    """Messages of some topics as they come."""
    options = {
        "kafka.bootstrap.servers": config.bootstrap_servers,
        "subscribe": ",".join(topics),
        "startingOffsets": starting,
        "maxOffsetsPerTrigger": str(config.batch_messages),
        "failOnDataLoss": str(not config.allow_loss).lower(),
        **config.options,
    }
    return spark.readStream.format("kafka").options(**options).load().select(*COLUMNS)
