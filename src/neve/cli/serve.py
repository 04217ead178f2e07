"""`neve serve`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from neve.cli.output import json_option, say
from neve.errors import TableMissing

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from neve.api.server import Addresses
    from neve.app.settings import Settings
    from neve.cli.context import Context

PORT = click.IntRange(0, 65_535)


@click.command()
@click.option("--receiver", is_flag=True, help="Only receive; `neve ingest raw` takes it in elsewhere.")
@click.option("--host", metavar="ADDRESS", help="Address to listen on.  [default: receiver.host]")
@click.option("--http-port", type=PORT, help="Port of OTLP/HTTP; 0 takes a free one.  [default: receiver.http_port]")
@click.option("--grpc-port", type=PORT, help="Port of OTLP/gRPC; 0 takes a free one.  [default: receiver.grpc_port]")
@json_option
@click.pass_obj
def serve(
    context: Context, receiver: bool, host: str | None, http_port: int | None, grpc_port: int | None, as_json: bool
) -> None:
    """Receive telemetry and take it in until stopped. A line on standard output says when it is ready, and where.

    The receiver answers a request when its bytes are durable in the raw zone. SIGTERM or Ctrl+C lets it finish the
    requests that it has begun. Paths on the HTTP port: /v1/traces, /v1/logs and /v1/metrics for OTLP, /events/s3 for
    notifications of object storage, and /healthz, /readyz and /metrics for those who watch.

    Without keys (receiver.auth: open) it listens on loopback only. `neve keys create` makes a key.

    \b
    Examples:
      neve serve
      NEVE_RECEIVER__AUTH=keys neve serve --receiver --host 0.0.0.0

    \b
    An OpenTelemetry Collector sends to it with:
      exporters:
        otlp_grpc:
          endpoint: 127.0.0.1:4317
          tls: {insecure: true}
        otlp_http:
          endpoint: http://127.0.0.1:4318
          compression: zstd
    """
    import asyncio

    from neve.api.logs import configure_logs
    from neve.api.server import serve_receiver

    configure_logs()
    settings = _with_options(context.settings, {"host": host, "http_port": http_port, "grpc_port": grpc_port})
    beside = None if receiver else _take_in(context, settings)
    asyncio.run(serve_receiver(settings, lambda addresses: _ready(settings, addresses, as_json), beside))


def _take_in(context: Context, settings: Settings) -> Callable[[threading.Event], None]:
    """The streams that take in what the receiver got, and the files that it was told of."""
    from neve.app.streams import Streams, keep_all_running, log_batch, sqs_bridge

    if not context.lake.table_names():
        raise TableMissing("the lake has no tables", hint="run `neve init`")
    streams = Streams(settings, context.lake)

    def run(stop: threading.Event) -> None:
        with sqs_bridge(settings, stop):
            keep_all_running([streams.raw(log_batch), streams.events(log_batch)], stop)

    return run


def _with_options(settings: Settings, options: dict[str, str | int | None]) -> Settings:
    """The settings with what the command line says in their place."""
    given = {key: value for key, value in options.items() if value is not None}
    return settings.model_copy(update={"receiver": settings.receiver.model_copy(update=given)})


def _ready(settings: Settings, addresses: Addresses, as_json: bool) -> None:
    if as_json:
        # One line, so that whoever waits for it knows when it is whole.
        say(json.dumps({"http": addresses.http, "grpc": addresses.grpc, "auth": settings.receiver.auth}))
        return
    places = [
        f"{name} {place}"
        for name, place in (("OTLP/HTTP on", addresses.http), ("OTLP/gRPC on", addresses.grpc))
        if place
    ]
    who = f"for organization {settings.organization}" if settings.receiver.auth == "open" else "with API keys"
    say(f"receiving {' and '.join(places) or 'nothing'} {who}")
