"""`neve trace`: draw the waterfall of a trace, with its critical path and the logs of each span."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from neve.cli.output import json_option, org_option, print_json
from neve.errors import QueryError, TraceMissing

if TYPE_CHECKING:
    from neve.cli.context import Context

DEFAULT_SPANS = 200
TRACE_DIGITS = 32


@click.command()
@click.argument("trace_id")
@json_option
@click.option(
    "--limit",
    "-n",
    type=click.IntRange(min=1),
    default=DEFAULT_SPANS,
    show_default=True,
    help="Spans to draw: those nearest to the root.",
)
@click.option("--logs/--no-logs", "has_logs", default=True, help="Print the logs of each span.  [default: logs]")
@click.option("--server", metavar="ADDRESS", help="Read from a server, for example http://127.0.0.1:8480.")
@click.option("--key", envvar="NEVE_API_KEY", help="API key for the server.  [env: NEVE_API_KEY]")
@org_option
@click.pass_obj
def trace(
    context: Context,
    trace_id: str,
    as_json: bool,
    limit: int,
    has_logs: bool,
    server: str | None,
    key: str | None,
    org: str | None,
) -> None:
    """Draw a trace as a waterfall. TRACE_ID is hexadecimal, or a `traceparent`; no time range is needed.

    The bar of a span is solid where the span is on the critical path: the duration of the trace depends on it. Logs are
    below the span that wrote them.

    \b
    Examples:
      neve trace 5b8aa5a2d2c872e8321cf37308d69df2
      neve trace 5b8aa5a2d2c872e8321cf37308d69df2 --no-logs --limit 1000
      neve trace 5b8aa5a2d2c872e8321cf37308d69df2 --json --server http://127.0.0.1:8480
    """
    from neve.cli.terminal.waterfall import describe_spans, draw_waterfall

    if server and org:
        raise QueryError(
            f"--org is {org!r}, expected none together with --server: the key selects the organization",
            hint="omit --org, and pass a key of that organization with --key",
        )
    digits = _parse_id(trace_id)
    found, logs = _read_remote(context, server, key, digits) if server else _read_local(context, org, digits)
    if not found["span_count"]:
        where = "on the server" if server else f"in the organization {context.organization(org)}"
        hint = "check the id; spans are stored about ten seconds after they were received"
        raise TraceMissing(f"trace {digits} is not stored {where}", hint=hint)
    records = logs["logs"] if has_logs else []
    if as_json:
        print_json(describe_spans(found, records))
    else:
        draw_waterfall(found, records, limit)


def _parse_id(text: str) -> str:
    from neve.query.sql.text_ids import parse_id

    found = parse_id(text, "trace_id")
    if found is None or len(found) != TRACE_DIGITS:
        raise QueryError(f"the trace id is {text[:100]!r}, expected {TRACE_DIGITS} hexadecimal digits")
    return found


def _read_local(context: Context, org: str | None, trace_id: str) -> tuple[dict[str, Any], dict[str, Any]]:
    from neve.app.query.service import build_query_service
    from neve.app.query.traceql import read_trace_records
    from neve.query.engine_errors import planning_errors
    from neve.query.service import no_limits

    service = build_query_service(context.settings, context.lake, limits=no_limits)
    try:
        with planning_errors():
            return read_trace_records(service, context.organization(org), trace_id)
    finally:
        service.close()


def _read_remote(
    context: Context, server: str, key: str | None, trace_id: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    from neve.cli.remote_client import RemoteClient

    client = RemoteClient(server, key, context.settings.client)
    return client.get(f"/api/v1/traces/{trace_id}"), client.get(f"/api/v1/traces/{trace_id}/logs")
