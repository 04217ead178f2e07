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
@click.option("--query", is_flag=True, help="Only answer queries.")
@click.option("--host", metavar="ADDRESS", help="Address to listen on.  [default: receiver.host]")
@click.option("--http-port", type=PORT, help="Port of OTLP/HTTP; 0 takes a free one.  [default: receiver.http_port]")
@click.option("--grpc-port", type=PORT, help="Port of OTLP/gRPC; 0 takes a free one.  [default: receiver.grpc_port]")
@click.option("--query-port", type=PORT, help="Port of the query API; 0 takes a free one.  [default: query.port]")
@json_option
@click.pass_obj
def serve(
    context: Context,
    receiver: bool,
    query: bool,
    host: str | None,
    http_port: int | None,
    grpc_port: int | None,
    query_port: int | None,
    as_json: bool,
) -> None:
    """Receive telemetry, take it in and answer queries until stopped. A line on standard output says where.

    The receiver answers a request when its bytes are durable in the raw zone. SIGTERM or Ctrl+C lets it finish the
    requests that it has begun. Paths on the HTTP port: /v1/traces, /v1/logs and /v1/metrics for OTLP, /events/s3 for
    notifications of object storage, and /healthz, /readyz and /metrics for those who watch.

    The query API is described at /api/v1/openapi.json of its own port; POST /api/v1/query takes {"sql": "…"}.

    Without keys (receiver.auth and query.auth: open) it listens on loopback only. `neve keys create` makes a key.

    \b
    Examples:
      neve serve
      NEVE_RECEIVER__AUTH=keys neve serve --receiver --host 0.0.0.0
      neve serve --query
      curl -s --json '{"sql": "SELECT count(*) FROM spans"}' http://127.0.0.1:8480/api/v1/query

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
    from neve.api.server import Doors
    from neve.api.server import serve as serve_doors

    if receiver and query:
        raise click.UsageError("--receiver and --query exclude each other; without them, both are served")
    configure_logs()
    settings = _with_options(context.settings, {"host": host, "http_port": http_port, "grpc_port": grpc_port})
    settings = _with_query(settings, {"host": host, "port": query_port})
    if not receiver and not context.lake.table_names():
        raise TableMissing("the lake has no tables", hint="run `neve init`")
    doors = Doors(receiver=not query, lake=None if receiver else context.lake)
    beside = None if receiver or query else _take_in(context, settings)
    asyncio.run(serve_doors(settings, doors, lambda addresses: _ready(settings, addresses, as_json), beside))


def _take_in(context: Context, settings: Settings) -> Callable[[threading.Event], None]:
    """The streams that take in what the receiver got, and the files that it was told of."""
    from neve.app.streams import Streams, keep_all_running, log_batch, sqs_bridge

    streams = Streams(settings, context.lake)

    def run(stop: threading.Event) -> None:
        with sqs_bridge(settings, stop):
            keep_all_running([streams.raw(log_batch), streams.events(log_batch)], stop)

    return run


def _with_options(settings: Settings, options: dict[str, str | int | None]) -> Settings:
    """The settings with what the command line says in their place."""
    given = {key: value for key, value in options.items() if value is not None}
    return settings.model_copy(update={"receiver": settings.receiver.model_copy(update=given)})


def _with_query(settings: Settings, options: dict[str, str | int | None]) -> Settings:
    given = {key: value for key, value in options.items() if value is not None}
    return settings.model_copy(update={"query": settings.query.model_copy(update=given)})


def _ready(settings: Settings, addresses: Addresses, as_json: bool) -> None:
    if as_json:
        # One line, so that whoever waits for it knows when it is whole.
        auth = settings.receiver.auth if addresses.http or addresses.grpc else settings.query.auth
        say(json.dumps({**vars(addresses), "auth": auth}))
        return
    places = [
        f"{name} {place}"
        for name, place in (("OTLP/HTTP on", addresses.http), ("OTLP/gRPC on", addresses.grpc))
        if place
    ]
    if places or not addresses.query:
        say(f"receiving {' and '.join(places) or 'nothing'} {_for_whom(settings, settings.receiver.auth)}")
    if addresses.query:
        say(f"answering queries on {addresses.query} {_for_whom(settings, settings.query.auth)}")


def _for_whom(settings: Settings, auth: str) -> str:
    return f"for organization {settings.organization}" if auth == "open" else "with API keys"
