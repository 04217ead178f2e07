"""Write a micro-batch of a stream: decode it, skip rows that the tables have, commit rows and positions together.

A position is the number of the first item of a partition that is not in the table: a segment of a writer in the raw
zone, an offset of a topic's partition in Kafka. Each commit of a stream contains the positions after it. Batches are
ingested one after the other, each into every table before the next begins. So a table contains all its items below its
position, and a repeated batch is skipped row by row, for each table separately.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol
from uuid import uuid4

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt

from neve.ingest.batch_writer import Publisher, gather, sum_written
from neve.ingest.results import BatchResult
from neve.lake.commit.append import TableMoved
from neve.lake.commit.stream_properties import find_stream_summary
from neve.model.commits import POSITIONS, SOURCE_BYTES, STREAM

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import pyarrow as pa
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table
    from pyspark.sql import DataFrame

    from neve.ingest.assignment import Assignment
    from neve.ingest.batch_writer import Written
    from neve.lake.commit.append import Guard
    from neve.lake.spark.exchange import ExchangeBlock


Positions = dict[str, int]


def read_positions(table: Table, stream: str) -> Positions:
    """Return the positions at the table's current snapshot. Those of an abandoned branch of snapshots don't count."""
    summary = find_stream_summary(table, stream)
    return dict(json.loads(summary[POSITIONS])) if summary else {}


def require_positions(stream: str, positions: Positions) -> Guard:
    """Return a guard that the stream has not moved since the batch was read.

    Another process may run the same stream.
    """

    def check(table: Table) -> None:
        found = read_positions(table, stream)
        if found != positions:
            raise TableMoved(f"stream {stream} is at {found} in {table.name()[-1]}, expected {positions}")

    return check


def merge_positions(*several: Mapping[str, int]) -> Positions:
    """Return the larger position of each partition.

    >>> merge_positions({"a": 1, "b": 5}, {"a": 3})
    {'a': 3, 'b': 5}
    """
    merged: Positions = {}
    for positions in several:
        for partition, position in positions.items():
            merged[partition] = max(position, merged.get(partition, 0))
    return merged


def positions_summary(stream: str, positions: Positions) -> dict[str, str]:
    """Return the summary properties of a commit about its stream."""
    return {STREAM: stream, POSITIONS: json.dumps(positions, sort_keys=True, separators=(",", ":"))}


ATTEMPTS = 5  # another process that runs the same stream may commit first, batch after batch


class ScatterTask(Protocol):
    """The work of tasks on their part of a batch."""

    def scatter(self, batches: Iterable[pa.RecordBatch]) -> Iterator[ExchangeBlock]:
        """Yield rows for the writers."""


class MicroBatch(Protocol):
    """One micro-batch of a source, before it is compared with the tables."""

    @property
    def writers(self) -> int:
        """Number of tasks that should write it."""

    def frame(self) -> DataFrame:
        """Return the frame that Spark runs the tasks over."""

    def task(self, assignment: Assignment, positions: dict[str, Positions]) -> ScatterTask:
        """Return the work of the tasks, given the position of each table."""

    def prune(self, positions: Positions) -> Positions:
        """Return the positions without those of partitions that were deleted permanently."""

    def read(self, written: Written) -> tuple[Positions, int]:
        """Return the positions after the batch, and the time of its newest message (0: unknown)."""


@dataclass
class StreamWriter:
    """Ingests the batches of one stream, one after the other."""

    stream: str
    publisher: Publisher

    def positions(self) -> dict[str, Positions]:
        """Return the positions of each table."""
        return {name: read_positions(table, self.stream) for name, table in self.publisher.tables().items()}

    def write(self, work: MicroBatch) -> BatchResult:
        """Ingest a batch. If the stream moved in the meantime, retry with the rest of the batch."""
        attempts = Retrying(retry=retry_if_exception_type(TableMoved), stop=stop_after_attempt(ATTEMPTS), reraise=True)
        return attempts(self._write_once, work)

    def _write_once(self, work: MicroBatch) -> BatchResult:
        started = time.monotonic()
        tables = self.publisher.tables()
        positions = {name: read_positions(table, self.stream) for name, table in tables.items()}
        # A new id for each attempt: positions, not the id, show the part of a batch that the tables have.
        assignment = self.publisher.assign(f"{self.stream}:{uuid4()}", tables, work.writers)
        exchange = self.publisher.lake.exchange
        task = work.task(assignment, positions)
        written = sum_written(exchange.run(work.frame(), task.scatter, partial(gather, assignment), work.writers))
        led_to, newest = work.read(written)
        decoded = time.monotonic()
        files = self._commit(assignment.batch_id, work, written, positions, led_to)
        ended = time.monotonic()
        return BatchResult(
            stream=self.stream,
            batch_id=assignment.batch_id,
            messages=written.tally.messages,
            records=dict(written.tally.written_records),
            rejected=dict(written.tally.rejected),
            duplicates=dict(written.tally.duplicates),
            replayed=written.tally.replayed,
            bytes_in=written.tally.unpacked_bytes,
            bytes_out=sum(file.file_size_in_bytes for file in files),
            data_files=len(files),
            seconds=ended - started,
            commit_seconds=ended - decoded,
            lag_seconds=max(0.0, time.time() - newest / 1e9) if newest else None,
            positions=led_to,
        )

    def _commit(
        self, batch_id: str, work: MicroBatch, written: Written, positions: dict[str, Positions], led_to: Positions
    ) -> list[DataFile]:
        """Commit the rows and the positions to each table in one commit."""

        def describe(name: str) -> dict[str, str]:
            after = work.prune(merge_positions(positions[name], led_to))
            return {**positions_summary(self.stream, after), SOURCE_BYTES: str(written.tally.unpacked_bytes)}

        def guard(name: str) -> Guard:
            return require_positions(self.stream, positions[name])

        return self.publisher.publish(batch_id, written, describe, guard)
