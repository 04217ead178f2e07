"""The stream job: a Structured Streaming query. Spark schedules the batches, the tables store the positions."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import structlog
from pyspark.errors import StreamingQueryException

from neve.errors import ConfigError, EnvironmentFault, StreamFailed
from neve.ingest.metrics import FAILURES, QUARANTINE_ROWS, count_batch, watch_stream
from neve.ingest.results import BatchResult, StreamResult
from neve.ingest.spark_crashes import engine_is_gone
from neve.lake.read.statistics import count_rows
from neve.model.tables import QUARANTINE, SPANS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from neve.ingest.config import IngestConfig
    from neve.lake.lake import Lake

EMBEDDED_SECONDS, CLUSTER_SECONDS = 10, 60
POLL_SECONDS = 1
WAITING = "Waiting"  # prefix of Spark's status message for a query between two triggers

log = structlog.get_logger("neve.ingest")

BatchCallback = Callable[[BatchResult], None]


class Stream(Protocol):
    """A source of batches."""

    def load(self, spark: SparkSession) -> DataFrame:
        """Return the input as a streaming frame."""

    def take(self, frame: DataFrame) -> BatchResult | None:
        """Ingest the new part of a batch. Return nothing if it is empty."""

    def caught_up(self) -> bool:
        """Return whether a run that stops at the end is done.

        Called after all input that existed at its start was ingested.
        """

    def retry(self) -> BatchResult | None:
        """Retry postponed work that is due. Called between batches. Return nothing if there is none."""


@dataclass
class StreamJob:
    """One run of a stream, until it is stopped or has caught up."""

    lake: Lake
    config: IngestConfig
    name: str
    stream: Stream
    tell: BatchCallback = lambda _result: None
    result: StreamResult = field(init=False)
    _stopped: bool = False

    def __post_init__(self) -> None:
        if self.lake.spark_config.connect:
            raise ConfigError(
                f"spark.connect is {self.lake.spark_config.connect!r}: streams need a driver of their own",
                hint="set spark.master instead, to a cluster or to local[*]",
            )
        self.result = StreamResult(self.name)

    def run(self, *, until_caught_up: bool = False, well: Callable[[], None] = lambda: None) -> StreamResult:
        """Ingest the stream. Raises `StreamFailed` if the query ends in an error.

        `well` is called when the query has checked for data without an error, with or without a result.
        `EnvironmentFault` is raised if Spark or its JVM has ended: the process can't start another and must be
        restarted.
        """
        started = time.monotonic()
        try:
            self._run(until_caught_up, well)
        except Exception as error:
            if engine_is_gone():
                raise EnvironmentFault(f"the engine of the stream {self.name} is gone", hint=GONE_HINT) from error
            raise
        self.result.seconds = time.monotonic() - started
        return self.result

    def stop(self) -> None:
        """Stop after the current batch. May be called from another thread or a signal handler."""
        self._stopped = True

    def _run(self, until_caught_up: bool, well: Callable[[], None]) -> None:
        while not self._stopped:
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
            .foreachBatch(self._take)
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
                if self._stopped:
                    query.stop()
                else:
                    self._retry()
        except StreamingQueryException as error:
            if self._stopped:
                return
            raise StreamFailed(f"the stream {self.name} ended: {_find_cause(error)}", hint=HINT) from error

    def _take(self, frame: DataFrame, _epoch: int) -> None:
        """Ingest a micro-batch. Spark calls this for each one, possibly more than once."""
        if self._stopped:
            raise InterruptedError("the stream was told to stop")  # the batch is repeated at the next start
        self._count(self.stream.take(frame))

    def _retry(self) -> None:
        """Retry postponed work of the stream. A failure does not end the query."""
        try:
            result = self.stream.retry()
        except Exception as error:
            FAILURES.labels(self.name).inc()
            log.warning("another attempt failed", stream=self.name, error=str(error))
            return
        self._count(result)

    def _count(self, result: BatchResult | None) -> None:
        if result is None:
            return
        self.result.add(result)
        count_batch(result)
        QUARANTINE_ROWS.set(count_rows(self.lake.table(QUARANTINE.name)))
        self.tell(result)

    def _checkpoint(self) -> str:
        """Return the location of Spark's checkpoint. It depends on the table: new tables have no data of the stream."""
        root = self.config.checkpoints
        lake = self.lake.table(SPANS.name).metadata.table_uuid
        return f"{root if '://' in root else Path(root).expanduser().resolve()}/{self.name}-{lake}"


GONE_HINT = "start the command again, it continues from the positions in the tables; check the memory of the machine"
HINT = "start it again: nothing is lost or duplicated; run `neve doctor` to see what is reachable"


def commit_seconds(config: IngestConfig, lake: Lake) -> float:
    """Return the commit interval of a stream."""
    if config.commit_seconds:
        return config.commit_seconds
    return EMBEDDED_SECONDS if lake.spark_config.is_local else CLUSTER_SECONDS


def _is_waiting(query: StreamingQuery) -> bool:
    """Return whether a query is between two triggers and has completed one. Before the first it is initializing.

    Its progress does not show this: Spark reports none for a trigger without data.
    """
    status = query.status
    return not status["isTriggerActive"] and str(status["message"]).startswith(WAITING)


def _find_cause(error: Exception) -> str:
    """Return the line of a JVM error that has the cause."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = [line for line in lines if "Error" in line or "Exception" in line or line.startswith("neve.")]
    return (told or lines or ["no reason was given"])[-1]
