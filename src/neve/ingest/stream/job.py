"""A stream as a query of Structured Streaming: Spark keeps the time and the plan, the tables keep the positions."""

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
from neve.ingest.stream.jvm import engine_is_gone
from neve.ingest.stream.result import BatchResult, StreamResult
from neve.lake.statistics import row_count
from neve.model.tables import QUARANTINE, SPANS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from neve.ingest.config import IngestConfig
    from neve.lake.lake import Lake

EMBEDDED_SECONDS, CLUSTER_SECONDS = 10, 60
POLL_SECONDS = 1
WAITING = "Waiting"  # how the words begin that Spark has for a query between two triggers

log = structlog.get_logger("neve.ingest")

Tell = Callable[[BatchResult], None]


class Stream(Protocol):
    """Something that comes in batches."""

    def load(self, spark: SparkSession) -> DataFrame:
        """What comes in, as a streaming frame."""

    def take(self, frame: DataFrame) -> BatchResult | None:
        """Take a batch in, as much of it as is not there yet; nothing where it is empty."""

    def caught_up(self) -> bool:
        """Whether a run that stops at the end is done; asked when all that was there at its start was taken in."""

    def retry(self) -> BatchResult | None:
        """Try again what was put off and is due; called between batches. Nothing where there is none."""


@dataclass
class StreamJob:
    """One run of a stream, until it is stopped or has caught up."""

    lake: Lake
    config: IngestConfig
    name: str
    stream: Stream
    tell: Tell = lambda _result: None
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
        """Take in what comes; raises `StreamFailed` when the query ends in an error.

        `well` is called when the query has looked for data without an error, whether or not there was any.
        `EnvironmentFault` says that Spark or its JVM is gone: a process that lost it gets no other, and has to be
        started again.
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
        """End after the batch that is under way; may be called from another thread or a signal's handler."""
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
                if not is_well and _waits(query):
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
            raise StreamFailed(f"the stream {self.name} ended: {_cause(error)}", hint=HINT) from error

    def _take(self, frame: DataFrame, _epoch: int) -> None:
        """What Spark calls for each micro-batch, perhaps more than once."""
        if self._stopped:
            raise InterruptedError("the stream was told to stop")  # the batch comes again at the next start
        self._count(self.stream.take(frame))

    def _retry(self) -> None:
        """Let the stream try again what it had put off; a failure of that does not end the query, which has its own."""
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
        QUARANTINE_ROWS.set(row_count(self.lake.table(QUARANTINE.name)))
        self.tell(result)

    def _checkpoint(self) -> str:
        """Where Spark keeps its plan of the stream: another place for other tables, which have none of it."""
        root = self.config.checkpoints
        lake = self.lake.table(SPANS.name).metadata.table_uuid
        return f"{root if '://' in root else Path(root).expanduser().resolve()}/{self.name}-{lake}"


GONE_HINT = "start the command again: it goes on where the tables are; was there too little memory?"
HINT = "nothing that was committed is lost or doubled when it is started again; `neve doctor` says what is reachable"


def commit_seconds(config: IngestConfig, lake: Lake) -> float:
    """How often a stream commits."""
    if config.commit_seconds:
        return config.commit_seconds
    return EMBEDDED_SECONDS if lake.spark_config.is_local else CLUSTER_SECONDS


def _waits(query: StreamingQuery) -> bool:
    """Whether a query is between two triggers, and so is through with one; before the first it gets ready.

    Its progress does not tell: Spark makes none of a trigger that found no data.
    """
    status = query.status
    return not status["isTriggerActive"] and str(status["message"]).startswith(WAITING)


def _cause(error: Exception) -> str:
    """The line of an error of the JVM that says what happened."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = [line for line in lines if "Error" in line or "Exception" in line or line.startswith("neve.")]
    return (told or lines or ["no reason was given"])[-1]
