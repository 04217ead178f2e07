"""`neve ingest`: files, and the streams raw, kafka and watch."""

from __future__ import annotations

import signal
import threading
import time
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

import click

from neve.cli.ingest_output import find_exit_code, show_ingest, show_preview
from neve.cli.output import json_option, org_option, print_json, print_json_line, print_text, progress_bar
from neve.text import format_bytes, format_count, format_duration

if TYPE_CHECKING:
    from collections.abc import Callable

    from neve.app.serve.streams import Streams
    from neve.app.settings import Settings
    from neve.cli.context import Context
    from neve.ingest.files.job import FileRequest
    from neve.ingest.results import BatchResult, StreamResult
    from neve.ingest.stream.job import BatchCallback, StreamJob


available_now = click.option("--available-now", is_flag=True, help="Ingest what is available, then exit.")
metrics_port = click.option(
    "--metrics-port", type=click.IntRange(0, 65_535), help="Serve Prometheus metrics on this port of 127.0.0.1."
)
commit_every = click.option(
    "--every",
    type=click.FloatRange(0.1, 3600),
    metavar="SECONDS",
    help="Seconds between commits.  [default: ingest.commit_seconds]",
)


@click.command()
@available_now
@commit_every
@metrics_port
@json_option
@click.pass_obj
def raw(context: Context, available_now: bool, every: float | None, metrics_port: int | None, as_json: bool) -> None:
    """Ingest received messages from the raw zone continuously.

    Rows and the position in the raw zone are committed together. After a crash the stream continues from the position
    in the tables, without loss and without duplicates.

    \b
    Examples:
      neve ingest raw
      neve ingest raw --available-now --json
    """
    settings = _with_commit_interval(context.settings, every)
    _run_stream(context, settings, lambda streams, tell: streams.raw(tell), available_now, metrics_port, as_json)


