"""Streams of ingestion as the settings describe them, and how they are kept running."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import structlog
from tenacity import Retrying, retry_if_not_exception_type, stop_when_event_set, wait_random_exponential
from tenacity.nap import sleep_using_event

from neve.app.telemetry.traces import span
from neve.app.wiring import build_documents, build_places
from neve.errors import ConfigError, EnvironmentFault, TableMissing
from neve.ingest.metrics import FAILURES
from neve.ingest.publish import Publisher
from neve.ingest.stream.batch import StreamWriter
from neve.ingest.stream.raw_feed import RawFeed
from neve.ingest.watch.intake import EventIntake
from neve.ingest.watch.sqs import SqsPoller, connect
from neve.lake.jars import KAFKA
from neve.raw.frame import Encoding, Frame, Kind
from neve.raw.writer import open_writer
from neve.raw.zone import EVENTS, OTLP, RawZone

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession
    from tenacity import RetryCallState

    from neve.app.settings import Settings
    from neve.ingest.stream.job import Stream, StreamJob, Tell
    from neve.ingest.stream.result import BatchResult, StreamResult
    from neve.lake.lake import Lake

FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 1, 60
# What another attempt does not mend.
HOPELESS = (ConfigError, EnvironmentFault, TableMissing)

log = structlog.get_logger("neve.ingest")


@dataclass(frozen=True)
class Streams:
    """Makes the streams of a lake."""

    settings: Settings
    lake: Lake

    def raw(self, tell: Tell) -> StreamJob:
        """What the receivers got."""
        from neve.ingest.stream.raw import RawStream  # noqa: PLC0415 - a stream brings pyspark along

        return self._job("raw", lambda lake: RawStream(self._writer("raw", lake), self._feed(OTLP)), tell)

    def kafka(self, tell: Tell, name: str = "kafka") -> StreamJob:
        """Topics of OTLP messages; streams of other topics or brokers have other names."""
        from neve.ingest.stream.kafka import KafkaStream  # noqa: PLC0415

        config, organization = self.settings.kafka, self.settings.organization
        return self._job(
            name, lambda lake: KafkaStream(self._writer(name, lake), config, organization), tell, kafka=True
        )

    def events(self, tell: Tell) -> StreamJob:
        """Files that events announce which came over HTTP or from SQS."""
        from neve.ingest.watch.streams import RawEvents  # noqa: PLC0415

        return self._job("watch", lambda lake: RawEvents(self._intake("watch", lake), self._feed(EVENTS)), tell)

    def kafka_events(self, tell: Tell) -> StreamJob:
        """Files that topics of Kafka announce."""
        from neve.ingest.watch.streams import KafkaEvents  # noqa: PLC0415

        config, organization = self.settings.kafka, self.settings.organization
        if not self.settings.watch.places:
            raise _no_places("any organization", "events in Kafka")
        return self._job(
            "watch-kafka",
            lambda lake: KafkaEvents(self._intake("watch-kafka", lake), config, organization),
            tell,
            kafka=True,
        )

    def _job(self, name: str, make: Callable[[Lake], Stream], tell: Tell, *, kafka: bool = False) -> StreamJob:
        from neve.ingest.stream.job import StreamJob  # noqa: PLC0415

        lake = replace(self.lake, further_jars=KAFKA) if kafka else self.lake
        return StreamJob(lake, self.settings.ingest, name, TracedStream(name, make(lake)), tell)

    def _writer(self, name: str, lake: Lake) -> StreamWriter:
        return StreamWriter(name, Publisher(lake, self.settings.ingest, "ingest-stream"))

    def _feed(self, zone: str) -> RawFeed:
        raw = self.settings.raw
        return RawFeed(
            RawZone.of(raw.location, self.settings.s3, zone), self.settings.ingest.batch_bytes, raw.keep_seconds
        )

    def _intake(self, name: str, lake: Lake) -> EventIntake:
        settings = self.settings
        return EventIntake(
            lake, settings.ingest, settings.watch, build_places(settings, lake), build_documents(settings), name
        )


@dataclass(frozen=True)
class TracedStream:
    """A stream of which each batch is a span of Neve's own telemetry."""

    name: str
    stream: Stream

    def load(self, spark: SparkSession) -> DataFrame:
        """What comes in."""
        return self.stream.load(spark)

    def take(self, frame: DataFrame) -> BatchResult | None:
        """Take a batch in."""
        with span("ingest", stream=self.name) as spent:
            result = self.stream.take(frame)
            if result is not None:
                spent.set(batch=result.batch_id, messages=result.messages, records=sum(result.records.values()))
            return result

    def retry(self) -> BatchResult | None:
        """Try again what was put off."""
        return self.stream.retry()

    def caught_up(self) -> bool:
        """Whether a run that stops at the end is done."""
        return self.stream.caught_up()


