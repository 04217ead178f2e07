"""The raw zone as a stream."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from neve.ingest.stream.positions import Positions, furthest
from neve.ingest.stream.raw_source import NAME, RawSource
from neve.ingest.stream.raw_task import RawTask
from neve.lake.lane import parallelism
from neve.raw.zone import Segment

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

    from neve.ingest.assignment import Assignment
    from neve.ingest.config import IngestConfig
    from neve.ingest.gather import Written
    from neve.ingest.stream.result import BatchResult
    from neve.raw.config import RawConfig
    from neve.raw.zone import RawZone

PACKED_FACTOR = 4  # about how much larger what senders packed is inside, for sharing out the work


@dataclass(frozen=True)
class RawWork:
    """The segments of one batch."""

    name: str
    spark: SparkSession
    zone: RawZone
    groups: list[list[Segment]]

    @property
    def writers(self) -> int:
        """As many as there are groups of segments to read."""
        return len(self.groups)

    def frame(self) -> DataFrame:
        """A row for each group."""
        return self.spark.range(0, len(self.groups), 1, len(self.groups))

    def task(self, assignment: Assignment, positions: dict[str, Positions]) -> RawTask:
        """Reading and decoding segments."""
        return RawTask(assignment, self.zone, self.groups, positions)

    def prune(self, positions: Positions) -> Positions:
        """Without writers that left no segment: their names are never used again."""
        there = {segment.writer for segment in self.zone.segments()}
        return {writer: position for writer, position in positions.items() if writer in there}

    def read(self, written: Written) -> tuple[Positions, int]:
        """Behind the last segment of each writer."""
        after = [{segment.writer: segment.number + 1} for group in self.groups for segment in group]
        return furthest(*after), max(written.reports, default=0)


@dataclass(frozen=True)
class RawStream:
    """Reads sealed segments, and cleans up behind itself."""

    zone: RawZone
    raw: RawConfig
    ingest: IngestConfig

    def load(self, spark: SparkSession, _positions: dict[str, Positions]) -> DataFrame:
        """The segments as they come."""
        spark.dataSource.register(RawSource)
        self.zone.recover()
        reader = spark.readStream.format(NAME).option("location", self.zone.location)
        secrets = self.zone.s3.model_dump() | {"secret_key": self.zone.s3.secret_key.get_secret_value()}
        return reader.options(s3=json.dumps(secrets), batch_bytes=str(self.ingest.batch_bytes)).load()

    def work(self, name: str, frame: DataFrame) -> RawWork | None:
        """What a batch has to do; nothing where it names no segment."""
        segments = [Segment(row.writer, row.number, row.path, row.size) for row in frame.collect()]
        if not segments:
            return None
        spark = frame.sparkSession
        return RawWork(name, spark, self.zone, share_out(segments, self.ingest.task_bytes, parallelism(spark)))

    def finished(self, result: BatchResult) -> None:
        """Write down how far the tables are, and remove what is no longer needed."""
        there = {segment.writer for segment in self.zone.segments()}
        consumed = furthest(self.zone.consumed(), result.positions)
        self.zone.mark_consumed({writer: position for writer, position in consumed.items() if writer in there})
        self.zone.clean(self.raw.keep_seconds)

    def caught_up(self) -> bool:
        """Whether everything that was sealed is in the tables."""
        self.zone.recover()
        return not self.zone.backlog()


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