@click.command(short_help="Ingest Kafka topics with OTLP messages.")
@click.option("--bootstrap", metavar="HOST:PORT", help="Kafka brokers.  [default: kafka.bootstrap_servers]")
@click.option("--topic", "topics", multiple=True, metavar="NAME=SIGNAL", help="Topic and its signal; may be repeated.")
@click.option(
    "--name", default="kafka", show_default=True, help="Stream name; use one for each set of topics and brokers."
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
    """Ingest Kafka topics with OTLP messages, protobuf or JSON, as written by the collector's Kafka exporter.

    Rows and offsets are committed together. A message that can't be decoded is stored in the table quarantine with its
    offset, and the stream continues.

    \b
    Examples:
      neve ingest kafka --bootstrap broker:9092
      neve ingest kafka --topic shop.spans=traces --topic shop.logs=logs --available-now
    """
    from neve.ingest.config import parse_topic

    settings = _with_commit_interval(context.settings, every)
    given = {
        "bootstrap_servers": bootstrap,
        "topics": tuple(map(parse_topic, topics)) or None,
    }
    changed = {key: value for key, value in given.items() if value is not None}
    settings = settings.model_copy(update={"kafka": settings.kafka.model_copy(update=changed)})
    _run_stream(
        context, settings, lambda streams, tell: streams.kafka(tell, name), available_now, metrics_port, as_json
    )


@click.command(short_help="Ingest files announced by events of S3, SQS or Kafka.")
@click.option("--kafka", "from_kafka", is_flag=True, help="Read events from the topics in kafka.events.")
@click.option(
    "--sqs", "queue", metavar="URL", help="Also read events from an SQS queue.  [default: watch.sqs.queue_url]"
)
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
    """Ingest files announced by events: from the receiver's /events/s3, from SQS, or from Kafka.

    Supported events: S3, MinIO, SNS, EventBridge, and {"path": "s3://…"}. Only files in the places of their
    organization (watch.places) are ingested. Events may be delivered twice: files are identified by their content.
    Unreadable files are retried. A file that is missing, or fails watch.attempts times, is recorded in the table
    quarantine.

    \b
    Examples:
      neve ingest watch
      neve ingest watch --sqs https://sqs.eu-west-1.amazonaws.com/1234/raw-files
      neve ingest watch --kafka
    """
    settings = _with_commit_interval(context.settings, every)
    if queue and (from_kafka or available_now):
        raise click.UsageError(
            "--sqs runs until it is stopped and writes to the raw zone, expected neither --kafka nor --available-now"
        )
    if queue:
        sqs = settings.watch.sqs.model_copy(update={"queue_url": queue})
        settings = settings.model_copy(update={"watch": settings.watch.model_copy(update={"sqs": sqs})})

    def make(streams: Streams, tell: BatchCallback) -> StreamJob:
        return streams.kafka_events(tell) if from_kafka else streams.events(tell)

    _run_stream(context, settings, make, available_now, metrics_port, as_json)


def _with_commit_interval(settings: Settings, every: float | None) -> Settings:
    if every is None:
        return settings
    ingest = type(settings.ingest).model_validate({**settings.ingest.model_dump(), "commit_seconds": every})
    return settings.model_copy(update={"ingest": ingest})


def _run_stream(
    context: Context,
    settings: Settings,
    make: Callable[[Streams, BatchCallback], StreamJob],
    once: bool,
    port: int | None,
    as_json: bool,
) -> None:
    from neve.api.log_config import configure_logs
    from neve.app.serve.streams import Streams, keep_running, sqs_bridge, stop_with

    configure_logs()
    stop = threading.Event()
    job = make(Streams(settings, context.lake), lambda batch: _show_batch(batch, as_json))
    _ = job.lake.spark  # Spark installs its own signal handlers when it starts
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    with ExitStack() as beside:
        if port is not None:
            serve_metrics(port)
        if once:
            stop_with(job, stop)
            _show_stream(job.run(until_caught_up=True), as_json)
            return
        beside.enter_context(sqs_bridge(settings, stop))
        result = keep_running(job, stop)
        if result is not None:
            _show_stream(result, as_json)


def serve_metrics(port: int) -> None:
    """Serve Prometheus metrics on a port of this machine for the life of the process."""
    from prometheus_client import start_http_server

    from neve.errors import ConfigError

    try:
        start_http_server(port, addr="127.0.0.1")
    except OSError as error:
        raise ConfigError(
            f"can't serve metrics on port {port}: {error.strerror}", hint="choose another port"
        ) from error


def _show_batch(batch: BatchResult, as_json: bool) -> None:
    if as_json:
        print_json_line(batch.to_json())
        return
    records = ", ".join(f"{count:,} {signal}" for signal, count in sorted(batch.records.items())) or "no new records"
    further = [
        f"{sum(batch.rejected.values()):,} rejected ({', '.join(sorted(batch.rejected))})" if batch.rejected else "",
        f"{sum(batch.duplicates.values()):,} known already" if batch.duplicates else "",
        f"{batch.replayed:,} seen before" if batch.replayed else "",
        f"{format_bytes(batch.bytes_in)} in",
        f"{format_bytes(batch.bytes_out)} out in {format_count(batch.data_files, 'file')}",
        f"{format_duration(batch.seconds)}",
        f"lag {format_duration(batch.lag_seconds)}" if batch.lag_seconds is not None else "",
    ]
    print_text(f"{records}; " + "; ".join(part for part in further if part))


def _show_stream(result: StreamResult, as_json: bool) -> None:
    if as_json:
        print_json_line(result.to_json())
        return
    total = sum(result.records.values())
    print_text(
        f"{format_count(total, 'record')} of {result.messages:,} messages in {format_count(result.batches, 'batch')}, "
        f"{format_duration(result.seconds)}"
    )


SIGNALS = ("logs", "metrics", "traces")
FORMATS = (
    *("otlp_proto", "otlp_json", "json_lines", "csv", "parquet", "log"),
    *("syslog_3164", "syslog_5424", "access_common", "access_combined", "apache_error", "logback", "cri"),
    *("journald", "windows_events"),
)


@click.group(short_help="Ingest files, Kafka topics, the raw zone, announced files.")
def ingest() -> None:
    """Ingest telemetry from files, Kafka, the raw zone or announced files."""


@ingest.command(short_help="Ingest files: OTLP, JSON lines, CSV, Parquet, .log.")
@click.argument("paths", nargs=-1, required=True, metavar="PATH…")
@click.option(
    "--signal", type=click.Choice(SIGNALS), help="Signal in the files.  [default: detected by name and content]"
)
@click.option(
    "--format", "form", type=click.Choice(FORMATS), help="File format.  [default: detected by name and content]"
)
@click.option(
    "--dry-run", is_flag=True, help="Show how the files would be read, with their first rows; ingest nothing."
)
@org_option
@json_option
@click.pass_obj
def files(
    context: Context,
    paths: tuple[str, ...],
    signal: str | None,
    form: str | None,
    dry_run: bool,
    org: str | None,
    as_json: bool,
) -> None:
    """Ingest files: OTLP protobuf (.binpb, .pb) and JSON (.json), JSON lines, CSV, Parquet, .log; plain, .gz or .zst.

    PATH is a file, a folder, a glob or an s3:// address. Files are identified by their content: running the same
    command again adds nothing. Rejected records are stored in the table quarantine with the reason. Exports of
    ClickHouse, Loki, Elastic, OpenObserve, Fluent Bit and Vector are recognized by their fields, and log formats by
    their first lines. The exit code is 1 if a file can't be ingested, and 3 if files have no known format.

    \b
    Examples:
      neve ingest files telemetry/
      neve ingest files 's3://raw/otel/2026-11-15/'
      neve ingest files access.csv.gz --signal logs --org acme
      neve ingest files /var/log/syslog --format syslog_3164
      neve ingest files export/ --dry-run
    """
    from neve.ingest.files.formats import Format
    from neve.ingest.files.job import FileRequest
    from neve.ingest.files.reader import ReadOptions
    from neve.model.signals import Signal

    wanted = ReadOptions(Signal(signal) if signal else None, Format(form) if form else None)
    request = FileRequest(paths, context.organization(org), wanted)
    code = _preview(context, request, as_json) if dry_run else _ingest(context, request, as_json)
    if code:
        raise click.exceptions.Exit(code)


def _ingest(context: Context, request: FileRequest, as_json: bool) -> int:
    from neve.app.wiring import build_documents, build_own_folders
    from neve.ingest.files.job import ingest_files

    settings, documents = context.settings, build_documents(context.settings)
    own = build_own_folders(settings, context.lake)
    with closing(documents), progress_bar(not as_json) as tell:
        result = ingest_files(context.lake, settings.ingest, request, tell, own=own, documents=documents)
    print_json(result.to_json()) if as_json else show_ingest(result)
    return find_exit_code(failed=bool(result.failed or result.lost), ignored=bool(result.ignored))


def _preview(context: Context, request: FileRequest, as_json: bool) -> int:
    from neve.app.wiring import build_own_folders
    from neve.ingest.preview import preview_files

    settings = context.settings
    own = build_own_folders(settings, context.lake)
    preview = preview_files(request, context.lake.s3, settings.ingest, time.time_ns(), own)
    print_json(preview.to_json()) if as_json else show_preview(preview)
    return find_exit_code(failed=any(file.error for file in preview.files), ignored=bool(preview.ignored))


for command in (raw, kafka, watch):
    ingest.add_command(command)
