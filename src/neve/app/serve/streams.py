"""Ingestion streams wired from the settings, and the loop that restarts them after a failure."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from tenacity import Retrying, retry_if_not_exception_type, stop_when_event_set, wait_random_exponential
from tenacity.nap import sleep_using_event

from neve.app.telemetry.tracing import span
from neve.app.wiring import build_documents, build_places
from neve.errors import ConfigError, EnvironmentFault, TableMissing
from neve.ingest.batch_writer import Publisher
from neve.ingest.metrics import FAILURES
from neve.ingest.stream.attempts import BatchAttempts
from neve.ingest.stream.raw_zone import RawFeed
from neve.ingest.stream.writer import StreamWriter
from neve.ingest.watch.event_ingest import EventIngester
from neve.ingest.watch.sqs import SqsPoller, connect_sqs
from neve.lake.spark.jars import KAFKA
from neve.logger import get_logger
from neve.raw.frame import Encoding, Frame, Kind
from neve.raw.writer import open_writer
from neve.raw.zone import EVENTS, OTLP, RawZone

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tenacity import RetryCallState

    from neve.app.settings import Settings
    from neve.ingest.results import BatchResult, StreamResult
    from neve.ingest.stream.job import BatchCallback, StreamJob
    from neve.ingest.stream.query_job import QueryStream
    from neve.ingest.stream.segment_job import SegmentStream
    from neve.lake.lake import Lake

FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 1, 60
# Errors that a retry can't fix.
PERMANENT_ERRORS = (ConfigError, EnvironmentFault, TableMissing)

log = get_logger("neve.ingest")


@dataclass(frozen=True)
class Streams:
    """Factory of the streams of a lake."""

    settings: Settings
    lake: Lake

    def raw(self, tell: BatchCallback) -> StreamJob:
        """Return the stream of the raw zone that the receivers write."""
        from neve.ingest.stream.raw_zone import RawStream  # noqa: PLC0415 - a stream brings pyspark along

        return self._segments("raw", RawStream(self._writer("raw", self.lake), self._feed(OTLP)), tell)

    def kafka(self, tell: BatchCallback, name: str = "kafka") -> StreamJob:
        """Return the stream of OTLP topics; streams of other topics or brokers have other names."""
        from neve.ingest.stream.kafka import KafkaStream  # noqa: PLC0415

        config, organization = self.settings.kafka, self.settings.organization
        attempts = BatchAttempts(build_documents(self.settings), name, self.lake.lake.location)
        return self._query(
            name, lambda lake: KafkaStream(self._writer(name, lake), config, organization, attempts), tell
        )

    def events(self, tell: BatchCallback) -> StreamJob:
        """Return the stream of files that events over HTTP or from SQS announce."""
        from neve.ingest.watch.event_streams import RawEvents  # noqa: PLC0415

        return self._segments("watch", RawEvents(self._intake("watch", self.lake), self._feed(EVENTS)), tell)

    def kafka_events(self, tell: BatchCallback) -> StreamJob:
        """Return the stream of files that Kafka topics announce."""
        from neve.ingest.watch.event_streams import KafkaEvents  # noqa: PLC0415

        config, organization = self.settings.kafka, self.settings.organization
        if not self.settings.watch.places:
            raise _no_places("any organization", "events in Kafka")
        return self._query(
            "watch-kafka", lambda lake: KafkaEvents(self._intake("watch-kafka", lake), config, organization), tell
        )

    def _segments(self, name: str, stream: SegmentStream, tell: BatchCallback) -> StreamJob:
        from neve.ingest.stream.segment_job import SegmentJob  # noqa: PLC0415

        return SegmentJob(self.lake, self.settings.ingest, name, stream, tell, partial(trace_batch, name))

    def _query(self, name: str, make: Callable[[Lake], QueryStream], tell: BatchCallback) -> StreamJob:
        from neve.ingest.stream.query_job import QueryJob  # noqa: PLC0415

        lake = replace(self.lake, further_jars=KAFKA)
        return QueryJob(lake, self.settings.ingest, name, make(lake), tell, partial(trace_batch, name))

    def _writer(self, name: str, lake: Lake) -> StreamWriter:
        return StreamWriter(name, Publisher(lake, self.settings.ingest, "ingest-stream"))

    def _feed(self, zone: str) -> RawFeed:
        raw = self.settings.raw
        return RawFeed(
            RawZone.of(raw.location, self.settings.s3, zone), self.settings.ingest.batch_bytes, raw.keep_seconds
        )

    def _intake(self, name: str, lake: Lake) -> EventIngester:
        settings = self.settings
        return EventIngester(
            lake, settings.ingest, settings.watch, build_places(settings, lake), build_documents(settings), name
        )


def trace_batch(name: str, ingest: Callable[[], BatchResult | None]) -> BatchResult | None:
    """Ingest a batch as a span of Neve's own telemetry."""
    with span("ingest", stream=name) as spent:
        result = ingest()
        if result is not None:
            spent.set(batch=result.batch_id, messages=result.messages, records=sum(result.records.values()))
        return result