def keep_running(
    job: StreamJob, stop: threading.Event, told: Callable[[BaseException | None], None] = lambda _error: None
) -> StreamResult | None:
    """Run a stream until it is stopped; after an error it is started again, where it was, a little later each time.

    Each error is told, and none when the stream is well again, whether or not anything comes.
    """
    is_ill = False

    def failed(state: RetryCallState) -> None:
        nonlocal is_ill
        is_ill = True
        error = state.outcome.exception() if state.outcome else None
        FAILURES.labels(job.name).inc()
        pause = state.next_action.sleep if state.next_action else 0.0
        log.error("stream failed", stream=job.name, error=str(error), pause_seconds=round(pause, 1))
        told(error)

    def well() -> None:
        nonlocal is_ill
        if is_ill:
            is_ill = False
            log.info("stream is well again", stream=job.name)
            told(None)

    attempts = Retrying(
        stop=stop_when_event_set(stop),
        sleep=sleep_using_event(stop),
        wait=wait_random_exponential(multiplier=FIRST_PAUSE_SECONDS, max=LONGEST_PAUSE_SECONDS),
        retry=retry_if_not_exception_type(HOPELESS),
        before_sleep=failed,
        retry_error_callback=lambda _state: None,
        reraise=True,
    )
    stop_with(job, stop)
    result: StreamResult | None = attempts(job.run, well=well)
    return result


def keep_all_running(jobs: Sequence[StreamJob], stop: threading.Event) -> None:
    """Run several streams on one Spark session; when one of them can't go on at all, the others stop too."""
    _ = jobs[0].lake.spark  # before there are threads that would each start one
    with ThreadPoolExecutor(len(jobs), thread_name_prefix="stream") as pool:
        running = [pool.submit(keep_running, job, stop) for job in jobs]
        wait(running, return_when=FIRST_EXCEPTION)
        stop.set()
    for future in running:
        future.result()


def log_batch(result: BatchResult) -> None:
    """Say in the log what a batch did."""
    log.info("batch committed", **result.to_json())


def stop_with(job: StreamJob, stop: threading.Event) -> None:
    """Stop a stream, after the batch that is under way, when the event is set."""

    def wait_for_it() -> None:
        stop.wait()
        job.stop()

    threading.Thread(target=wait_for_it, daemon=True).start()


@contextmanager
def sqs_bridge(settings: Settings, stop: threading.Event) -> Iterator[None]:
    """Carries messages of the SQS queue into the raw zone while the block runs, where a queue is configured."""
    if not settings.watch.sqs.queue_url:
        yield
        return
    if not settings.watch.places.get(settings.organization):
        raise _no_places(settings.organization, "events of watch.sqs.queue_url")
    connect(settings.watch.sqs)  # what is missing is said at once
    thread = threading.Thread(target=lambda: asyncio.run(_carry(settings, stop)), name="sqs", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(settings.watch.sqs.wait_seconds + 5)


def _no_places(organization: str, source: str) -> ConfigError:
    return ConfigError(
        f"watch.places has no places of {organization}, expected those in which {source} may announce files",
        hint="for example watch.places: {acme: [s3://raw/acme]}; without it every event would go to quarantine",
    )


async def _carry(settings: Settings, stop: threading.Event) -> None:
    writer = open_writer(settings.raw, settings.s3, EVENTS)
    loop = asyncio.get_running_loop()

    def keep(body: bytes) -> None:
        frame = Frame(Kind.EVENT, settings.organization, time.time_ns(), body, Encoding.JSON)
        asyncio.run_coroutine_threadsafe(writer.append(frame), loop).result()

    try:
        await asyncio.to_thread(SqsPoller(settings.watch.sqs, keep).run, stop)
    finally:
        await writer.close()
