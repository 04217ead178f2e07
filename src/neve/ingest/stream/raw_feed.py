"""The segments of a zone, batch after batch, and what is done with them afterwards."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from neve.ingest.stream.positions import Positions, furthest
from neve.ingest.stream.raw_source import NAME, source_with
from neve.raw.zone import Segment

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from neve.raw.zone import RawZone


@dataclass
class RawFeed:
    """Hands out sealed segments, remembers which were taken in, removes them in time."""

    zone: RawZone
    batch_bytes: int
    keep_seconds: float
    _there: set[str] = field(default_factory=set)

    def load(self, spark: SparkSession) -> DataFrame:
        """The segments as they come, a row each."""
        spark.dataSource.register(source_with(self.zone.s3))
        self.zone.recover()
        self._there = self._there or {segment.path for segment in self.zone.backlog()}
        options = {"location": self.zone.location, "batch_bytes": str(self.batch_bytes)}
        return spark.readStream.format(NAME).options(**options).load()

    def segments(self, frame: DataFrame) -> list[Segment]:
        """The segments of a batch."""
        return [Segment(row.writer, row.number, row.path, row.size) for row in frame.collect()]

    def finished(self, positions: Positions) -> None:
        """Write down how far the tables are, and remove what is no longer needed."""
        there = {segment.writer for segment in self.zone.segments()}
        consumed = furthest(self.zone.consumed(), positions)
        self.zone.mark_consumed({writer: position for writer, position in consumed.items() if writer in there})
        self.zone.clean(self.keep_seconds)

    def caught_up(self) -> bool:
        """Whether everything was taken in that was there when the stream began; more may have come since."""
        return self._there.isdisjoint(segment.path for segment in self.zone.backlog())

    def waiting(self) -> tuple[int, float]:
        """How many bytes wait, and for how many seconds the oldest of them has."""
        backlog = self.zone.backlog()
        oldest = min((segment.modified for segment in backlog), default=time.time())
        return sum(segment.size for segment in backlog), max(0.0, time.time() - oldest)


def behind(segments: list[Segment]) -> Positions:
    """The positions behind the last segment of each writer."""
    return furthest(*({segment.writer: segment.number + 1} for segment in segments))
