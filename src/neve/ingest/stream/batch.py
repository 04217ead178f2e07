"""One micro-batch into the tables: decode, leave out what is there, commit rows and positions together."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol
from uuid import uuid4

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt

from neve.ingest.gather import gather
from neve.ingest.publish import Publisher, total
from neve.ingest.stream.positions import furthest, read_positions, summary_of, unmoved
from neve.ingest.stream.result import BatchResult
from neve.lake.commits import TableMoved
from neve.model.commits import SOURCE_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa
    from pyiceberg.manifest import DataFile
    from pyspark.sql import DataFrame

    from neve.ingest.assignment import Assignment
    from neve.ingest.gather import Written
    from neve.ingest.stream.positions import Positions
    from neve.lake.commits import Guard
    from neve.lake.exchange import Parcel

ATTEMPTS = 5  # another process that runs the same stream may be quicker, batch after batch


class Scatter(Protocol):
    """What tasks do with their part of a batch."""

    def scatter(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Parcel]:
        """Rows on their way to writers."""


class Work(Protocol):
    """One micro-batch of a source, before it is known what the tables have of it."""

    @property
    def writers(self) -> int:
        """How many tasks should write it."""

    def frame(self) -> DataFrame:
        """What Spark runs the tasks over."""

    def task(self, assignment: Assignment, positions: dict[str, Positions]) -> Scatter:
        """The tasks' work, given how far each table is."""

    def prune(self, positions: Positions) -> Positions:
        """The positions without those of partitions that are gone for good."""

    def read(self, written: Written) -> tuple[Positions, int]:
        """The positions that the batch leads to, and when its newest message came (0: nobody knows)."""


@dataclass
class StreamWriter:
    """Takes the batches of one stream, one after the other."""

    stream: str
    publisher: Publisher

    def positions(self) -> dict[str, Positions]:
        """How far each table is."""
        return {name: read_positions(table, self.stream) for name, table in self.publisher.tables().items()}

    def take(self, work: Work) -> BatchResult:
        """Take a batch in; when the stream moved on meanwhile, look again at what is left of it."""
        attempts = Retrying(retry=retry_if_exception_type(TableMoved), stop=stop_after_attempt(ATTEMPTS), reraise=True)
        return attempts(self._take_once, work)

    def _take_once(self, work: Work) -> BatchResult:
        started = time.monotonic()
        tables = self.publisher.tables()
        positions = {name: read_positions(table, self.stream) for name, table in tables.items()}
        # A new id for each attempt: what the tables have of a batch is told by their positions, not by its name.
        assignment = self.publisher.assign(f"{self.stream}:{uuid4()}", tables, work.writers)
        exchange = self.publisher.lake.exchange
        task = work.task(assignment, positions)
        written = total(exchange.run(work.frame(), task.scatter, partial(gather, assignment), work.writers))
        led_to, newest = work.read(written)
        decoded = time.monotonic()
        files = self._commit(assignment.batch_id, work, written, positions, led_to)
        ended = time.monotonic()
        return BatchResult(
            stream=self.stream,
            batch_id=assignment.batch_id,
            messages=written.tally.messages,
            records=dict(written.tally.written),
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
        self, batch_id: str, work: Work, written: Written, positions: dict[str, Positions], led_to: Positions
    ) -> list[DataFile]:
        """Every table gets its rows and the positions in one commit."""

        def describe(name: str) -> dict[str, str]:
            after = work.prune(furthest(positions[name], led_to))
            return {**summary_of(self.stream, after), SOURCE_BYTES: str(written.tally.unpacked_bytes)}

        def guard(name: str) -> Guard:
            return unmoved(self.stream, positions[name])

        return self.publisher.publish(batch_id, written, describe, guard)
