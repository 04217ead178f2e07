"""`neve serve`: choose the parts, check their settings, and run them in this process or in a supervised group."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from neve.cli.output import json_option, print_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from neve.api.ports import Addresses
    from neve.app.settings import Settings
    from neve.cli.context import Context

PORT = click.IntRange(0, 65_535)


@click.command(short_help="Run receiver, ingestion, query API and maintenance.")
@click.option("--only", metavar="PARTS", help="Parts to run, separated by commas.  [default: serve.only]")
@click.option("--receiver", is_flag=True, help="Run only the receiver: --only receiver.")
@click.option("--query", is_flag=True, help="Run only the query API: --only api.")
@click.option("--host", metavar="ADDRESS", help="Listen address.  [default: receiver.host and query.host]")
@click.option("--http-port", type=PORT, help="Port of OTLP/HTTP; 0: any free port.  [default: receiver.http_port]")
@click.option("--grpc-port", type=PORT, help="Port of OTLP/gRPC; 0: any free port.  [default: receiver.grpc_port]")
@click.option("--query-port", type=PORT, help="Port of the query API; 0: any free port.  [default: query.port]")
@click.option(
    "--health-port", type=PORT, help="Port for health checks and metrics; 0: any free port.  [default: serve.port]"
)
@click.option("--instance", hidden=True, help="Name of the group of this process.")
@click.option("--lifeline", type=int, hidden=True, help="Pipe whose end stops the process.")
@click.option("--spark-port", type=PORT, hidden=True, help="Address of the Spark session that the group shares.")
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
    """Run the receiver, ingestion, the query API and the maintenance of the lake until stopped.

    Parts: receiver, api, ingest, scheduler (queues jobs), compact, maintain, rollup, search, series, traces and
    autopilot (run jobs), and tail. The receiver and the API each have their own process. All other parts share one
    process with a Spark session. Failed parts are restarted with increasing delays, and do not affect others. Several
    instances on one lake with a shared state store share the work.

    The receiver responds when a message is durable in the raw zone. SIGTERM or Ctrl+C starts a graceful shutdown of at
    most serve.drain_seconds. Paths on the HTTP port: /v1/traces, /v1/logs and /v1/metrics for OTLP, and /events/s3 for
    notifications of object storage.

    The web page is at the address of the query API, by default http://127.0.0.1:8480/. The API is described at
    /api/v1/openapi.json there. POST /api/v1/query accepts {"sql": "…"}.

    Health checks and metrics of all parts: /livez, /healthz, /readyz and /metrics on port 9090 (serve.port). The
    receiver and the API also serve their own on their ports. --host does not change serve.host.

    Without keys (receiver.auth and query.auth: open) it listens on loopback only, and rejects requests through proxies
    and from web pages of other origins. `neve keys create` creates a key.

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
    from neve.logger import load_structlog

    load_structlog()
    from neve.api.log_config import configure_logs
    from neve.app.serve.config import assign_processes
    from neve.app.serve.preflight import check_lake
    from neve.app.serve.process_group import new_instance, stop_with_parent
    from neve.app.serve.tls import apply_shared_tls
    from neve.lake.pandas_import import defer_pandas

    defer_pandas()
    settings = _override(
        apply_shared_tls(context.settings), "receiver", host=host, http_port=http_port, grpc_port=grpc_port
    )
    settings = _override(settings, "query", host=host, port=query_port)
    settings = _override(settings, "serve", port=health_port)  # its host can only be set in the configuration
    processes = assign_processes(_selected_parts(only, receiver, query) or settings.serve.only)
    configure_logs(process="serve" if len(processes) > 1 else next(iter(processes)))
    _check_settings(settings, processes)
    check_lake(context.lake, processes)
    if lifeline is not None:
        stop_with_parent(lifeline)
    code = _run(context, settings, processes, instance or new_instance(), spark_port, as_json)
    if lifeline is not None:
        from neve.api.serve_process import exit_now

        exit_now(code)
    click.get_current_context().exit(code)


