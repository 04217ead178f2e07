"""The job of a stream that Spark follows: a Structured Streaming query, which schedules the batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from pyspark.errors import StreamingQueryException

from neve.ingest.metrics import watch_stream
from neve.ingest.stream.job import Stream, StreamJob, commit_seconds

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from neve.ingest.results import BatchResult

POLL_SECONDS = 1
WAITING = "Waiting"  # prefix of Spark's status message for a query between two triggers


class QueryStream(Stream, Protocol):
    """A source of micro-batches that Spark reads."""

    def load(self, spark: SparkSession) -> DataFrame:
        """Return the input as a streaming frame."""

    def ingest(self, frame: DataFrame) -> BatchResult | None:
        """Ingest the new part of a batch. Return nothing if it is empty."""


@dataclass
class QueryJob(StreamJob):
    """One run of a streaming query."""

    stream: QueryStream

    def _run(self, until_caught_up: bool, well: Callable[[], None]) -> None:
        while not self._stop.is_set() and self._start_engine():
            before = self.result.batches
            self._wait(self._start(until_caught_up), well)
            if until_caught_up:
                self._retry()
            if until_caught_up and (self.stream.caught_up() or self.result.batches == before):
                break

    def _start(self, until_caught_up: bool) -> StreamingQuery:
        frame = self.stream.load(self.lake.spark)
        query = (
            frame.writeStream.queryName(self.name)
            .option("checkpointLocation", self._checkpoint())
            .foreachBatch(self._ingest)
        )
        if until_caught_up:
            return query.trigger(availableNow=True).start()
        return query.trigger(processingTime=f"{commit_seconds(self.config, self.lake)} seconds").start()

    def _wait(self, query: StreamingQuery, well: Callable[[], None]) -> None:
        is_well = False
        try:
            while not query.awaitTermination(POLL_SECONDS):
                watch_stream(self.name, query)
                if not is_well and _is_waiting(query):
                    is_well = True
                    well()
                if query.status["isTriggerActive"]:
                    continue
                if self._stop.is_set():
                    query.stop()
                else:
                    self._retry()
        except StreamingQueryException as error:
            if self._stop.is_set():
                return
            raise self._failure(error) from error

    def _ingest(self, frame: DataFrame, _epoch: int) -> None:
        """Ingest a micro-batch. Spark calls this for each one, possibly more than once."""
        if self._stop.is_set():
            raise InterruptedError("the stream was told to stop")  # the batch is repeated at the next start
        self._count(self.observe(lambda: self.stream.ingest(frame)))


def _is_waiting(query: StreamingQuery) -> bool:
    """Return whether a query is between two triggers and has completed one. Before the first it is initializing.

    Its progress does not show this: Spark reports none for a trigger without data.
    """
    status = query.status
    return not status["isTriggerActive"] and str(status["message"]).startswith(WAITING)
