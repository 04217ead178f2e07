"""Streams of events: from the raw zone, where the webhook and the SQS poller store them, and from Kafka topics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from neve.ingest.metrics import watch_backlog
from neve.ingest.stream.kafka import read_topics
from neve.ingest.stream.raw_zone import positions_after
from neve.ingest.watch.events import Event
from neve.model.signals import Signal
from neve.raw.frame import Kind, decode

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from neve.ingest.config import KafkaConfig
    from neve.ingest.results import BatchResult
    from neve.ingest.stream.job import StartEngine
    from neve.ingest.stream.raw_zone import RawFeed
    from neve.ingest.watch.event_ingest import EventIngester
    from neve.raw.segments import Segment


@dataclass(frozen=True)
class RawEvents:
    """Events that were received over HTTP or from SQS."""

    intake: EventIngester
    feed: RawFeed

    def open(self, *, anew: bool) -> None:
        """Prepare a run."""
        watch_backlog(self.intake.stream, self.feed.waiting)
        self.feed.open(anew=anew)

    def find(self) -> list[Segment]:
        """Return the segments of the next batch."""
        return self.feed.find()

    def ingest(self, segments: list[Segment]) -> BatchResult | None:
        """Ingest the files that a batch of segments announces."""
        events = [event for segment in segments for event in self._events(segment)]
        result = self.intake.ingest(events, positions_after(segments))
        self.feed.finish(result.positions)
        return result

    def retry(self, start_engine: StartEngine) -> BatchResult | None:
        """Retry files that could not be read before."""
        return self.intake.retry(start_engine)

    def caught_up(self) -> bool:
        """Return whether all sealed segments were ingested."""
        return self.feed.caught_up()

    def _events(self, segment: Segment) -> list[Event]:
        try:
            contents = decode(self.feed.zone.read(segment.path))
        except FileNotFoundError:  # ingested and removed before this batch was repeated
            return []
        source = f"raw:{segment.writer}/{segment.number}"
        events = [
            Event(source, place, frame.payload, frame.organization_id, received_unix_nano=frame.received_unix_nano)
            for place, frame in enumerate(contents.frames)
            if frame.kind is Kind.EVENT
        ]
        # A damaged frame contains no event and goes to quarantine.
        return events + [Event(source, len(events), damage.data, "unknown") for damage in contents.damaged]


@dataclass(frozen=True)
class KafkaEvents:
    """Events in Kafka topics. The last word of the topic is the signal of the files: `ingest.logs`."""

    intake: EventIngester
    config: KafkaConfig
    organization_id: str

    def load(self, spark: SparkSession) -> DataFrame:
        """Return a streaming frame of the messages."""
        return read_topics(spark, self.config, list(self.config.events), self.config.starting)

    def ingest(self, frame: DataFrame) -> BatchResult | None:
        """Ingest the files that a batch of messages announces. Events are few, so they are collected on the driver."""
        rows = frame.where("value IS NOT NULL").collect()
        if not rows:
            return None
        events = [
            Event(
                source=f"kafka:{row.topic}/{row.partition}",
                position=row.offset,
                payload=bytes(row.value),
                organization_id=self.organization_id,
                signal=_find_signal(row.topic),
                may_name_organization=True,
                received_unix_nano=int(row.timestamp.timestamp() * 1e9),
            )
            for row in rows
        ]
        return self.intake.ingest(events, {f"{row.topic}/{row.partition}": row.offset + 1 for row in rows})

    def retry(self, start_engine: StartEngine) -> BatchResult | None:
        """Retry files that could not be read before."""
        return self.intake.retry(start_engine)

    def caught_up(self) -> bool:
        """Return true: Spark reads everything that existed when the run began."""
        return True


def _find_signal(topic: str) -> Signal | None:
    word = topic.rsplit(".", 1)[-1]
    return Signal(word) if word in {signal.value for signal in Signal} else None
