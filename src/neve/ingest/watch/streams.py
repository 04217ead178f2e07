"""Events as streams: from the raw zone, where the webhook and the SQS poller put them, and from topics of Kafka."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from neve.ingest.metrics import watch_backlog
from neve.ingest.stream.kafka import read_topics
from neve.ingest.stream.raw_feed import behind
from neve.ingest.watch.announced import Event
from neve.model.signals import Signal
from neve.raw.frame import Kind, decode

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from neve.ingest.stream.raw_feed import RawFeed
    from neve.ingest.stream.result import BatchResult
    from neve.ingest.stream.topics import KafkaConfig
    from neve.ingest.watch.intake import EventIntake
    from neve.raw.zone import Segment


@dataclass(frozen=True)
class RawEvents:
    """Events that were received over HTTP or from SQS."""

    intake: EventIntake
    feed: RawFeed

    def load(self, spark: SparkSession) -> DataFrame:
        """The segments as they come."""
        watch_backlog(self.intake.stream, self.feed.waiting)
        return self.feed.load(spark)

    def take(self, frame: DataFrame) -> BatchResult | None:
        """Take the files in that a batch of segments announces."""
        segments = self.feed.segments(frame)
        if not segments:
            return None
        events = [event for segment in segments for event in self._events(segment)]
        result = self.intake.take(events, behind(segments))
        self.feed.finished(result.positions)
        return result

    def retry(self) -> BatchResult | None:
        """Try again files that could not be read before."""
        return self.intake.retry()

    def caught_up(self) -> bool:
        """Whether everything that was sealed was taken in."""
        return self.feed.caught_up()

    def _events(self, segment: Segment) -> list[Event]:
        try:
            contents = decode(self.feed.zone.read(segment.path))
        except FileNotFoundError:  # taken in and removed before this batch came again
            return []
        source = f"raw:{segment.writer}/{segment.number}"
        events = [
            Event(source, place, frame.payload, frame.organization_id, received_unix_nano=frame.received_unix_nano)
            for place, frame in enumerate(contents.frames)
            if frame.kind is Kind.EVENT
        ]
        # What is damaged is no event, and is put on record as such.
        return events + [Event(source, len(events), damage.data, "unknown") for damage in contents.damaged]


@dataclass(frozen=True)
class KafkaEvents:
    """Events in topics of Kafka; the topic's last word says the signal of the files: `ingest.logs`."""

    intake: EventIntake
    config: KafkaConfig
    organization_id: str

    def load(self, spark: SparkSession) -> DataFrame:
        """The messages as they come."""
        return read_topics(spark, self.config, list(self.config.events), self.config.starting)

    def take(self, frame: DataFrame) -> BatchResult | None:
        """Take the files in that a batch of messages announces; events are few, and go to the driver."""
        rows = frame.where("value IS NOT NULL").collect()
        if not rows:
            return None
        events = [
            Event(
                source=f"kafka:{row.topic}/{row.partition}",
                position=row.offset,
                payload=bytes(row.value),
                organization_id=self.organization_id,
                signal=_signal(row.topic),
                may_name_organization=True,
                received_unix_nano=int(row.timestamp.timestamp() * 1e9),
            )
            for row in rows
        ]
        return self.intake.take(events, {f"{row.topic}/{row.partition}": row.offset + 1 for row in rows})

    def retry(self) -> BatchResult | None:
        """Try again files that could not be read before."""
        return self.intake.retry()

    def caught_up(self) -> bool:
        """Spark reads all that was there when the run began."""
        return True


def _signal(topic: str) -> Signal | None:
    word = topic.rsplit(".", 1)[-1]
    return Signal(word) if word in {signal.value for signal in Signal} else None