def _selected_parts(only: str | None, receiver: bool, query: bool) -> list[str]:
    """Return the parts that the command line names, or nothing."""
    if (only is not None) + receiver + query > 1:
        raise click.UsageError("--only, --receiver and --query exclude each other; without them, all parts are served")
    if only is not None:
        return [name.strip() for name in only.split(",")]
    return ["receiver"] if receiver else ["api"] if query else []


def _check_settings(settings: Settings, processes: Mapping[str, Sequence[str]]) -> None:
    """Reject settings that contradict each other before anything is opened or started."""
    from neve.app.serve.config import API, RECEIVER, WORKER
    from neve.app.serve.tls import check_certificates
    from neve.app.wiring import load_configured_policies
    from neve.query.config import check_query
    from neve.receive.config import check_receiver
    from neve.state.config import check_bus_config

    check_certificates(settings, processes)
    if RECEIVER in processes:
        check_receiver(settings.receiver)
    if API in processes:
        check_query(settings.query)
    if WORKER in processes:
        load_configured_policies(settings)
        check_bus_config(settings.bus)


def _run(
    context: Context,
    settings: Settings,
    processes: Mapping[str, Sequence[str]],
    instance: str,
    spark_port: int | None,
    as_json: bool,
) -> int:
    """Run a single process here, or start and supervise several."""
    import asyncio

    from neve.app.serve.config import API, RECEIVER, WORKER

    def ready(addresses: Addresses) -> None:
        _show_addresses(settings, processes.get(WORKER, ()), addresses, as_json)

    if len(processes) > 1:
        from neve.api.group_supervisor import ServeGroup, supervise

        return asyncio.run(supervise(ServeGroup(settings, processes, context.config, instance), ready))
    from neve.api.serve_process import (  # listeners and engines, which only the worker processes of a group import
        run_api,
        run_receiver,
        run_worker,
    )
    from neve.app.serve.spark_sharing import with_connect_server, with_remote_spark

    if RECEIVER in processes:
        return run_receiver(settings, instance, ready)
    if API in processes:
        lake = with_remote_spark(context.lake, spark_port) if spark_port else context.lake
        return run_api(settings, lake, instance, ready)
    lake = with_connect_server(context.lake, spark_port) if spark_port else context.lake
    return run_worker(settings, lake, processes[WORKER], instance, ready)


def _override(settings: Settings, section: str, **options: str | int | None) -> Settings:
    """Return the settings with the options of the command line applied."""
    given = {key: value for key, value in options.items() if value is not None}
    if not given:
        return settings
    return settings.model_copy(update={section: getattr(settings, section).model_copy(update=given)})


def _show_addresses(settings: Settings, tending: Sequence[str], addresses: Addresses, as_json: bool) -> None:
    if as_json:
        # One line, so that a waiting program knows when the report is complete.
        auth = settings.receiver.auth if addresses.http or addresses.grpc else settings.query.auth
        print_text(json.dumps({**vars(addresses), "auth": auth}))
        return
    places = [
        f"{name} {place}"
        for name, place in (("OTLP/HTTP on", addresses.http), ("OTLP/gRPC on", addresses.grpc))
        if place
    ]
    if places or not (addresses.query or tending):
        print_text(f"receiving {' and '.join(places) or 'nothing'} {_format_auth(settings, settings.receiver.auth)}")
    if addresses.query:
        print_text(f"answering queries on {addresses.query} {_format_auth(settings, settings.query.auth)}")
        print_text(f"the web page is at {settings.query.origin or addresses.query}/")
    if tending:
        print_text(f"maintaining the lake: {', '.join(tending)}")
    if addresses.health and addresses.health not in (addresses.http, addresses.query):
        print_text(f"health and metrics on {addresses.health}")


def _format_auth(settings: Settings, auth: str) -> str:
    return f"for organization {settings.organization}" if auth == "open" else "with API keys"
