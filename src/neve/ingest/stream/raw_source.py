"""The raw zone as a Structured Streaming source: offsets are positions, rows name segments without their bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql.types import StructType

    from neve.raw.zone import RawZone, Segment


PREFIX = "neve_raw_"
SCHEMA = "writer string, number long, path string, size long"


def make_raw_source(zone: RawZone) -> type[DataSource]:
    """Return the source of a zone, with the option `batch_bytes`. It contains the credentials of object storage.

    Each zone has its own source. Spark changes the environment of a source's function while it plans, and two streams
    of one source, started together, would serialize a map that is being changed.

    Options of a source are visible in plans, in events and on Spark's page. A class that is created here is pickled
    with the values that it refers to, and none of them are visible there.
    """

    class RawSource(DataSource):
        """`spark.readStream.format("neve_raw_otlp")`, with the name of the zone."""

        @classmethod
        def name(cls) -> str:
            """Return the name of the format."""
            return source_name(zone)

        def schema(self) -> str:
            """Return the schema: one row per segment."""
            return SCHEMA

        def streamReader(self, schema: StructType) -> RawReader:  # noqa: N802 - Spark's name
            """Return the reader of one query."""
            return RawReader(zone, int(self.options["batch_bytes"]))

    return RawSource


def source_name(zone: RawZone) -> str:
    """Return the name of a zone's source: the last part of its location."""
    return PREFIX + zone.location.rsplit("/", 1)[-1]


class RawReader(DataSourceStreamReader):
    """Lists the zone. Positions alone determine the content of a batch."""

    def __init__(self, zone: RawZone, batch_bytes: int) -> None:
        self._zone = zone
        self._batch_bytes = batch_bytes

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        """Return the beginning of the zone."""
        return {}

    def latestOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        """Return the end of the next batch: segments that are not in the tables yet, up to `batch_bytes`."""
        self._zone.recover()  # a receiver may have crashed since the stream started
        return find_batch_end(self._zone.segments(), self._zone.read_consumed(), self._batch_bytes)

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """Return all segments of a batch in one partition: the rows contain only their names."""
        return [InputPartition(select_segments(self._zone.segments(), start, end))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the segments of a batch as rows."""
        segments: list[Segment] = partition.value
        columns: dict[str, Any] = {
            "writer": pa.array([segment.writer for segment in segments], pa.string()),
            "number": pa.array([segment.number for segment in segments], pa.int64()),
            "path": pa.array([segment.path for segment in segments], pa.string()),
            "size": pa.array([segment.size for segment in segments], pa.int64()),
        }
        yield pa.RecordBatch.from_pydict(columns)


def find_batch_end(segments: Sequence[Segment], consumed: dict[str, int], batch_bytes: int) -> dict[str, int]:
    """Return the end of a batch that begins at the tables' positions: whole segments, at least one.

    A batch has about `batch_bytes`.
    """
    end = {segment.writer: consumed.get(segment.writer, 0) for segment in segments}
    size = 0
    for segment in segments:
        if segment.number >= consumed.get(segment.writer, 0):
            if size and size + segment.size > batch_bytes:
                break
            size += segment.size
            end[segment.writer] = max(end[segment.writer], segment.number + 1)
    return end


def select_segments(segments: Sequence[Segment], start: dict[str, int], end: dict[str, int]) -> list[Segment]:
    """Return the segments from one position to another."""
    return [
        segment for segment in segments if start.get(segment.writer, 0) <= segment.number < end.get(segment.writer, 0)
    ]
