"""The raw zone as a source of Structured Streaming: offsets are positions, rows are segments, not their bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from neve.raw.zone import RawZone, Segment

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql.types import StructType

    from neve.lake.config import S3Config

NAME = "neve_raw"
SCHEMA = "writer string, number long, path string, size long"


def source_with(s3: S3Config) -> type[DataSource]:
    """The source `neve_raw` with the options `location` and `batch_bytes`, and the login of object storage inside.

    Options of a source are in plans, in events and on Spark's page. A class that is made here is pickled with what it
    refers to, and is in none of them.
    """

    class RawSource(DataSource):
        """`spark.readStream.format("neve_raw")`."""

        @classmethod
        def name(cls) -> str:
            """What the format is called."""
            return NAME

        def schema(self) -> str:
            """One row a segment."""
            return SCHEMA

        def streamReader(self, schema: StructType) -> RawReader:  # noqa: N802 - Spark's name
            """The reader of one query."""
            return RawReader(RawZone(self.options["location"], s3), int(self.options["batch_bytes"]))

    return RawSource


class RawReader(DataSourceStreamReader):
    """Lists the zone; what a batch holds is decided by positions alone."""

    def __init__(self, zone: RawZone, batch_bytes: int) -> None:
        self._zone = zone
        self._batch_bytes = batch_bytes

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        """The beginning of whatever is there."""
        return {}

    def latestOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        """As far as a batch goes: the segments that are not in the tables yet, up to so many bytes."""
        self._zone.recover()  # a receiver may have died since the stream began
        return batch_end(self._zone.segments(), self._zone.consumed(), self._batch_bytes)

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """All segments of a batch at once: they are only named here."""
        return [InputPartition(between(self._zone.segments(), start, end))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The segments of a batch as rows."""
        segments: list[Segment] = partition.value
        columns: dict[str, Any] = {
            "writer": pa.array([segment.writer for segment in segments], pa.string()),
            "number": pa.array([segment.number for segment in segments], pa.int64()),
            "path": pa.array([segment.path for segment in segments], pa.string()),
            "size": pa.array([segment.size for segment in segments], pa.int64()),
        }
        yield pa.RecordBatch.from_pydict(columns)


def batch_end(segments: Sequence[Segment], consumed: dict[str, int], batch_bytes: int) -> dict[str, int]:
    """How far a batch goes when it begins where the tables are: whole segments, at least one, about so many bytes."""
    end = {segment.writer: consumed.get(segment.writer, 0) for segment in segments}
    size = 0
    for segment in segments:
        if segment.number >= consumed.get(segment.writer, 0):
            if size and size + segment.size > batch_bytes:
                break
            size += segment.size
            end[segment.writer] = max(end[segment.writer], segment.number + 1)
    return end


def between(segments: Sequence[Segment], start: dict[str, int], end: dict[str, int]) -> list[Segment]:
    """The segments from one position to another."""
    return [
        segment for segment in segments if start.get(segment.writer, 0) <= segment.number < end.get(segment.writer, 0)
    ]