def keep_running(
    job: StreamJob, stop: threading.Event, report: Callable[[BaseException | None], None] = lambda _error: None
) -> StreamResult | None:
    """Run a stream until it is stopped; after an error, restart it at its position with backoff.

    Each error is reported, and none once the stream is healthy again, whether or not new data arrives.
    """
    is_failing = False

    def log_failure(state: RetryCallState) -> None:
        nonlocal is_failing
        is_failing = True
        error = state.outcome.exception() if state.outcome else None
        FAILURES.labels(job.name).inc()
        pause = state.next_action.sleep if state.next_action else 0.0
        log.error("stream failed", stream=job.name, error=str(error), pause_seconds=round(pause, 1))
        report(error)

    def log_recovery() -> None:
        nonlocal is_failing
        if is_failing:
            is_failing = False
            log.info("stream recovered", stream=job.name)
            report(None)

    attempts = Retrying(
        stop=stop_when_event_set(stop),
        sleep=sleep_using_event(stop),
        wait=wait_random_exponential(multiplier=FIRST_PAUSE_SECONDS, max=LONGEST_PAUSE_SECONDS),
        retry=retry_if_not_exception_type(PERMANENT_ERRORS),
        before_sleep=log_failure,
        retry_error_callback=lambda _state: None,
        reraise=True,
    )
    stop_with(job, stop)
    result: StreamResult | None = attempts(job.run, well=log_recovery)
    return result


def keep_all_running(jobs: Sequence[StreamJob], stop: threading.Event) -> None:
    """Run several streams on one Spark session; when one of them fails for good, the others stop too."""
    with ThreadPoolExecutor(len(jobs), thread_name_prefix="stream") as pool:
        running = [pool.submit(keep_running, job, stop) for job in jobs]
        wait(running, return_when=FIRST_EXCEPTION)
        stop.set()
    for future in running:
        future.result()


def log_batch(result: BatchResult) -> None:
    """Log the result of a batch."""
    log.info("batch committed", **result.to_json())


def stop_with(job: StreamJob, stop: threading.Event) -> None:
    """Stop a stream after the current batch when the event is set."""

    def wait_for_it() -> None:
        stop.wait()
        job.stop()

    threading.Thread(target=wait_for_it, daemon=True).start()


@contextmanager
def sqs_bridge(settings: Settings, stop: threading.Event) -> Iterator[None]:
    """Copy messages of the SQS queue into the raw zone while the block runs, if a queue is configured."""
    if not settings.watch.sqs.queue_url:
        yield
        return
    if not settings.watch.places.get(settings.organization):
        raise _no_places(settings.organization, "events of watch.sqs.queue_url")
    connect_sqs(settings.watch.sqs)  # reports a missing package or setting at once
    thread = threading.Thread(target=lambda: asyncio.run(_poll_queue(settings, stop)), name="sqs", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(settings.watch.sqs.wait_seconds + 5)


def _no_places(organization: str, source: str) -> ConfigError:
    return ConfigError(
        f"watch.places has no places of {organization}, expected the places in which {source} may announce files",
        hint="for example watch.places: {acme: [s3://raw/acme]}; without it every event would go to quarantine",
    )


async def _poll_queue(settings: Settings, stop: threading.Event) -> None:
    writer = open_writer(settings.raw, settings.s3, EVENTS)
    loop = asyncio.get_running_loop()

    def keep(body: bytes) -> None:
        frame = Frame(Kind.EVENT, settings.organization, time.time_ns(), body, Encoding.JSON)
        asyncio.run_coroutine_threadsafe(writer.append(frame), loop).result()

    try:
        await asyncio.to_thread(SqsPoller(settings.watch.sqs, keep).run, stop)
    finally:
        await writer.close()
