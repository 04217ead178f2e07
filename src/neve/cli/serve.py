"""`neve serve`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from neve.cli.output import json_option, say

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from neve.api.addresses import Addresses
    from neve.app.settings import Settings
    from neve.cli.context import Context

PORT = click.IntRange(0, 65_535)


@click.command()
@click.option("--only", metavar="PARTS", help="Parts to run, with commas between them.  [default: serve.only]")
@click.option("--receiver", is_flag=True, help="Only receive: --only receiver.")
@click.option("--query", is_flag=True, help="Only answer queries: --only api.")
@click.option("--host", metavar="ADDRESS", help="Address to listen on.  [default: receiver.host and query.host]")
@click.option("--http-port", type=PORT, help="Port of OTLP/HTTP; 0 takes a free one.  [default: receiver.http_port]")
@click.option("--grpc-port", type=PORT, help="Port of OTLP/gRPC; 0 takes a free one.  [default: receiver.grpc_port]")
@click.option("--query-port", type=PORT, help="Port of the query API; 0 takes a free one.  [default: query.port]")
@click.option("--health-port", type=PORT, help="Port of those who watch; 0 takes a free one.  [default: serve.port]")
@click.option("--instance", hidden=True, help="The name of the group that this process belongs to.")
@click.option("--lifeline", type=int, hidden=True, help="A pipe that ends when the process is to end.")
@click.option("--spark-port", type=PORT, hidden=True, help="Where the processes of the group share one Spark.")
@json_option
@click.pass_obj
def serve(
    context: Context,
    only: str | None,
    receiver: bool,
    query: bool,
    host: str | None,
    http_port: int | None,
    grpc_port: int | None,
    query_port: int | None,
    health_port: int | None,
    instance: str | None,
    lifeline: int | None,
    spark_port: int | None,
    as_json: bool,
) -> None:
    """Receive telemetry, take it in, answer queries and tend the lake until stopped. A line says where.

    Parts: receiver; api; ingest; scheduler, which hands out work; compact, maintain, rollup, search and autopilot,
    which do it; tail. The receiver and the API get a process each, all others share one with its Spark session. What
    fails is started again, a little later each time, and takes nothing else down. Several of them on one lake, with a
    shared state store, share the work.

    The receiver answers a request when its bytes are durable in the raw zone. SIGTERM or Ctrl+C lets every part finish
    what it has begun, for serve.drain_seconds. Paths on the HTTP port: /v1/traces, /v1/logs and /v1/metrics for OTLP,
    and /events/s3 for notifications of object storage.

    The query API is described at /api/v1/openapi.json of its own port; POST /api/v1/query takes {"sql": "…"}.

    Health checks and metrics of all parts are at /livez, /healthz, /readyz and /metrics of port 9090 (serve.port);
    those of the receiver and of the API alone also on their own ports. --host leaves serve.host as it is.

    Without keys (receiver.auth and query.auth: open) it listens on loopback only, and refuses requests through proxies
    and from pages of other origins. `neve keys create` makes a key.

    \b
    Examples:
      neve serve
      neve serve --only receiver,api
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
    from neve.api.logs import configure_logs
    from neve.app.serve.choice import choose
    from neve.app.serve.instance import new_instance
    from neve.app.serve.lake_look import look_at_lake
    from neve.app.serve.lifeline import drain_with_parent

    settings = _with(context.settings, "receiver", host=host, http_port=http_port, grpc_port=grpc_port)
    settings = _with(settings, "query", host=host, port=query_port)
    settings = _with(settings, "serve", port=health_port)  # its address is set by name only
    processes = choose(_wanted(only, receiver, query) or settings.serve.only)
    configure_logs(process="serve" if len(processes) > 1 else next(iter(processes)))
    _check(settings, processes)
    look_at_lake(context.lake, processes)
    if lifeline is not None:
        drain_with_parent(lifeline)
    code = _run(context, settings, processes, instance or new_instance(), spark_port, as_json)
    click.get_current_context().exit(code)


def _wanted(only: str | None, receiver: bool, query: bool) -> list[str]:
    """The parts that the command line names; none where it names none."""
    if (only is not None) + receiver + query > 1:
        raise click.UsageError("--only, --receiver and --query exclude each other; without them, all parts are served")
    if only is not None:
        return [name.strip() for name in only.split(",")]
    return ["receiver"] if receiver else ["api"] if query else []


def _check(settings: Settings, processes: Mapping[str, Sequence[str]]) -> None:
    """What does not fit together is said before anything is opened or started."""
    from neve.app.policies import given_policies
    from neve.app.serve.choice import API, RECEIVER, TEND
    from neve.lake.bus_config import check_bus
    from neve.query.config import check_query
    from neve.receive.config import check_receiver

    if RECEIVER in processes:
        check_receiver(settings.receiver)
    if API in processes:
        check_query(settings.query)
    if TEND in processes:
        given_policies(settings)
        check_bus(settings.bus)


def _run(
    context: Context,
    settings: Settings,
    processes: Mapping[str, Sequence[str]],
    instance: str,
    spark_port: int | None,
    as_json: bool,
) -> int:
    """One process is this one; several are started by it, and kept running."""
    import asyncio

    from neve.app.serve.choice import API, RECEIVER, TEND

    def ready(addresses: Addresses) -> None:
        _ready(settings, processes.get(TEND, ()), addresses, as_json)

    if len(processes) > 1:
        from neve.api.supervise import Group, supervise

        return asyncio.run(supervise(Group(settings, processes, context.config, instance), ready))
    from neve.api.foreground import run_api, run_receiver, run_tend  # doors and engines, which a group leaves to others
    from neve.app.serve.shared_spark import borrowed, lent

    if RECEIVER in processes:
        return run_receiver(settings, instance, ready)
    if API in processes:
        lake = borrowed(context.lake, spark_port) if spark_port else context.lake
        return run_api(settings, lake, instance, ready)
    lake = lent(context.lake, spark_port) if spark_port else context.lake
    return run_tend(settings, lake, processes[TEND], instance, ready)


def _with(settings: Settings, section: str, **options: str | int | None) -> Settings:
    """The settings with what the command line says in their place."""
    given = {key: value for key, value in options.items() if value is not None}
    return settings.model_copy(update={section: getattr(settings, section).model_copy(update=given)})


def _ready(settings: Settings, tending: Sequence[str], addresses: Addresses, as_json: bool) -> None:
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
    if places or not (addresses.query or tending):
        say(f"receiving {' and '.join(places) or 'nothing'} {_for_whom(settings, settings.receiver.auth)}")
    if addresses.query:
        say(f"answering queries on {addresses.query} {_for_whom(settings, settings.query.auth)}")
    if tending:
        say(f"tending the lake: {', '.join(tending)}")
    if addresses.health and addresses.health not in (addresses.http, addresses.query):
        say(f"health and metrics on {addresses.health}")


def _for_whom(settings: Settings, auth: str) -> str:
    return f"for organization {settings.organization}" if auth == "open" else "with API keys"
