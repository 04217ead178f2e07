"""Topics of Kafka as a stream."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from neve.ingest.stream.kafka_task import COLUMNS, KafkaTask
from neve.ingest.stream.positions import Positions, furthest
from neve.lake.lane import parallelism

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from neve.ingest.assignment import Assignment
    from neve.ingest.gather import Written
    from neve.ingest.stream.result import BatchResult
    from neve.ingest.stream.topics import KafkaConfig, TopicConfig


@dataclass(frozen=True)
class KafkaWork:
    """The messages of one batch."""

    name: str
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
        newest = max((report.newest_unix_nano for report in written.reports), default=0)
        return furthest(*(report.positions for report in written.reports)), newest


@dataclass
class KafkaStream:
    """Reads topics of OTLP messages."""

    config: KafkaConfig
    organization_id: str
    task_bytes: int
    _last_bytes: int = 0

    @property
    def topics(self) -> dict[str, TopicConfig]:
        """Each topic by its name."""
        return {topic.topic: topic for topic in self.config.topics}

    def load(self, spark: SparkSession, positions: dict[str, Positions]) -> DataFrame:
        """The messages as they come; a stream that lost its checkpoint begins where the tables are."""
        options = {
            "kafka.bootstrap.servers": self.config.bootstrap_servers,
            "subscribe": ",".join(self.topics),
            "startingOffsets": self._starting(positions),
            "maxOffsetsPerTrigger": str(self.config.batch_messages),
            "failOnDataLoss": str(not self.config.allow_loss).lower(),
            **self.config.options,
        }
        frame = spark.readStream.format("kafka").options(**options).load()
        return frame.select(*(F.col(name) for name in COLUMNS))

    def work(self, name: str, frame: DataFrame) -> KafkaWork:
        """What a batch has to do; how many share it is told by the size of the last one."""
        many = self._last_bytes > self.task_bytes and frame.rdd.getNumPartitions() > 1
        writers = parallelism(frame.sparkSession) if many else 1
        return KafkaWork(name, frame, self.topics, self.organization_id, writers)

    def finished(self, result: BatchResult) -> None:
        """Remember how large the batch was."""
        self._last_bytes = result.bytes_in

    def caught_up(self) -> bool:
        """Spark reads all that was there when the run began."""
        return True

    def _starting(self, positions: dict[str, Positions]) -> str:
        """Where a stream without a checkpoint begins.

        One that the tables know has lost it, and is read from the beginning: what the tables have is skipped by its
        offset, unread by the decoder. (The source takes offsets for all partitions of all topics or for none.)
        """
        known = any(positions.values())
        return "earliest" if known else self.config.starting
