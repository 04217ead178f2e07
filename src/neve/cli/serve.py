"""`neve serve`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from neve.cli.output import json_option, say

if TYPE_CHECKING:
    from neve.api.server import Addresses
    from neve.app.settings import Settings
    from neve.cli.context import Context

PORT = click.IntRange(0, 65_535)


@click.command()
@click.option("--receiver", is_flag=True, help="Receive OTLP over HTTP and gRPC.")
@click.option("--host", metavar="ADDRESS", help="Address to listen on.  [default: receiver.host]")
@click.option("--http-port", type=PORT, help="Port of OTLP/HTTP; 0 takes a free one.  [default: receiver.http_port]")
@click.option("--grpc-port", type=PORT, help="Port of OTLP/gRPC; 0 takes a free one.  [default: receiver.grpc_port]")
@json_option
@click.pass_obj
def serve(
    context: Context, receiver: bool, host: str | None, http_port: int | None, grpc_port: int | None, as_json: bool
) -> None:
    """Run parts of Neve until stopped. A line on standard output says when they are ready, and where.

    The receiver answers a request when its bytes are durable in the raw zone. SIGTERM or Ctrl+C lets it finish the
    requests that it has begun. Paths on the HTTP port: /v1/traces, /v1/logs and /v1/metrics for OTLP, /events/s3 for
    notifications of object storage, and /healthz, /readyz and /metrics for those who watch.

    Without keys (receiver.auth: open) it listens on loopback only. `neve keys create` makes a key.

    \b
    Examples:
      neve serve --receiver
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
    if not receiver:
        raise click.UsageError("nothing to serve: name a part, --receiver")
    import asyncio

    from neve.api.logs import configure_logs
    from neve.api.server import serve_receiver

    configure_logs()
    settings = _with_options(context.settings, {"host": host, "http_port": http_port, "grpc_port": grpc_port})
    asyncio.run(serve_receiver(settings, lambda addresses: _ready(settings, addresses, as_json)))


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
