"""The raw zone as a stream."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import structlog

from neve.ingest.decoder import Decode, decode_all
from neve.ingest.metrics import watch_backlog
from neve.ingest.stream.isolate import find_killers
from neve.ingest.stream.raw_feed import behind
from neve.ingest.stream.raw_task import Killers, RawTask
from neve.lake.lane import parallelism

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

    from neve.ingest.assignment import Assignment
    from neve.ingest.gather import Written
    from neve.ingest.stream.batch import StreamWriter
    from neve.ingest.stream.positions import Positions
    from neve.ingest.stream.raw_feed import RawFeed
    from neve.ingest.stream.result import BatchResult
    from neve.raw.zone import RawZone, Segment

# About how much larger what senders packed is inside, for sharing out the work. How large it is in truth is seen only
# when it is opened, a few frames at a time: where the guess is wrong a task takes longer, not more memory.
PACKED_FACTOR = 4
FAILURES = 2  # of a batch, before it is looked at frame by frame

log = structlog.get_logger("neve.ingest")


@dataclass(frozen=True)
class RawWork:
    """The segments of one batch."""

    spark: SparkSession
    zone: RawZone
    groups: list[list[Segment]]
    killers: Killers = field(default_factory=dict)
    decode: Decode = decode_all

    @property
    def writers(self) -> int:
        """As many as there are groups of segments to read."""
        return len(self.groups)

    def frame(self) -> DataFrame:
        """A row for each group."""
        return self.spark.range(0, len(self.groups), 1, len(self.groups))

    def task(self, assignment: Assignment, positions: dict[str, Positions]) -> RawTask:
        """Reading and decoding segments."""
        return RawTask(assignment, self.zone, self.groups, positions, self.killers, self.decode)

    def prune(self, positions: Positions) -> Positions:
        """Without writers that left no segment: their names are never used again."""
        there = {segment.writer for segment in self.zone.segments()}
        return {writer: position for writer, position in positions.items() if writer in there}

    def read(self, written: Written) -> tuple[Positions, int]:
        """Behind the last segment of each writer."""
        return behind([segment for group in self.groups for segment in group]), max(written.reports, default=0)


@dataclass(frozen=True)
class RawStream:
    """Takes sealed segments of OTLP messages in."""

    writer: StreamWriter
    feed: RawFeed
    decode: Decode = decode_all  # a function that can be imported by its name: worker processes do

    def load(self, spark: SparkSession) -> DataFrame:
        """The segments as they come."""
        self.writer.positions()  # a stream whose tables don't know how far they are does not begin
        watch_backlog(self.writer.stream, self.feed.waiting)
        return self.feed.load(spark)

    def take(self, frame: DataFrame) -> BatchResult | None:
        """Take a batch of segments in, and clean up behind it."""
        segments = self.feed.segments(frame)
        if not segments:
            return None
        spark, config, zone = frame.sparkSession, self.writer.publisher.config, self.feed.zone
        killers: Killers = {}
        begun = zone.begin(segments)
        if begun > FAILURES:
            log.warning("a batch fails again and again: its messages are tried one by one", failures=begun - 1)
            killers = find_killers(spark, zone, segments, config, self.decode, begun - 1)
        groups = share_out(segments, config.task_bytes, parallelism(spark))
        result = self.writer.take(RawWork(spark, zone, groups, killers, self.decode))
        self.feed.finished(result.positions)
        return result

    def retry(self) -> BatchResult | None:
        """Nothing of it is ever put off."""
        return None

    def caught_up(self) -> bool:
        """Whether everything that was sealed is in the tables."""
        return self.feed.caught_up()


def share_out(segments: Sequence[Segment], task_bytes: int, most_at_once: int) -> list[list[Segment]]:
    """Groups of about equal size; only one while the batch is small, which then needs no exchange of rows."""
    total = sum(segment.size for segment in segments)
    groups = max(1, -(-total * PACKED_FACTOR // task_bytes))
    groups = min(len(segments), max(groups, most_at_once) if groups > 1 else 1)
    shared: list[list[Segment]] = [[] for _ in range(groups)]
    sizes = [0] * groups
    for segment in sorted(segments, key=lambda segment: -segment.size):
        smallest = sizes.index(min(sizes))
        shared[smallest].append(segment)
        sizes[smallest] += segment.size
    return shared
