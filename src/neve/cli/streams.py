"""`neve ingest raw`, `kafka` and `watch`."""

from __future__ import annotations

import signal
import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING

import click

from neve.cli.output import json_option, say, say_json, size

if TYPE_CHECKING:
    from collections.abc import Callable

    from neve.app.settings import Settings
    from neve.app.streams import Streams
    from neve.cli.context import Context
    from neve.ingest.stream.job import StreamJob, Tell
    from neve.ingest.stream.result import BatchResult, StreamResult

available_now = click.option("--available-now", is_flag=True, help="Take in what is there, then end.")
metrics_port = click.option(
    "--metrics-port", type=click.IntRange(0, 65_535), help="Serve Prometheus metrics on this port of 127.0.0.1."
)
commit_every = click.option(
    "--every",
    type=click.FloatRange(0.1, 3600),
    metavar="SECONDS",
    help="How often to commit.  [default: ingest.commit_seconds]",
)


@click.command()
@available_now
@commit_every
@metrics_port
@json_option
@click.pass_obj
def raw(context: Context, available_now: bool, every: float | None, metrics_port: int | None, as_json: bool) -> None:
    """Take in what the receivers got, as it comes.

    Rows and the position in the raw zone land in the same commit: killed at any moment and started again, it goes on
    where the tables are, and nothing is there twice.

    \b
    Examples:
      neve ingest raw
      neve ingest raw --available-now --json
    """
    settings = _every(context.settings, every)
    _run(context, settings, lambda streams, tell: streams.raw(tell), available_now, metrics_port, as_json)


@click.command()
@click.option("--bootstrap", metavar="HOST:PORT", help="Brokers.  [default: kafka.bootstrap_servers]")
@click.option(
    "--topic", "topics", multiple=True, metavar="NAME=SIGNAL", help="A topic and what it holds; as often as needed."
)
@click.option(
    "--name", default="kafka", show_default=True, help="Name of the stream: one for each set of topics and brokers."
)
@available_now
@commit_every
@metrics_port
@json_option
@click.pass_obj
def kafka(
    context: Context,
    bootstrap: str | None,
    topics: tuple[str, ...],
    name: str,
    available_now: bool,
    every: float | None,
    metrics_port: int | None,
    as_json: bool,
) -> None:
    """Take in topics of OTLP messages, protobuf or JSON, as the collector's Kafka exporter writes them.

    Rows and offsets land in the same commit. A message that can't be read goes to the table quarantine with its offset,
    and the stream goes on.

    \b
    Examples:
      neve ingest kafka --bootstrap broker:9092
      neve ingest kafka --topic shop.spans=traces --topic shop.logs=logs --available-now
    """
    from neve.ingest.stream.topics import parse_topic

    settings = _every(context.settings, every)
    given = {
        "bootstrap_servers": bootstrap,
        "topics": tuple(map(parse_topic, topics)) or None,
    }
    changed = {key: value for key, value in given.items() if value is not None}
    settings = settings.model_copy(update={"kafka": settings.kafka.model_copy(update=changed)})
    _run(context, settings, lambda streams, tell: streams.kafka(tell, name), available_now, metrics_port, as_json)


@click.command()
@click.option("--kafka", "from_kafka", is_flag=True, help="Events from the topics kafka.events.")
@click.option("--sqs", "queue", metavar="URL", help="Events from an SQS queue too.  [default: watch.sqs.queue_url]")
@available_now
@commit_every
@metrics_port
@json_option
@click.pass_obj
def watch(
    context: Context,
    from_kafka: bool,
    queue: str | None,
    available_now: bool,
    every: float | None,
    metrics_port: int | None,
    as_json: bool,
) -> None:
    """Take in files that events announce: from the receiver's /events/s3, from SQS, or from Kafka.

    Events are those of S3, MinIO, SNS or EventBridge, or {"path": "s3://…"}. Only files in the
    places of their organization (watch.places) are ingested. An event may come twice: a file is remembered by its
    content. A file that can't be read now is tried again later; one that is gone, or can't be read in watch.attempts
    attempts, is on record in the table quarantine.

    \b
    Examples:
      neve ingest watch
      neve ingest watch --sqs https://sqs.eu-west-1.amazonaws.com/1234/raw-files
      neve ingest watch --kafka
    """
    settings = _every(context.settings, every)
    if queue and (from_kafka or available_now):
        raise click.UsageError("--sqs is polled for good and leads to the raw zone: leave out --kafka, --available-now")
    if queue:
        sqs = settings.watch.sqs.model_copy(update={"queue_url": queue})
        settings = settings.model_copy(update={"watch": settings.watch.model_copy(update={"sqs": sqs})})

    def make(streams: Streams, tell: Tell) -> StreamJob:
        return streams.kafka_events(tell) if from_kafka else streams.events(tell)

    _run(context, settings, make, available_now, metrics_port, as_json)


def _every(settings: Settings, every: float | None) -> Settings:
    if every is None:
        return settings
    ingest = type(settings.ingest).model_validate({**settings.ingest.model_dump(), "commit_seconds": every})
    return settings.model_copy(update={"ingest": ingest})


def _run(
    context: Context,
    settings: Settings,
    make: Callable[[Streams, Tell], StreamJob],
    once: bool,
    port: int | None,
    as_json: bool,
) -> None:
    from neve.api.logs import configure_logs
    from neve.app.streams import Streams, keep_running, sqs_bridge, stop_with

    configure_logs()
    stop = threading.Event()
    job = make(Streams(settings, context.lake), lambda batch: _tell(batch, as_json))
    _ = job.lake.spark  # which takes the signals for itself when it starts
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    with ExitStack() as beside:
        if port is not None:
            serve_metrics(port)
        if once:
            stop_with(job, stop)
            _end(job.run(until_caught_up=True), as_json)
            return
        beside.enter_context(sqs_bridge(settings, stop))
        result = keep_running(job, stop)
        if result is not None:
            _end(result, as_json)


def serve_metrics(port: int) -> None:
    """Answer Prometheus on a port of this machine, for as long as the process lives."""
    from prometheus_client import start_http_server

    from neve.errors import ConfigError

    try:
        start_http_server(port, addr="127.0.0.1")
    except OSError as error:
        raise ConfigError(
            f"can't serve metrics on port {port}: {error.strerror}", hint="choose another port"
        ) from error


def _tell(batch: BatchResult, as_json: bool) -> None:
    if as_json:
        say_json(batch.to_json())
        return
    records = ", ".join(f"{count:,} {signal}" for signal, count in sorted(batch.records.items())) or "no new records"
    further = [
        f"{sum(batch.rejected.values()):,} rejected ({', '.join(sorted(batch.rejected))})" if batch.rejected else "",
        f"{sum(batch.duplicates.values()):,} known already" if batch.duplicates else "",
        f"{batch.replayed:,} seen before" if batch.replayed else "",
        f"{size(batch.bytes_in)} in, {size(batch.bytes_out)} out in {batch.data_files} files",
        f"{batch.seconds:.1f} s",
        f"lag {batch.lag_seconds:.1f} s" if batch.lag_seconds is not None else "",
    ]
    say(f"{records}; " + "; ".join(part for part in further if part))


def _end(result: StreamResult, as_json: bool) -> None:
    if as_json:
        say_json(result.to_json())
        return
    total = sum(result.records.values())
    say(f"{total:,} records of {result.messages:,} messages in {result.batches} batches, {result.seconds:.1f} s")
